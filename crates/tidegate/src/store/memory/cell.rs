//! One limiter by itself, without a key.
//!
//! How its state is kept is chosen once: a word that is replaced by compare-and-swap, two words under
//! a lock bit in the first, or the whole state under a lock. All run the same verbs on a copy.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use tidegate_core::{Packing, Room, Timestamp, Visitor};

use super::spin::Spin;
use super::sync::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use super::table::{One, Step};
use crate::clock::Reading;

/// The bit that packed states leave free.
const LOCKED: u64 = 1 << 63;

/// One limiter, whatever its algorithm and however it keeps its state.
pub(crate) trait Cell: fmt::Debug + Send + Sync {
    /// Decides and takes, working out no figures: whether the cost was admitted.
    fn admits(&self, cost: u64, reading: Reading<'_>) -> bool;

    /// One step.
    fn step(&self, cost: u64, step: Step, reading: Reading<'_>) -> One;

    /// Makes it as good as new.
    fn forget(&self);
}

/// The cell of a rule that is visited.
pub(crate) fn cell_of(base: Option<Timestamp>) -> impl Visitor<Out = Box<dyn Cell>> {
    Build(base)
}

/// What packed times count from; `None` where the clock may step back.
struct Build(Option<Timestamp>);

impl Visitor for Build {
    type Out = Box<dyn Cell>;

    fn visit<R: Room>(self, room: &R) -> Box<dyn Cell> {
        let room = room.clone();
        match (room.packing(), self.0) {
            (Packing::One, Some(base)) => Box::new(Word { room, base, word: AtomicU64::new(0) }),
            (Packing::Two, Some(base)) => {
                Box::new(Pair { room, base, first: AtomicU64::new(0), second: AtomicU64::new(0) })
            }
            _ => Box::new(Locked { room, slot: Mutex::new(None) }),
        }
    }
}

/// A state in one word.
#[derive(Debug)]
struct Word<R: Room> {
    room: R,
    base: Timestamp,
    word: AtomicU64,
}

impl<R: Room> Cell for Word<R> {
    fn admits(&self, cost: u64, reading: Reading<'_>) -> bool {
        let mut word = self.word.load(Acquire);
        loop {
            let mut state = self.room.unpack(self.base, [word, 0]);
            if !self.room.ask(&mut state, reading.early(), cost).is_allowed() {
                return false;
            }
            let next = self.room.pack(self.base, &state)[0];
            match self.word.compare_exchange_weak(word, next, AcqRel, Acquire) {
                Ok(_) => return true,
                Err(other) => word = other,
            }
        }
    }

    fn step(&self, cost: u64, step: Step, reading: Reading<'_>) -> One {
        let mut word = self.word.load(Acquire);
        loop {
            let mut slot = Some(self.room.unpack(self.base, [word, 0]));
            let (one, changed) = step.run(&self.room, &mut slot, cost, reading.early());
            let Some(state) = slot.filter(|_| changed) else { return one };
            let next = self.room.pack(self.base, &state)[0];
            match self.word.compare_exchange_weak(word, next, AcqRel, Acquire) {
                Ok(_) => return one,
                Err(other) => word = other,
            }
        }
    }

    fn forget(&self) {
        self.word.store(0, Release);
    }
}

/// A state in two words; the free bit of the first is the lock over both.
#[derive(Debug)]
struct Pair<R: Room> {
    room: R,
    base: Timestamp,
    first: AtomicU64,
    second: AtomicU64,
}

impl<R: Room> Pair<R> {
    /// Locks; answers the first word.
    fn lock(&self) -> u64 {
        let mut spin = Spin::default();
        loop {
            let first = self.first.load(Relaxed) & !LOCKED;
            if self.first.compare_exchange_weak(first, first | LOCKED, Acquire, Relaxed).is_ok() {
                return first;
            }
            spin.wait();
        }
    }

    /// Stores both words, and unlocks.
    fn unlock(&self, words: [u64; 2]) {
        self.second.store(words[1], Relaxed);
        self.first.store(words[0], Release);
    }
}

impl<R: Room> Cell for Pair<R> {
    fn admits(&self, cost: u64, reading: Reading<'_>) -> bool {
        let words = [self.lock(), self.second.load(Relaxed)];
        let mut state = self.room.unpack(self.base, words);
        let allowed = self.room.ask(&mut state, reading.early(), cost).is_allowed();
        self.unlock(if allowed { self.room.pack(self.base, &state) } else { words });
        allowed
    }

    fn step(&self, cost: u64, step: Step, reading: Reading<'_>) -> One {
        let words = [self.lock(), self.second.load(Relaxed)];
        let mut slot = Some(self.room.unpack(self.base, words));
        let (one, changed) = step.run(&self.room, &mut slot, cost, reading.early());
        let state = slot.filter(|_| changed);
        self.unlock(state.map_or(words, |state| self.room.pack(self.base, &state)));
        one
    }

    fn forget(&self) {
        self.lock();
        self.unlock([0; 2]);
    }
}

/// A whole state under a lock.
#[derive(Debug)]
struct Locked<R: Room> {
    room: R,
    slot: Mutex<Option<R::State>>,
}

impl<R: Room> Cell for Locked<R> {
    fn admits(&self, cost: u64, reading: Reading<'_>) -> bool {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let now = reading.anew();
        let state = slot.get_or_insert_with(|| self.room.fresh(now));
        self.room.ask(state, now, cost).is_allowed()
    }

    fn step(&self, cost: u64, step: Step, reading: Reading<'_>) -> One {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = slot.is_none() && !step.begins();
        let (one, _) = step.run(&self.room, &mut slot, cost, reading.anew());
        if begins {
            *slot = None;
        }
        one
    }

    fn forget(&self) {
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
