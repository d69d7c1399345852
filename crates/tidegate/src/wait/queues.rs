//! Queues by key. A queue exists while a request waits in it, and one load shows that no request waits.
//!
//! That load is all that a request pays here while no caller waits, which is nearly always; a verb that gives back also
//! pays a fence. Else the request takes the lock of all queues ([`HeldQueues`]).

mod held;

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::PoisonError;

use super::places::Ticket;
use super::queue::Queue;
use crate::key::Fingerprint;
use crate::sync::Mutex;
use crate::sync::atomic::Ordering::{Acquire, SeqCst};
use crate::sync::atomic::{AtomicUsize, fence};
pub(crate) use held::HeldQueues;

/// The key of a queue, and the count that it uses.
pub(crate) trait QueueKey: Clone + Eq + Hash + fmt::Debug {
    /// The number of counts. Queues that share a count only slow each other down.
    const COUNTS: usize;

    /// A well-spread number of the key.
    fn spread(&self) -> usize;
}

/// The queue of an unkeyed limiter.
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

/// All queues of one limiter, of a keyed limiter, or of a gate.
#[derive(Debug)]
pub(crate) struct Queues<K> {
    /// Waiters in all queues, including callers that are about to find out whether they must wait.
    waiting: AtomicUsize,
    /// The same number by key, in several counts.
    counts: Box<[AtomicUsize]>,
    all: Mutex<All<K>>,
}

/// The queues with waiters.
#[derive(Debug)]
pub(super) struct All<K> {
    pub(super) queues: HashMap<K, Queue>,
    /// The last ticket given out.
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

    /// Returns whether no request waits in any queue. A request that finds this overtakes no other.
    #[inline]
    pub(crate) fn are_idle(&self) -> bool {
        self.waiting.load(Acquire) == 0
    }

    /// Returns whether no request waits in the queue of `key`.
    pub(crate) fn is_idle(&self, key: &K) -> bool {
        self.are_idle() || self.count(key).load(Acquire) == 0
    }

    /// Wakes the head of a queue. Call this after units were given back: then either this call sees
    /// the head, or the head's attempt sees the units.
    pub(crate) fn wake(&self, key: &K) {
        // Between the units, which are back by now, and the counts: pairs with the fence in `HeldQueues::announce`,
        // which stands between a count and a look at the units. One of the two sees what the other wrote.
        fence(SeqCst);
        if !self.is_idle(key) {
            self.lock().wake(key);
        }
    }

    /// Wakes the heads of all queues.
    pub(crate) fn wake_all(&self) {
        self.wake_those(|_| true);
    }

    /// Wakes the heads of the queues that `are_meant` selects.
    pub(crate) fn wake_those(&self, are_meant: impl Fn(&K) -> bool) {
        // As in `wake`.
        fence(SeqCst);
        if !self.are_idle() {
            self.lock().wake_those(are_meant);
        }
    }

    /// The number of waiters in a queue.
    pub(crate) fn len(&self, key: &K) -> usize {
        if self.is_idle(key) { 0 } else { self.lock().len(key) }
    }

    /// Locks all queues; no request joins or leaves until the result is dropped.
    pub(crate) fn lock(&self) -> HeldQueues<'_, K> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        HeldQueues::new(self, all)
    }

    fn count(&self, key: &K) -> &AtomicUsize {
        &self.counts[key.spread() % K::COUNTS]
    }

    /// Counts one waiter more.
    pub(crate) fn add(&self, key: &K) {
        self.waiting.fetch_add(1, SeqCst);
        self.count(key).fetch_add(1, SeqCst);
    }

    /// Counts `many` waiters less.
    pub(crate) fn remove(&self, key: &K, many: usize) {
        // In the reverse order of `add`, so that a total of 0 shows that every count is 0.
        self.count(key).fetch_sub(many, SeqCst);
        self.waiting.fetch_sub(many, SeqCst);
    }
}
