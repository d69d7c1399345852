//! The data that callers and the store's thread share: its inbox, where other threads put questions, and the replies
//! to them.

use std::collections::VecDeque;
use std::mem::{self, Discriminant, discriminant};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

use super::counts::RequestCounts;
use super::link::plain_address;
use super::route::Delivered;
use super::script::Call;
use crate::settings::StoreSettings;
use crate::store::{Finding, StoreError, StoreEvent, StoreObserver};

/// Decisions that were not taken are reported this far apart, for each kind of reason.
const REPORTED_AGAIN_US: u64 = 60_000_000;

/// The result of the last check of the store: none yet, fit, or why it is not.
pub(super) type CheckResult = Option<Result<(), StoreError>>;

/// The reason why there is no reply in time, and a channel for one that comes late.
#[derive(Debug)]
pub(crate) struct NoReply {
    pub(crate) error: StoreError,
    /// The late reply, if the store was asked.
    pub(crate) late: Option<LateReply>,
}

/// A reply that comes after its caller stopped waiting.
pub(crate) type LateReply = oneshot::Receiver<Result<Delivered, StoreError>>;

/// A reply in time, or the reason for none.
pub(crate) type Replied = Result<Delivered, NoReply>;

/// A call as it is handed to the store's thread.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) asked: Arc<Call>,
    pub(super) source: u64,
    pub(super) deadline: Instant,
    pub(super) caller: WaitingCaller,
}

impl Question {
    /// A question, and the channel for its reply.
    pub(super) fn new(
        call: &Arc<Call>,
        source: u64,
        deadline: Instant,
    ) -> (Self, oneshot::Receiver<Replied>) {
        let (answer, replied) = oneshot::channel();
        let caller = WaitingCaller { waits: None, answer };
        (Self { asked: Arc::clone(call), source, deadline, caller }, replied)
    }
}

/// The caller of a question, who waits for its reply.
#[derive(Debug)]
pub(super) struct WaitingCaller {
    /// Counts it from its hand-over on.
    waits: Option<Waiting>,
    answer: oneshot::Sender<Replied>,
}

impl WaitingCaller {
    /// Ends the wait.
    pub(super) fn answer(self, replied: Replied) {
        let Self { waits, answer } = self;
        // Before the answer, after which the caller may ask again.
        drop(waits);
        // No receiver is left: units of this call are not given back in any case.
        if let Err(unheard) = answer.send(replied) {
            drop(unheard);
        }
    }

    /// Returns whether it no longer waits.
    pub(super) fn is_gone(&self) -> bool {
        self.answer.is_closed()
    }
}

/// Counts a question that waits for the store's thread, until it is dropped.
#[derive(Debug)]
struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// A list that many threads add to and the store's thread takes as a whole: however many questions
/// arrive while that thread is busy, it wakes once.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    state: Mutex<InboxState>,
    filled: Notify,
    /// The number of questions that the store's thread has not answered.
    waiting: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct InboxState {
    items: Vec<Question>,
    closed: bool,
}

impl Inbox {
    /// Sends a call, perhaps merged with others. The result is the reply, or the reason for none, by the deadline; it is
    /// dropped if questions are no longer taken. If requests of several sources wait, none gets more than its part;
    /// source 0 stands for no source.
    pub(crate) fn ask(
        &self,
        call: &Arc<Call>,
        source: u64,
        deadline: Instant,
    ) -> oneshot::Receiver<Replied> {
        let (question, replied) = Question::new(call, source, deadline);
        self.push(question);
        replied
    }

    /// Adds a question, which is dropped if questions are no longer taken.
    pub(super) fn push(&self, mut question: Question) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        self.waiting.fetch_add(1, Relaxed);
        question.caller.waits = Some(Waiting(Arc::clone(&self.waiting)));
        state.items.push(question);
        // The thread takes all questions at once, so only the first has to wake it.
        let is_first = state.items.len() == 1;
        drop(state);
        if is_first {
            self.filled.notify_one();
        }
    }

    /// Returns the number of questions that the store's thread has not answered.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// Refuses further questions.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
    }

    /// Ends taking: drops the questions that are there, and any that are added.
    pub(super) fn abandon(&self) {
        let mut state = self.lock();
        state.closed = true;
        let dropped = mem::take(&mut state.items);
        // Dropping questions wakes their callers, who must not wait for the lock.
        drop(state);
        drop(dropped);
    }

    /// Waits for questions and moves all of them to `taken`; returns false once the inbox is closed and
    /// empty.
    pub(super) async fn take(&self, taken: &mut Vec<Question>) -> bool {
        loop {
            {
                let mut state = self.lock();
                if !state.items.is_empty() {
                    mem::swap(&mut state.items, taken);
                    return true;
                }
                if state.closed {
                    return false;
                }
            }
            // A notification that comes between the unlocking and this wait is kept for it.
            self.filled.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, InboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Data that callers and the store's thread share.
pub(super) struct StoreState {
    pub(super) settings: StoreSettings,
    pub(super) inbox: Inbox,
    pub(super) counts: RequestCounts,
    pub(super) observer: StoreObserver,
    pub(super) found: watch::Sender<CheckResult>,
    pub(super) findings: Mutex<Vec<Finding>>,
    /// When a decision that was not taken was last reported, for each kind of reason.
    undecided: Mutex<Vec<(Discriminant<StoreError>, u64)>>,
    pub(super) deadline: Duration,
    began: Instant,
    servers: Mutex<KnownServers>,
    /// The number of the server that calls may be sent to without the store's thread; 0 if there is none.
    pub(super) fit_server: AtomicU64,
    /// The part of `max_in_flight` for calls that go without the store's thread; 0 if all calls go by it.
    pub(super) direct_limiters: usize,
    /// The time before which all calls go by the store's thread, in microseconds since the start.
    direct_from: AtomicU64,
}

/// The servers that connections were opened to, and the number of the last.
#[derive(Debug, Default)]
struct KnownServers {
    last: u64,
    /// The latest, by their ids.
    by_id: VecDeque<(String, u64)>,
}

/// The maximum number of limiters in all calls that go without the store's thread.
pub(super) const MOST_DIRECT_LIMITERS: usize = 256;
/// The maximum number of servers that are known by their ids.
const MOST_SERVERS: usize = 1_024;

impl StoreState {
    pub(super) fn new(settings: StoreSettings, observer: StoreObserver) -> Self {
        let has_direct_calls = settings.direct
            && settings.max_in_flight >= 2 * MOST_DIRECT_LIMITERS
            && plain_address(&settings).is_some();
        Self {
            inbox: Inbox::default(),
            counts: RequestCounts::default(),
            observer,
            found: watch::Sender::new(None),
            findings: Mutex::default(),
            undecided: Mutex::default(),
            deadline: settings.timeout,
            began: Instant::now(),
            servers: Mutex::default(),
            fit_server: AtomicU64::new(0),
            direct_limiters: if has_direct_calls { MOST_DIRECT_LIMITERS } else { 0 },
            direct_from: AtomicU64::new(0),
            settings,
        }
    }

    /// Returns the number of a run of a server, from 1 up; a new number if it does not tell its id.
    pub(super) fn server_of(&self, run_id: Option<String>) -> u64 {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let known = servers.by_id.iter().find(|(id, _)| run_id.as_ref() == Some(id));
        if let Some((_, number)) = known {
            return *number;
        }
        servers.last += 1;
        let number = servers.last;
        servers.by_id.extend(run_id.map(|id| (id, number)));
        if servers.by_id.len() > MOST_SERVERS {
            servers.by_id.pop_front();
        }
        number
    }

    fn elapsed_us(&self, now: Instant) -> u64 {
        u64::try_from(now.duration_since(self.began).as_micros()).unwrap_or(u64::MAX)
    }

    /// Sends all calls by the store's thread until then.
    pub(super) fn rest_direct_calls_until(&self, then: Instant) {
        self.direct_from.store(self.elapsed_us(then), Relaxed);
    }

    /// Returns whether all calls go by the store's thread for now.
    pub(super) fn direct_calls_rest(&self) -> bool {
        self.elapsed_us(Instant::now()) < self.direct_from.load(Relaxed)
    }

    /// Counts a request that was not decided because of overload, and reports the beginning of an
    /// overload.
    pub(super) fn note_overloaded(&self) {
        if self.counts.overloaded(Instant::now()) {
            (self.observer)(StoreEvent::Overloaded);
        }
    }

    /// Notes a decision that was not taken; returns whether to report it: not if one of this kind
    /// was reported within the last minute.
    pub(super) fn undecided(&self, error: &StoreError) -> bool {
        let kind = discriminant(error);
        let now_us = self.elapsed_us(Instant::now());
        let mut reported = self.undecided.lock().unwrap_or_else(PoisonError::into_inner);
        match reported.iter_mut().find(|(reported, _)| *reported == kind) {
            Some((_, at_us)) if now_us.saturating_sub(*at_us) < REPORTED_AGAIN_US => return false,
            Some((_, at_us)) => *at_us = now_us,
            None => reported.push((kind, now_us)),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::JoinedScript;

    /// Asks from this source.
    fn ask(inbox: &Inbox, source: u64) {
        let call = Call::of_script(&Arc::new(JoinedScript::new(String::new())), vec![], vec![]);
        drop(inbox.ask(&call, source, Instant::now()));
    }

    fn sources(taken: &[Question]) -> Vec<u64> {
        taken.iter().map(|question| question.source).collect()
    }

    #[tokio::test]
    async fn all_that_was_pushed_is_taken_in_order_also_after_it_was_closed() {
        let inbox = Inbox::default();
        (0..3).for_each(|source| ask(&inbox, source));
        inbox.close();
        ask(&inbox, 3);
        let mut taken = Vec::new();
        assert!(inbox.take(&mut taken).await);
        assert_eq!(sources(&taken), [0, 1, 2]);
        taken.clear();
        assert!(
            !inbox.take(&mut taken).await,
            "the end is reported, and nothing was added after it"
        );
    }

    #[tokio::test]
    async fn who_waits_is_woken_by_the_first_item() {
        let inbox = Inbox::default();
        let mut taken = Vec::new();
        let (open, ()) = tokio::join!(biased; inbox.take(&mut taken), async { ask(&inbox, 7) });
        assert!(open);
        assert_eq!(sources(&taken), [7]);
    }
}
