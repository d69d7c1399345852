//! Queues by key: made when somebody waits, gone when nobody does, and one load to know that nobody does.

mod held;

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::PoisonError;

use super::places::Ticket;
use super::queue::Queue;
use super::sync::{
    AtomicUsize, Mutex,
    Ordering::{Acquire, SeqCst},
    fence,
};
use crate::key::Fingerprint;
pub(crate) use held::HeldQueues;

/// What tells queues apart, and on which of the counts a queue is counted.
pub(crate) trait QueueKey: Clone + Eq + Hash + fmt::Debug {
    /// How many counts there are; queues that share one slow each other down, and nothing else.
    const COUNTS: usize;

    /// Any number, well spread.
    fn spread(&self) -> usize;
}

/// The queue of a limiter without a key.
impl QueueKey for () {
    const COUNTS: usize = 1;

    fn spread(&self) -> usize {
        0
    }
}

/// The queue of a key.
impl QueueKey for Fingerprint {
    const COUNTS: usize = 64;

    fn spread(&self) -> usize {
        self.words()[0] as usize
    }
}

/// All queues of a limiter, of the limiters of all keys, or of a gate.
#[derive(Debug)]
pub(crate) struct Queues<K> {
    /// Who waits, or is about to ask whether it must, in all queues.
    waiting: AtomicUsize,
    /// The same, by the queues' keys.
    counts: Box<[AtomicUsize]>,
    all: Mutex<All<K>>,
}

/// The queues that anybody waits in.
#[derive(Debug)]
pub(super) struct All<K> {
    pub(super) queues: HashMap<K, Queue>,
    /// Tickets given out.
    pub(super) tickets: Ticket,
}

impl<K: QueueKey> Queues<K> {
    pub(crate) fn new() -> Self {
        Self {
            waiting: AtomicUsize::new(0),
            counts: (0..K::COUNTS).map(|_| AtomicUsize::new(0)).collect(),
            all: Mutex::new(All { queues: HashMap::new(), tickets: 0 }),
        }
    }

    /// Whether nobody waits anywhere: a request that finds it so overtakes nobody.
    #[inline]
    pub(crate) fn are_idle(&self) -> bool {
        self.waiting.load(Acquire) == 0
    }

    /// Whether nobody waits in one queue.
    pub(crate) fn is_idle(&self, key: &K) -> bool {
        self.are_idle() || self.count(key).load(Acquire) == 0
    }

    /// Wakes the head of a queue, for which there may be units now. To be called after they were given
    /// back: then either the head is seen here, or it sees them when it asks.
    pub(crate) fn wake(&self, key: &K) {
        fence(SeqCst);
        if !self.is_idle(key) {
            self.lock().wake(key);
        }
    }

    /// Wakes the heads of all queues.
    pub(crate) fn wake_all(&self) {
        self.wake_those(|_| true);
    }

    /// Wakes the heads of the queues that `are_meant`.
    pub(crate) fn wake_those(&self, are_meant: impl Fn(&K) -> bool) {
        fence(SeqCst);
        if !self.are_idle() {
            self.lock().wake_those(are_meant);
        }
    }

    /// How many wait in a queue.
    pub(crate) fn len(&self, key: &K) -> usize {
        if self.is_idle(key) { 0 } else { self.lock().len(key) }
    }

    /// Takes hold of all queues; nobody joins or leaves any until the answer is dropped.
    pub(crate) fn lock(&self) -> HeldQueues<'_, K> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        HeldQueues::new(self, all)
    }

    fn count(&self, key: &K) -> &AtomicUsize {
        &self.counts[key.spread() % K::COUNTS]
    }

    /// Counts one more.
    pub(crate) fn add(&self, key: &K) {
        self.waiting.fetch_add(1, SeqCst);
        self.count(key).fetch_add(1, SeqCst);
    }

    /// Counts so many less.
    pub(crate) fn remove(&self, key: &K, many: usize) {
        self.count(key).fetch_sub(many, SeqCst);
        self.waiting.fetch_sub(many, SeqCst);
    }
}
