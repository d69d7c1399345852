//! Connections of the callers' own runtimes. A call that finds the store idle goes over the connection of its runtime,
//! without the way to the store's thread and back.
//!
//! Each runtime that asks has one such connection, and at most one call under way on it. Any other call goes by the
//! store's thread, and so does each call while others wait for that thread, and within a second of many: it merges calls,
//! and it judges whether the store is fit. A connection that fails, or is late, is not used again.
//!
//! The questions of a runtime are asked in the order in which they came. So no call begins while a question waits for the
//! store's thread, and questions that come while a call is under way wait for its end. A single question follows it over
//! the connection then. Several go to the thread, and the connection rests. If the call takes longer than [`PATIENCE`], they
//! go to the thread before its end: it alone judges how much waits for a slow store. If replies take long, the wait would
//! be longer than the way to the thread, so the connection rests too.

mod call;
mod turn;

use std::collections::HashMap;
use std::mem;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::dispatch::Link;
use super::inbox::{Inbox, MOST_DIRECT_LIMITERS, Question, StoreState};
use super::link::{NodeAddress, PlainSocket, plain_address};
use super::script::Call;
use turn::{CallTurn, LinkTurn};

/// The maximum number of runtimes with a connection.
const MOST_RUNTIMES: usize = 64;
/// The pause before a connection that failed is opened again, or replies that took long are tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// A reply that takes longer is slow.
const SLOW: Duration = Duration::from_micros(300);
/// After so many slow replies in turn the connection rests.
const MOST_SLOW: u32 = 3;
/// The pause after a call during which several questions came: the store's thread merges such load.
const LOADED: Duration = Duration::from_millis(100);
/// The time that questions wait for the end of a call, also at most a quarter of the deadline.
const PATIENCE: Duration = Duration::from_millis(5);
/// A call with more limiters goes by the store's thread.
const MOST_LIMITERS: usize = MOST_DIRECT_LIMITERS / MOST_RUNTIMES;

/// The connections to a store.
pub(super) struct DirectLinks {
    shared: Arc<StoreState>,
    /// The address of the server; `None` if all calls go by the store's thread.
    address: Option<NodeAddress>,
    /// The runtime of the store's thread, which asks itself for nothing.
    own: Id,
    by_runtime: Mutex<HashMap<Id, DirectLink>>,
    /// The number of runtimes with a call under way.
    under_way: AtomicUsize,
}

/// The connection of a runtime, and the order of its questions.
struct DirectLink {
    state: LinkState,
    /// The task that looks at the call under way, and when it does so next: a timer for each call would wake the runtime
    /// each time.
    watch: Option<(Instant, JoinHandle<()>)>,
    /// Questions that came while a call was under way.
    waiting: Vec<Question>,
    /// The number of slow replies in turn.
    slow: u32,
}

enum LinkState {
    /// It is not used before then.
    Idle(OpenLink, Instant),
    Opening,
    UnderWay(CallUnderWay),
    /// It is not opened before then.
    Closed(Instant),
}

/// A call under way.
struct CallUnderWay {
    asked: Arc<Call>,
    sent_at: Option<Instant>,
    until: Instant,
    /// Tells its task that its time is over, and whether others ask about the same limiter.
    over: Option<oneshot::Sender<bool>>,
    /// The number of questions that came since.
    others: usize,
    /// True if such a question is about the same limiter.
    is_shared: bool,
}

/// A connection, and its socket.
struct OpenLink {
    link: Link,
    socket: PlainSocket,
}

impl DirectLinks {
    pub(super) fn new(shared: &Arc<StoreState>, own: Id) -> Arc<Self> {
        let address =
            plain_address(&shared.settings).filter(|_| shared.direct_limiters > 0).cloned();
        let shared = Arc::clone(shared);
        let under_way = AtomicUsize::new(0);
        Arc::new(Self { shared, address, own, by_runtime: Mutex::default(), under_way })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Id, DirectLink>> {
        self.by_runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a question after all questions that this runtime has asked before.
    pub(super) fn ask(self: &Arc<Self>, question: Question) {
        let inbox = &self.shared.inbox;
        // Under load no lock is taken.
        let is_idle = inbox.waiting() == 0 || self.under_way.load(Acquire) > 0;
        let address = self.address.as_ref().filter(|_| is_idle);
        let runtime = address.and_then(|_| Handle::try_current().ok());
        let Some(runtime) = runtime.filter(|runtime| runtime.id() != self.own) else {
            return inbox.push(question);
        };
        let mut links = self.lock();
        let Some(link) = link_of(&mut links, runtime.id()) else {
            return inbox.push(question);
        };
        // A question with less time began before the call under way.
        if let LinkState::UnderWay(call) = &mut link.state
            && call.until <= question.deadline
        {
            call.others += 1;
            call.is_shared |= call.asked.keys.iter().any(|key| question.asked.keys.contains(key));
            let is_long = call.takes_long(&self.shared);
            link.waiting.push(question);
            if is_long {
                link.hand_over(inbox);
            }
            return;
        }
        let server = self.may_be_alone(link, &question);
        let Some(server) = server.filter(|_| link.is_ready(Instant::now())) else {
            return inbox.push(question);
        };
        match link.take_idle(server) {
            None => {
                inbox.push(question);
                drop(links);
                let turn = LinkTurn::new(self, runtime.id(), None);
                runtime.spawn(turn.open());
            }
            open => {
                let over = link.begin(self, runtime.id(), &question);
                self.under_way.fetch_add(1, Relaxed);
                // A runtime that ends drops the task at once, which takes the lock.
                drop(links);
                let turn = LinkTurn::new(self, runtime.id(), open);
                runtime.spawn(CallTurn::new(turn, question, over).run());
            }
        }
    }

    /// Returns the server that a question may be sent to without the store's thread, if there is one.
    fn may_be_alone(&self, link: &DirectLink, question: &Question) -> Option<u64> {
        let server = self.shared.fit_server.load(Relaxed);
        // The task that ends the wait would end it too late.
        let is_unwatched = link
            .watch
            .as_ref()
            .is_some_and(|(at, watch)| *at > question.deadline && !watch.is_finished());
        let may_be = server != 0
            && question.asked.keys.len() <= MOST_LIMITERS
            && question.asked.may_run_at(server)
            && self.shared.inbox.waiting() == 0
            && !self.shared.direct_calls_rest()
            && !is_unwatched;
        may_be.then_some(server)
    }
}

fn patience(shared: &StoreState) -> Duration {
    PATIENCE.min(shared.deadline / 4)
}

/// Returns the connection of a runtime; `None` if there are too many runtimes.
fn link_of(links: &mut HashMap<Id, DirectLink>, runtime: Id) -> Option<&mut DirectLink> {
    if links.len() >= MOST_RUNTIMES && !links.contains_key(&runtime) {
        let now = Instant::now();
        // Runtimes that have ended leave their connections.
        links.retain(|_, link| !link.is_unused(now));
        if links.len() >= MOST_RUNTIMES {
            return None;
        }
    }
    let link = links.entry(runtime).or_insert_with(|| DirectLink {
        state: LinkState::Closed(Instant::now()),
        watch: None,
        waiting: Vec::new(),
        slow: 0,
    });
    Some(link)
}

impl DirectLink {
    /// Returns whether nothing is lost with it.
    fn is_unused(&self, now: Instant) -> bool {
        match &self.state {
            LinkState::Idle(idle, _) => idle.is_dead(),
            LinkState::Closed(again) => *again <= now,
            LinkState::Opening | LinkState::UnderWay(..) => false,
        }
    }

    /// Returns whether it may be used, or opened, now.
    fn is_ready(&self, now: Instant) -> bool {
        matches!(&self.state, LinkState::Idle(_, from) | LinkState::Closed(from) if *from <= now)
    }

    /// Takes the connection for a call. Returns `None` if it has to be opened first.
    fn take_idle(&mut self, server: u64) -> Option<OpenLink> {
        match mem::replace(&mut self.state, LinkState::Opening) {
            LinkState::Idle(idle, _) if idle.serves(server) => Some(idle),
            _ => None,
        }
    }

    /// Begins a call. Returns the end of its time.
    fn begin(
        &mut self,
        links: &Arc<DirectLinks>,
        runtime: Id,
        question: &Question,
    ) -> oneshot::Receiver<bool> {
        let (over, is_over) = oneshot::channel();
        let call = CallUnderWay {
            asked: Arc::clone(&question.asked),
            sent_at: None,
            until: question.deadline,
            over: Some(over),
            others: 0,
            is_shared: false,
        };
        self.state = LinkState::UnderWay(call);
        // Another runtime may have had this id before.
        if self.watch.as_ref().is_none_or(|(_, watch)| watch.is_finished()) {
            let at = question.deadline.min(Instant::now() + patience(&links.shared));
            let watch = watch(Arc::clone(links), runtime, at);
            self.watch = Some((at, tokio::spawn(watch)));
        }
        is_over
    }

    /// Hands the questions that wait to the store's thread.
    fn hand_over(&mut self, inbox: &Inbox) {
        self.waiting.drain(..).for_each(|question| inbox.push(question));
    }
}

impl CallUnderWay {
    /// Returns whether it was sent long ago. Before that, a question would overtake it by the thread.
    fn takes_long(&self, shared: &StoreState) -> bool {
        self.sent_at.is_some_and(|at| at.elapsed() >= patience(shared))
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

/// Looks at the connection of a runtime as long as calls follow one another. Ends the wait for a reply at its deadline, and
/// the wait of other questions for a call that takes long.
async fn watch(direct: Arc<DirectLinks>, runtime: Id, mut at: Instant) {
    let shared = &direct.shared;
    loop {
        sleep_until(at).await;
        let now = Instant::now();
        let mut links = direct.lock();
        let Some(link) = links.get_mut(&runtime) else { return };
        let is_long = match &mut link.state {
            LinkState::UnderWay(call) if call.until > now && call.over.is_some() => {
                at = call.until.min(now + patience(shared));
                call.takes_long(shared)
            }
            state => {
                if let LinkState::UnderWay(call) = state
                    && let Some(over) = call.over.take()
                {
                    // Another runtime may ask about the same limiter.
                    let has_others =
                        direct.under_way.load(Relaxed) > 1 || shared.inbox.waiting() > call.others;
                    // A reply may have come just now.
                    let _ = over.send(call.is_shared || has_others);
                }
                // Under the lock, so that the next call begins another watch.
                link.watch = None;
                return;
            }
        };
        if is_long {
            link.hand_over(&shared.inbox);
        }
        if let Some((next, _)) = &mut link.watch {
            *next = at;
        }
    }
}
