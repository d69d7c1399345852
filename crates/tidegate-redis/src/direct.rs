//! Connections of the callers' own runtimes. A call that finds the store idle goes over the connection of its runtime,
//! without the way to the store's thread and back.
//!
//! Each runtime that asks has one such connection, and at most one call under way on it. Any other call goes by the
//! store's thread, and so does each call while more than a few wait for that thread or went with its last write: it merges
//! calls, and it judges whether the store is fit. A connection that fails, or is late, is not used again.

mod call;

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering::Relaxed};
use std::time::Duration;

use redis::Value;
use tidegate_core::Micros;
use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use super::counts::RequestCounts;
use super::dispatch::{LOOK, Link, run_id};
use super::inbox::{NoReply, Question, StoreState};
use super::link::{NodeAddress, PlainSocket, connect_plain, plain_address};
use super::route::{Delivered, reply_of};
use super::script::Call;
use crate::store::StoreError;
use call::{
    CallRun, DirectCount, SentQuestion, by_deadline, failed, ran_nothing, run, until_late,
    value_or_error, verdict,
};

/// The maximum number of runtimes with a connection.
const MOST_RUNTIMES: usize = 64;
/// The pause before a connection that failed is opened again.
const AGAIN: Duration = Duration::from_secs(1);
/// More requests in the last write of the store's thread are load, which that thread merges.
const FEW_REQUESTS: usize = 2;
/// A task that wakes so much later than it should has stood still, and its silence says nothing about the store.
const STALL: Duration = Duration::from_millis(3);

/// The connections to a store.
pub(super) struct DirectLinks {
    shared: Arc<StoreState>,
    /// The runtime of the store's thread, which asks itself for nothing.
    own: Id,
    by_runtime: Mutex<HashMap<Id, DirectLink>>,
}

/// The connection of a runtime.
struct DirectLink {
    state: LinkState,
    /// The end of the wait for the call under way. Its task receives then whether this runtime has stood still.
    due: Option<(Instant, oneshot::Sender<bool>)>,
    /// The task that looks at `due`, and when it does so next: a timer for each call would wake the runtime each time.
    watch: Option<(Instant, JoinHandle<()>)>,
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
    over: oneshot::Receiver<bool>,
}

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
    pub(super) fn new(shared: &Arc<StoreState>, own: Id) -> Arc<Self> {
        Arc::new(Self { shared: Arc::clone(shared), own, by_runtime: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Id, DirectLink>> {
        self.by_runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the connection of a runtime for a call: idle, or else, if it may be opened now, none.
    fn take(&self, runtime: Id, server: u64, deadline: Instant) -> Option<Option<OpenLink>> {
        let mut links = self.lock();
        if links.len() >= MOST_RUNTIMES && !links.contains_key(&runtime) {
            // Runtimes that have ended leave their connections.
            links.retain(|_, link| !matches!(&link.state, LinkState::Idle(idle) if idle.is_dead()));
            if links.len() >= MOST_RUNTIMES {
                return None;
            }
        }
        let now = Instant::now();
        let link = links.entry(runtime).or_insert_with(|| DirectLink {
            state: LinkState::Closed(now),
            due: None,
            watch: None,
        });
        // The task would end the wait of this call too late.
        if link.watch.as_ref().is_some_and(|(at, watch)| *at > deadline && !watch.is_finished()) {
            return None;
        }
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
        self.link.route.server() == server && !self.is_dead() && self.socket.is_quiet()
    }

    /// Returns whether the task of its connection has ended, perhaps with its runtime.
    fn is_dead(&self) -> bool {
        self.socket.driver.is_finished()
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
        if runtime.id() == links.own {
            return None;
        }
        let link = links.take(runtime.id(), server, deadline)?;
        let turn = LinkTurn { links: Arc::clone(links), runtime: runtime.id(), link };
        if turn.link.is_none() {
            runtime.spawn(turn.open(address.clone()));
            return None;
        }
        let (due, over) = oneshot::channel();
        if let Some(link) = links.lock().get_mut(&runtime.id()) {
            link.due = Some((deadline, due));
            // Another runtime may have had this id before.
            if link.watch.as_ref().is_none_or(|(_, watch)| watch.is_finished()) {
                let watch = watch(Arc::clone(links), runtime.id(), deadline);
                link.watch = Some((deadline, runtime.spawn(watch)));
            }
        }
        Some(Self { turn, over })
    }

    /// Sends a call, and answers the question with the reply. If the server has not run the call, it goes by the store's
    /// thread.
    pub(super) async fn ask(self, question: Question) {
        let Self { mut turn, over } = self;
        let shared = Arc::clone(&turn.links.shared);
        // A runtime that has stood still leaves the store no time.
        let left = question.deadline.saturating_duration_since(Instant::now());
        let Some(link) = turn.link.take_if(|_| left >= shared.deadline / 4) else {
            return shared.inbox.push(question);
        };
        let route = link.link.route.clone();
        let call = Arc::clone(&question.asked);
        let deadline = question.deadline;
        let caller = SentQuestion(Some(question));
        let under_way = DirectCount::new(&shared.counts);
        let sent_at = Instant::now();
        let mut running: CallRun = Box::pin(run(link, Arc::clone(&call), deadline));
        let replied = by_deadline(&mut running, over).await;
        if let Ok(Ok(_)) = replied {
            let took = Micros::from(sent_at.elapsed());
            shared.counts.calls.add(took.as_micros(), 1);
        }
        match replied {
            Ok(Ok((link, value))) => turn.answer(link, value, caller),
            Ok(Err(error)) => {
                drop(turn);
                failed(&shared, error, deadline, caller).await;
            }
            Err(has_stalled) => {
                drop(turn);
                let late = caller.give_up(verdict(&shared, &call, has_stalled));
                drop(under_way);
                until_late(&shared, running, route, &call, late).await;
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
    fn answer(mut self, link: OpenLink, value: Value, mut caller: SentQuestion) {
        let shared = Arc::clone(&self.links.shared);
        let route = link.link.route.clone();
        let reply = match value_or_error(value) {
            // It ran nothing. The store's thread asks it as well, and judges.
            Err(error) if ran_nothing(&error) => {
                drop(self);
                if let Some(question) = caller.0.take() {
                    shared.inbox.push(question);
                }
                return;
            }
            Err(error) => {
                RequestCounts::add(&shared.counts.failed, 1);
                Err(error)
            }
            Ok(value) => reply_of(value).map(|reply| Delivered { reply, route }),
        };
        self.link = Some(link);
        // Before the answer, after which the caller may ask again.
        drop(self);
        caller.answer(reply.map_err(|error| NoReply { error, late: None }));
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
        let now = Instant::now();
        let has_stalled = now > deadline + STALL;
        let mut links = direct.lock();
        let Some(link) = links.get_mut(&runtime) else { return };
        match (&link.due, &mut link.watch) {
            (Some((later, _)), Some((next, _))) if *later > now => {
                deadline = *later;
                *next = deadline;
            }
            _ => {
                // Under the lock, so that the next call begins another watch.
                link.watch = None;
                if let Some((_, due)) = link.due.take() {
                    // A reply may have come just now.
                    let _ = due.send(has_stalled);
                }
                return;
            }
        }
    }
}
