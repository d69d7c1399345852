//! Connections of the callers' own runtimes. A call that finds the store idle goes over the connection of its runtime,
//! without the way to the store's thread and back.
//!
//! Each runtime that asks has one such connection, and at most one call under way on it. Any other call goes by the
//! store's thread, and so does each call while more than a few wait for that thread or went with its last write: it merges
//! calls, and it judges whether the store is fit. A connection that fails, or is late, is not used again.

use std::collections::HashMap;
use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, atomic::Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{ServerErrorKind, Value};
use tidegate_core::Micros;
use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use super::counts::RequestCounts;
use super::dispatch::{LATEST, LOOK, Link, read_sockets, run_id};
use super::error::{RedisMeaning as _, Symptom};
use super::inbox::{NoReply, Question, StoreState};
use super::link::{NodeAddress, PlainSocket, connect_plain, plain_address};
use super::route::{Delivered, Route, reply_of};
use super::script::{Call, JoinedScript};
use crate::store::StoreError;

/// The maximum number of runtimes with a connection.
const MOST_RUNTIMES: usize = 64;
/// The pause before a connection that failed is opened again.
const AGAIN: Duration = Duration::from_secs(1);
/// Turns of the runtime in which a reply that lies in the socket is read.
const TURNS: usize = 2;
/// More requests in the last write of the store's thread are load, which that thread merges.
const FEW_REQUESTS: usize = 2;
/// If as many requests wait for a silent store, it is not decided as in an outage.
const MANY_REQUESTS: usize = 5;
/// A call that does nothing.
static NOTHING: LazyLock<Arc<JoinedScript>> =
    LazyLock::new(|| Arc::new(JoinedScript::new("return 1".to_owned())));

/// The connections to a store.
pub(super) struct DirectLinks {
    shared: Arc<StoreState>,
    by_runtime: Mutex<HashMap<Id, DirectLink>>,
}

/// The connection of a runtime.
struct DirectLink {
    state: LinkState,
    /// The end of the wait for the call under way, which is told then.
    due: Option<(Instant, oneshot::Sender<()>)>,
    /// The task that looks at `due`: a timer for each call would wake the runtime each time.
    watch: Option<JoinHandle<()>>,
}

/// A connection, and its socket.
struct OpenLink {
    link: Link,
    socket: PlainSocket,
}

enum LinkState {
    Idle(OpenLink),
    /// It is being opened, or a call is under way.
    Busy,
    /// It is not opened before then.
    Closed(Instant),
}

/// The right to use the connection of a runtime. It ends when this is dropped: a connection without a fault is in
/// `link` then.
struct LinkTurn {
    links: Arc<DirectLinks>,
    runtime: Id,
    link: Option<OpenLink>,
}

/// The right to send a call, and the end of its time.
pub(super) struct CallTurn {
    turn: LinkTurn,
    over: oneshot::Receiver<()>,
}

/// A call over a connection, until the reply. An error says that the connection failed.
type CallRun = Pin<Box<dyn Future<Output = Result<(OpenLink, Value), StoreError>> + Send>>;

impl Drop for LinkTurn {
    fn drop(&mut self) {
        let state = match self.link.take() {
            Some(link) => LinkState::Idle(link),
            None => LinkState::Closed(Instant::now() + AGAIN),
        };
        if let Some(link) = self.links.lock().get_mut(&self.runtime) {
            link.state = state;
            link.due = None;
        }
    }
}

impl DirectLinks {
    pub(super) fn new(shared: &Arc<StoreState>) -> Arc<Self> {
        Arc::new(Self { shared: Arc::clone(shared), by_runtime: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Id, DirectLink>> {
        self.by_runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the connection of a runtime: idle, or else, if it may be opened now, none.
    fn take(&self, runtime: Id, server: u64) -> Option<Option<OpenLink>> {
        let mut links = self.lock();
        if links.len() >= MOST_RUNTIMES && !links.contains_key(&runtime) {
            return None;
        }
        let now = Instant::now();
        let link = links.entry(runtime).or_insert_with(|| DirectLink {
            state: LinkState::Closed(now),
            due: None,
            watch: None,
        });
        match mem::replace(&mut link.state, LinkState::Busy) {
            LinkState::Idle(idle) => Some(idle.serves(server).then_some(idle)),
            LinkState::Closed(again) if again <= now => Some(None),
            state => {
                link.state = state;
                None
            }
        }
    }
}

impl OpenLink {
    /// Returns whether it is open, to this server. Its end may lie in the socket.
    fn serves(&self, server: u64) -> bool {
        self.link.route.server() == server && self.socket.is_quiet()
    }
}

impl CallTurn {
    /// Returns the right to send a call over a connection of this runtime; `None` if the call has to go by the store's
    /// thread. If there is no connection yet, it begins to be opened.
    pub(super) fn of(links: &Arc<DirectLinks>, call: &Call, deadline: Instant) -> Option<Self> {
        let shared = &links.shared;
        let server = shared.fit_server.load(Relaxed);
        if !shared.settings.direct || server == 0 || !call.may_run_at(server) || is_loaded(shared) {
            return None;
        }
        let address = plain_address(&shared.settings)?;
        let runtime = Handle::try_current().ok()?;
        let link = links.take(runtime.id(), server)?;
        let turn = LinkTurn { links: Arc::clone(links), runtime: runtime.id(), link };
        if turn.link.is_none() {
            runtime.spawn(turn.open(address.clone()));
            return None;
        }
        let (due, over) = oneshot::channel();
        if let Some(link) = links.lock().get_mut(&runtime.id()) {
            link.due = Some((deadline, due));
            // Another runtime may have had this id before.
            if link.watch.as_ref().is_none_or(JoinHandle::is_finished) {
                let watch = watch(Arc::clone(links), runtime.id(), deadline);
                link.watch = Some(runtime.spawn(watch));
            }
        }
        Some(Self { turn, over })
    }

    /// Sends a call, and answers the question with the reply. If the server has not run the call, it goes by the store's
    /// thread.
    pub(super) async fn ask(self, question: Question) {
        let Self { mut turn, over } = self;
        let shared = Arc::clone(&turn.links.shared);
        let Some(link) = turn.link.take() else { return shared.inbox.push(question) };
        let route = link.link.route.clone();
        let under_way = DirectCount::new(&shared.counts);
        let sent_at = Instant::now();
        let mut running: CallRun = Box::pin(run(link, Arc::clone(&question.asked)));
        let replied = match now(&mut running).await {
            // The task that writes to the socket has not run since, so the call was never sent.
            Poll::Ready(Err(_)) => return shared.inbox.push(question),
            Poll::Ready(replied) => Some(replied),
            Poll::Pending => by_deadline(&mut running, over).await,
        };
        drop(under_way);
        match replied {
            Some(Ok((link, value))) => {
                let took = Micros::from(sent_at.elapsed());
                shared.counts.calls.add(took.as_micros(), 1);
                turn.answer(link, value, question);
            }
            Some(Err(error)) => {
                drop(turn);
                failed(&shared, error, question).await;
            }
            None => {
                drop(turn);
                late(&shared, running, route, question).await;
            }
        }
    }
}

impl LinkTurn {
    /// Opens the connection, to the server that the store's thread has found fit.
    async fn open(mut self, address: NodeAddress) {
        let open = async {
            let opened = connect_plain(&self.links.shared.settings, &address).await;
            let (mut connection, socket) = opened?;
            // A server that does not tell its id may be another server.
            let run_id = run_id(&mut connection).await?;
            Ok::<_, StoreError>(run_id.map(|run_id| (connection, socket, run_id)))
        };
        let Ok(Ok(Some((connection, socket, run_id)))) = timeout(LOOK, open).await else { return };
        let server = self.links.shared.server_of(Some(run_id));
        if server == self.links.shared.fit_server.load(Relaxed) {
            self.link = Some(OpenLink { link: Link::new(connection, 0, server), socket });
        }
    }

    /// Answers a question with a reply in time.
    fn answer(mut self, link: OpenLink, value: Value, question: Question) {
        let route = link.link.route.clone();
        let reply = match value_or_error(value) {
            // It did nothing. The store's thread asks it as well, and judges.
            Err(error) if error.symptom() == Symptom::Gone => {
                return self.links.shared.inbox.push(question);
            }
            Err(error) => {
                RequestCounts::add(&self.links.shared.counts.failed, 1);
                Err(error)
            }
            Ok(value) => reply_of(value).map(|reply| Delivered { reply, route }),
        };
        self.link = Some(link);
        // Before the answer, after which the caller may ask again.
        drop(self);
        drop(question.answer.send(reply.map_err(|error| NoReply { error, late: None })));
    }
}

/// Returns whether calls wait for the store's thread, which merges them.
fn is_loaded(shared: &StoreState) -> bool {
    shared.last_requests.load(Relaxed) > FEW_REQUESTS || shared.inbox.waiting() > FEW_REQUESTS
}

/// Ends the waits for replies over the connection of a runtime at their deadlines, as long as calls follow one another.
async fn watch(direct: Arc<DirectLinks>, runtime: Id, mut deadline: Instant) {
    loop {
        sleep_until(deadline).await;
        let mut links = direct.lock();
        let Some(link) = links.get_mut(&runtime) else { return };
        match &link.due {
            Some((later, _)) if *later > Instant::now() => deadline = *later,
            _ => {
                // Under the lock, so that the next call begins another watch.
                link.watch = None;
                if let Some((_, due)) = link.due.take() {
                    // A reply may have come just now.
                    let _ = due.send(());
                }
                return;
            }
        }
    }
}

/// Runs a call over a connection. An error says that the connection failed.
async fn run(mut open: OpenLink, call: Arc<Call>) -> Result<(OpenLink, Value), StoreError> {
    loop {
        let link = &mut open.link;
        let command = link.command(&call.script, &call.keys, &call.args);
        let replied = link.route.connection().req_packed_command(&command).await;
        match replied.map_err(|error| StoreError::of(&error))? {
            Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript) => {
                link.forget_scripts();
            }
            value => {
                link.heard_at = Instant::now();
                return Ok((open, value));
            }
        }
    }
}

/// Polls once.
async fn now(running: &mut CallRun) -> Poll<<CallRun as Future>::Output> {
    poll_fn(|context| Poll::Ready(running.as_mut().poll(context))).await
}

/// Waits for the reply; returns `None` if there is none when the time is over.
async fn by_deadline(
    running: &mut CallRun,
    mut over: oneshot::Receiver<()>,
) -> Option<<CallRun as Future>::Output> {
    let replied = poll_fn(|context| match running.as_mut().poll(context) {
        Poll::Ready(replied) => Poll::Ready(Some(replied)),
        Poll::Pending => Pin::new(&mut over).poll(context).map(|_| None),
    });
    match replied.await {
        Some(replied) => Some(replied),
        None => {
            // If this thread stood still, the reply may lie unread in the socket.
            read_sockets(TURNS).await;
            match now(running).await {
                Poll::Ready(replied) => Some(replied),
                Poll::Pending => None,
            }
        }
    }
}

/// Ends the wait of a caller, and waits on for the late reply.
async fn late(shared: &StoreState, running: CallRun, route: Route, question: Question) {
    let Question { asked, answer, .. } = question;
    let (late, hears) = oneshot::channel();
    let error = if shared.inbox.waiting() >= MANY_REQUESTS {
        if !asked.is_background() {
            shared.note_overloaded();
        }
        // Some of them may wait for its key.
        StoreError::Overloaded { together: true }
    } else {
        StoreError::Timeout
    };
    drop(answer.send(Err(NoReply { error, late: Some(hears) })));
    let replied = timeout(LATEST, running).await.unwrap_or(Err(StoreError::Timeout));
    RequestCounts::add(&shared.counts.late, usize::from(!asked.is_background()));
    let reply = replied.and_then(|(_, value)| value_or_error(value)).and_then(reply_of);
    drop(late.send(reply.map(|reply| Delivered { reply, route })));
}

/// Reports that a connection failed after the call was sent. The store's thread finds out before if this is an outage,
/// so that no caller sees an error before it is reported.
async fn failed(shared: &StoreState, error: StoreError, question: Question) {
    let nothing = Call::of_script(&NOTHING, Vec::new(), Vec::new());
    drop(shared.inbox.ask(&nothing, 0, question.deadline).await);
    RequestCounts::add(&shared.counts.failed, 1);
    drop(question.answer.send(Err(NoReply { error, late: None })));
}

fn value_or_error(value: Value) -> Result<Value, StoreError> {
    value.extract_error().map_err(|error| StoreError::of(&error).of_single_server())
}

/// Counts a call as under way until it is dropped.
struct DirectCount<'a>(&'a RequestCounts);

impl<'a> DirectCount<'a> {
    fn new(counts: &'a RequestCounts) -> Self {
        counts.direct.fetch_add(1, Relaxed);
        Self(counts)
    }
}

impl Drop for DirectCount<'_> {
    fn drop(&mut self) {
        self.0.direct.fetch_sub(1, Relaxed);
    }
}
