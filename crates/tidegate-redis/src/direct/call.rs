//! A call over a connection of a runtime: its reply, in time or late, and the answer without a reply.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, atomic::Ordering::Relaxed};
use std::task::Poll;

use redis::aio::ConnectionLike;
use redis::{ServerErrorKind, Value};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};

use super::OpenLink;
use crate::counts::RequestCounts;
use crate::dispatch::{LATEST, read_sockets};
use crate::error::{of_client, of_single_server};
use crate::inbox::{NoReply, Question, Replied, StoreState};
use crate::route::{Delivered, Route, reply_of};
use crate::script::{Call, JoinedScript};
use crate::store::StoreError;

/// Turns of the runtime in which a reply that lies in the socket is read.
const TURNS: usize = 2;
/// A script that does nothing.
static NOTHING: LazyLock<Arc<JoinedScript>> =
    LazyLock::new(|| Arc::new(JoinedScript::new("return 1".to_owned())));

/// The question of a call that was sent. If its task is dropped with its runtime, no reply is known.
pub(super) struct SentQuestion(pub(super) Option<Question>);

impl SentQuestion {
    pub(super) fn answer(mut self, replied: Replied) {
        if let Some(question) = self.0.take() {
            question.caller.answer(replied);
        }
    }

    /// Ends the wait. Returns the channel for the late reply.
    pub(super) fn give_up(
        self,
        error: StoreError,
    ) -> oneshot::Sender<Result<Delivered, StoreError>> {
        let (late, hears) = oneshot::channel();
        self.answer(Err(NoReply { error, late: Some(hears) }));
        late
    }
}

impl Drop for SentQuestion {
    fn drop(&mut self) {
        if let Some(question) = self.0.take() {
            let no_reply = NoReply { error: StoreError::Timeout, late: None };
            question.caller.answer(Err(no_reply));
        }
    }
}

/// A call over a connection, until the reply. An error says that the connection failed.
pub(super) type CallRun =
    Pin<Box<dyn Future<Output = Result<(OpenLink, Value), StoreError>> + Send>>;

/// Returns whether a server refuses any script before it runs.
pub(super) const fn ran_nothing(error: &StoreError) -> bool {
    use StoreError::{Busy, ClusterDown, Loading, ReadOnly, TakesNoWrites};
    matches!(error, Busy | ClusterDown(_) | Loading | ReadOnly | TakesNoWrites(_))
}

/// Runs a call over a connection. An error says that the connection failed.
pub(super) async fn run(
    mut open: OpenLink,
    call: Arc<Call>,
    deadline: Instant,
) -> Result<(OpenLink, Value), StoreError> {
    loop {
        let link = &mut open.link;
        let command = link.command(&call.script, &call.keys, &call.args);
        let replied = link.route.connection().req_packed_command(&command).await;
        match replied.map_err(of_client)? {
            // The server has forgotten the script, and no caller is left after the deadline.
            Value::ServerError(error)
                if error.kind() == Some(ServerErrorKind::NoScript) && Instant::now() < deadline =>
            {
                link.forget_scripts();
            }
            value => return Ok((open, value)),
        }
    }
}

/// Waits for the reply. Returns an error if there is none when the time is over: whether others ask about the same
/// limiter.
pub(super) async fn by_deadline(
    running: &mut CallRun,
    mut over: oneshot::Receiver<bool>,
) -> Result<<CallRun as Future>::Output, bool> {
    let replied = poll_fn(|context| match running.as_mut().poll(context) {
        Poll::Ready(replied) => Poll::Ready(Ok(replied)),
        Poll::Pending => Pin::new(&mut over).poll(context).map(|over| Err(over.unwrap_or(true))),
    });
    let together = match replied.await {
        Ok(replied) => return Ok(replied),
        Err(together) => together,
    };
    // If this runtime has stood still, the reply may lie unread in the socket.
    read_sockets(TURNS).await;
    match poll_fn(|context| Poll::Ready(running.as_mut().poll(context))).await {
        Poll::Ready(replied) => Ok(replied),
        Poll::Pending => Err(together),
    }
}

/// Waits for a late reply, while the store's thread asks as well: it alone notices that a store stays silent.
pub(super) async fn until_late(
    shared: &StoreState,
    running: CallRun,
    route: Route,
    call: &Call,
    late: oneshot::Sender<Result<Delivered, StoreError>>,
) {
    let asked = shared.inbox.ask(&Call::probe(&NOTHING), 0, Instant::now() + shared.deadline);
    let replied = timeout(LATEST, running).await;
    drop(asked);
    let replied = match replied {
        Ok(replied) => {
            RequestCounts::add(&shared.counts.late, usize::from(!call.is_background()));
            replied.and_then(|(_, value)| value_or_error(value)).and_then(reply_of)
        }
        Err(_) => Err(StoreError::Timeout),
    };
    drop(late.send(replied.map(|reply| Delivered { reply, route })));
}

/// Reports that a connection failed after the call was sent. The store's thread finds out before if this is an outage,
/// so that no caller sees an error before it is reported.
pub(super) async fn failed(
    shared: &StoreState,
    error: StoreError,
    deadline: Instant,
    caller: SentQuestion,
) {
    let asked = shared.inbox.ask(&Call::probe(&NOTHING), 0, Instant::now() + shared.deadline);
    // The thread drops a question that no caller waits for.
    let answered = tokio::spawn(asked);
    drop(timeout_at(deadline, answered).await);
    RequestCounts::add(&shared.counts.failed, 1);
    caller.answer(Err(NoReply { error, late: None }));
}

pub(super) fn value_or_error(value: Value) -> Result<Value, StoreError> {
    value.extract_error().map_err(|error| of_single_server(of_client(error)))
}

/// Counts a call as under way until it is dropped.
pub(super) struct DirectCount<'a>(&'a RequestCounts);

impl<'a> DirectCount<'a> {
    pub(super) fn new(counts: &'a RequestCounts) -> Self {
        counts.direct.fetch_add(1, Relaxed);
        Self(counts)
    }
}

impl Drop for DirectCount<'_> {
    fn drop(&mut self) {
        self.0.direct.fetch_sub(1, Relaxed);
    }
}
