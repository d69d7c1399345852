//! Lines by key: made when somebody waits, gone when nobody does, and one load to know that nobody does.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::PoisonError;

use super::hall::Hall;
use super::queue::{Queue, Ticket};
use super::sync::{
    AtomicUsize, Mutex,
    Ordering::{Acquire, SeqCst},
    fence,
};
use crate::key::Fingerprint;

/// What tells lines apart, and on which of the counts a line is counted.
pub(crate) trait LineKey: Clone + Eq + Hash + fmt::Debug {
    /// How many counts there are; lines that share one slow each other down, and nothing else.
    const COUNTS: usize;

    /// Any number, well spread.
    fn spread(&self) -> usize;
}

/// The line of a limiter without a key.
impl LineKey for () {
    const COUNTS: usize = 1;

    fn spread(&self) -> usize {
        0
    }
}

/// The line of a key.
impl LineKey for Fingerprint {
    const COUNTS: usize = 64;

    fn spread(&self) -> usize {
        self.words()[0] as usize
    }
}

/// All lines of a limiter, of the limiters of all keys, or of a gate.
#[derive(Debug)]
pub(crate) struct Lines<K> {
    /// Who waits, or is about to ask whether it must, in all lines.
    waiting: AtomicUsize,
    /// The same, by the lines' keys.
    counts: Box<[AtomicUsize]>,
    all: Mutex<All<K>>,
}

/// The lines that anybody waits in.
#[derive(Debug)]
pub(super) struct All<K> {
    pub(super) queues: HashMap<K, Queue>,
    /// Tickets given out.
    pub(super) tickets: Ticket,
}

impl<K: LineKey> Lines<K> {
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

    /// Whether nobody waits in one line.
    pub(crate) fn is_idle(&self, key: &K) -> bool {
        self.are_idle() || self.count(key).load(Acquire) == 0
    }

    /// Wakes the head of a line, for which there may be units now. To be called after they were given
    /// back: then either the head is seen here, or it sees them when it asks.
    pub(crate) fn stir(&self, key: &K) {
        fence(SeqCst);
        if !self.is_idle(key) {
            self.enter().stir(key);
        }
    }

    /// Wakes the heads of all lines.
    pub(crate) fn stir_all(&self) {
        self.stir_those(|_| true);
    }

    /// Wakes the heads of the lines that `are_meant`.
    pub(crate) fn stir_those(&self, are_meant: impl Fn(&K) -> bool) {
        fence(SeqCst);
        if !self.are_idle() {
            self.enter().stir_those(are_meant);
        }
    }

    /// How many wait in a line.
    pub(crate) fn len(&self, key: &K) -> usize {
        if self.is_idle(key) { 0 } else { self.enter().len(key) }
    }

    /// Takes hold of all lines; nobody joins or leaves any until the answer is dropped.
    pub(crate) fn enter(&self) -> Hall<'_, K> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        Hall::new(self, all)
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
