//! A limiter without a key.
//!
//! Its state is one word that is replaced by compare-and-swap, if it can be packed into one. A state that cannot, such as
//! a log, a debt or a state with an open reservation, lies next to the word under a lock until it fits. Both run the
//! same verbs.
//!
//! A cell is read without a lock, so it cannot be replaced while threads may read it. The first change of the rule *closes*
//! it for good. From then on the limiter is an entry with a rule of its own, under a lock: it packs no state, because a
//! packed state could be cut off.

use std::fmt;
use std::sync::{Arc, PoisonError};

use tidegate_core::{Algorithm, Packing, Rule, Timestamp, Visitor};

use super::parameters::{Parameters, stays_whole};
use super::preview::{Preview, UnlimitedPreview, preview};
use super::ruled::RuledEntry;
use super::sync::{
    AtomicU64, Mutex, MutexGuard,
    Ordering::{AcqRel, Acquire},
};
use crate::clock::{Clock, Reading};
use crate::step::{One, Step};

/// A limiter without a key. If its rule never changes, only the cell is read.
#[derive(Debug)]
pub(crate) struct Unkeyed {
    cell: Box<dyn Cell>,
    /// The limiter once the cell is closed.
    amended: Mutex<Amended>,
}

/// A limiter whose rule was changed, or has no limit.
#[derive(Debug)]
struct Amended {
    /// `None` until the limiter has a limit.
    entry: Option<RuledEntry>,
    /// True if everything is admitted and nothing counted; the entry then keeps the state under the last limit.
    is_unlimited: bool,
}

impl Unkeyed {
    /// Creates the limiter of a rule. Without `base`, the base of packed times, no state is packed.
    pub(crate) fn new(rule: &Rule, base: Option<Timestamp>) -> Self {
        let cell = rule.visit(Build { base }).unwrap_or_else(|| Box::new(NoCell));
        let amended = Amended { entry: None, is_unlimited: rule.is_unlimited() };
        Self { cell, amended: Mutex::new(amended) }
    }

    /// Returns whether the early part of a [`Reading`] is used; a state that is not packed does not use it.
    pub(crate) fn reads_early(&self) -> bool {
        self.cell.reads_early()
    }

    /// Decides and takes; returns only whether the cost was admitted. `early` and `clock` are the parts of a
    /// [`Reading`].
    #[inline]
    pub(crate) fn admits(&self, cost: u64, early: Timestamp, clock: &dyn Clock) -> bool {
        match self.cell.admits(cost, early, clock) {
            Some(admitted) => admitted,
            None => self.admits_amended(cost, early, clock),
        }
    }

    #[cold]
    #[inline(never)]
    fn admits_amended(&self, cost: u64, early: Timestamp, clock: &dyn Clock) -> bool {
        let reading = Reading::joined(early, clock);
        self.step_amended(cost, Step::Decide, reading).verdict.is_allowed()
    }

    /// Runs one step.
    #[inline]
    pub(crate) fn step(&self, cost: u64, step: Step, reading: Reading<'_>) -> One {
        match self.cell.step(cost, step, reading) {
            Some(one) => one,
            None => self.step_amended(cost, step, reading),
        }
    }

    #[cold]
    fn step_amended(&self, cost: u64, step: Step, reading: Reading<'_>) -> One {
        let mut amended = self.lock_amended();
        let is_unlimited = amended.is_unlimited;
        let step = if is_unlimited { step.without_limit(cost) } else { Some(step) };
        let one = match (step, &mut amended.entry) {
            (Some(step), Some(entry)) => Some(entry.run_alone(step, cost, reading.anew())),
            _ => None,
        };
        // Under an unlimited rule such a step only gives back, and its reply is not the reply to the caller.
        one.filter(|_| !is_unlimited).unwrap_or_else(|| One::unlimited(reading.early()))
    }

    /// Creates a preview from the current state.
    pub(crate) fn preview(&self, reading: Reading<'_>) -> Box<dyn Preview> {
        if let Some(preview) = self.cell.preview(reading) {
            return preview;
        }
        let amended = self.lock_amended();
        match &amended.entry {
            Some(entry) if !amended.is_unlimited => entry.preview_alone(reading.anew()),
            _ => Box::new(UnlimitedPreview),
        }
    }

    /// Puts another rule in force; what was used stays used.
    pub(crate) fn amend(&self, rule: &Rule, reading: Reading<'_>) {
        // A step that finds the cell closed waits for this lock.
        let mut amended = self.lock_amended();
        if let Some(closed) = self.cell.close() {
            amended.entry = Some(closed);
        }
        // Without a limit the state stays under the rule that it has.
        RuledEntry::put_under(&mut amended.entry, rule, reading.anew());
        amended.is_unlimited = rule.is_unlimited();
    }

    fn lock_amended(&self) -> MutexGuard<'_, Amended> {
        self.amended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state of a limiter without a key, with any algorithm. The methods are those of [`Unkeyed`], and return `None` if
/// the cell is closed.
trait Cell: fmt::Debug + Send + Sync {
    fn reads_early(&self) -> bool {
        false
    }

    fn admits(&self, _cost: u64, _early: Timestamp, _clock: &dyn Clock) -> Option<bool> {
        None
    }

    fn step(&self, _cost: u64, _step: Step, _reading: Reading<'_>) -> Option<One> {
        None
    }

    fn preview(&self, _reading: Reading<'_>) -> Option<Box<dyn Preview>> {
        None
    }

    /// Closes the cell for good, and returns its limiter.
    fn close(&self) -> Option<RuledEntry> {
        None
    }
}

/// The cell of a limiter that began without a limit: closed from the beginning.
#[derive(Debug)]
struct NoCell;

impl Cell for NoCell {}

struct Build {
    base: Option<Timestamp>,
}

impl Visitor for Build {
    type Out = Box<dyn Cell>;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Box<dyn Cell> {
        let is_small = size_of::<R::State>() <= MOST_PACKED_BYTES;
        match self.base.filter(|_| is_small && algorithm.packing() == Packing::One) {
            // All zeros are an idle state.
            Some(base) => Box::new(Limited::<R, true>::new(algorithm, base, 0)),
            None => Box::new(Limited::<R, false>::new(algorithm, Timestamp::EPOCH, UNPACKED)),
        }
    }
}

/// The largest state that is packed, in bytes. To pack and unpack a larger one, such as the counters of a sliding window,
/// takes longer than to lock it.
const MOST_PACKED_BYTES: usize = 40;
/// The word of a closed cell: the bit that packed states leave free.
const CLOSED: u64 = 1 << 63;
/// The word while the state is not packed.
const UNPACKED: u64 = CLOSED | 1;

/// The cell of a limited rule: a word, and next to it a state that is not packed. Without `PACKS` no state is ever
/// packed, and no step tries to.
#[derive(Debug)]
struct Limited<R: Algorithm, const PACKS: bool> {
    algorithm: R,
    /// The base of packed times.
    base: Timestamp,
    word: AtomicU64,
    /// The state while the word is [`UNPACKED`]. The lock also covers the change of the word from and to that.
    unpacked: Mutex<Option<R::State>>,
}

impl<R: Algorithm, const PACKS: bool> Limited<R, PACKS> {
    fn new(algorithm: &R, base: Timestamp, word: u64) -> Self {
        let algorithm = algorithm.clone();
        Self { algorithm, base, word: AtomicU64::new(word), unpacked: Mutex::new(None) }
    }

    /// Replaces the word that was read; false if another word is there by then.
    #[inline]
    fn replace(&self, word: u64, next: u64) -> bool {
        self.word.compare_exchange_weak(word, next, AcqRel, Acquire).is_ok()
    }

    fn pack(&self, state: Option<&R::State>) -> u64 {
        state.map_or(0, |state| {
            let [word] = self.algorithm.pack(self.base, state);
            word
        })
    }

    fn fits(&self, state: &R::State, now: Timestamp) -> bool {
        stays_whole::<_, 1>(&self.algorithm, self.base, state, now)
    }

    /// Moves a state that does not fit next to the word; false if another word is there by then.
    #[cold]
    fn spill(&self, word: u64, state: R::State) -> bool {
        // Locked before the word changes: a thread that reads the mark waits until the state is there.
        let mut unpacked = self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
        let replaced = self.replace(word, UNPACKED);
        if replaced {
            *unpacked = Some(state);
        }
        replaced
    }

    /// Runs a step on the state next to the word. Returns `None` if the word holds the state by now; the inner option is
    /// `None` if the cell is closed.
    fn on_unpacked<O>(
        &self,
        clock: &dyn Clock,
        run: impl FnOnce(&mut Option<R::State>, Timestamp) -> O,
    ) -> Option<Option<O>> {
        let mut slot = self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
        match self.word.load(Acquire) {
            UNPACKED => {}
            CLOSED => return Some(None),
            _ => return None,
        }
        let now = clock.now();
        let out = run(&mut slot, now);
        let is_packed = PACKS && slot.as_ref().is_none_or(|state| self.fits(state, now));
        // If the cell was closed since, the thread that closed it waits for the state under the lock.
        // The exchange may fail for no reason: the state then stays here until the next step.
        if is_packed && self.replace(UNPACKED, self.pack(slot.as_ref())) {
            *slot = None;
        }
        Some(Some(out))
    }

    /// [`Cell::admits`] where the word holds no state. It stays out of line: the usual case then needs fewer registers.
    #[inline(never)]
    fn admits_unpacked(&self, cost: u64, early: Timestamp, clock: &dyn Clock) -> Option<bool> {
        let admitted = self.on_unpacked(clock, |slot, now| {
            let state = slot.get_or_insert_with(|| self.algorithm.fresh(now));
            self.algorithm.ask(state, now, cost).is_allowed()
        });
        admitted.unwrap_or_else(|| self.admits(cost, early, clock))
    }

    /// Runs a step on the state; `None` if the cell is closed. `run` returns its result, and whether it changed the
    /// state: if not, the word stays as it is. A state next to the word is changed in place, whatever `run` returns. If
    /// the changed state `may_not_fit` in a word, that is tested. If another step comes between, `run` runs again.
    fn with<O>(
        &self,
        reading: Reading<'_>,
        may_not_fit: bool,
        run: impl Fn(&mut Option<R::State>, Timestamp) -> (O, bool),
    ) -> Option<O> {
        loop {
            let word = if PACKS { self.word.load(Acquire) } else { UNPACKED };
            if word & CLOSED != 0 {
                let (_, clock) = reading.apart();
                match self.on_unpacked(clock, |slot, now| run(slot, now).0) {
                    Some(out) => return out,
                    // The state was packed in between, so the word has it again.
                    None => continue,
                }
            }
            // One word has no time of a last unit that could overtake the reading.
            let now = reading.early();
            let mut slot = Some(self.algorithm.unpack(self.base, [word]));
            let (out, changed) = run(&mut slot, now);
            if !changed {
                return Some(out);
            }
            // Only a debt or a reservation can outgrow the word, so other steps need not unpack it again to compare.
            let is_stored = match slot {
                Some(state) if may_not_fit && !self.fits(&state, now) => self.spill(word, state),
                state => self.replace(word, self.pack(state.as_ref())),
            };
            if is_stored {
                return Some(out);
            }
        }
    }
}

impl<R: Algorithm, const PACKS: bool> Cell for Limited<R, PACKS> {
    fn reads_early(&self) -> bool {
        PACKS
    }

    fn admits(&self, cost: u64, early: Timestamp, clock: &dyn Clock) -> Option<bool> {
        let mut word = if PACKS { self.word.load(Acquire) } else { UNPACKED };
        while word & CLOSED == 0 {
            let mut next = [word];
            if !self.algorithm.ask_packed(self.base, &mut next, early, cost).is_allowed() {
                return Some(false);
            }
            let [next] = next;
            match self.word.compare_exchange_weak(word, next, AcqRel, Acquire) {
                Ok(_) => return Some(true),
                Err(other) => word = other,
            }
        }
        self.admits_unpacked(cost, early, clock)
    }

    fn step(&self, cost: u64, step: Step, reading: Reading<'_>) -> Option<One> {
        // A bucket that begins with fewer tokens exists after a reset, and is full.
        let begins = step.begins(cost) || matches!(step, Step::Reset { .. });
        self.with(reading, step.may_not_fit(cost), |slot, now| {
            let stays_unborn = slot.is_none() && !begins;
            let one = step.run(&self.algorithm, slot, cost, now);
            if stays_unborn {
                *slot = None;
            }
            let changes = step.changes(one.verdict, cost);
            (one, changes)
        })
    }

    fn preview(&self, reading: Reading<'_>) -> Option<Box<dyn Preview>> {
        self.with(reading, false, |slot, now| (preview(&self.algorithm, slot.clone(), now), false))
    }

    fn close(&self) -> Option<RuledEntry> {
        // One exchange for any word, so that each step comes before it, or finds the cell closed.
        let state = match self.word.swap(CLOSED, AcqRel) {
            CLOSED => return None,
            0 => None,
            // A step that holds the lock now runs before the change: it
            // sees the mark when it ends, and leaves its state here.
            UNPACKED => self.unpacked.lock().unwrap_or_else(PoisonError::into_inner).take(),
            word => Some(self.algorithm.unpack(self.base, [word])),
        };
        let parameters = Arc::new(Parameters::new(self.algorithm.clone()));
        Some(RuledEntry::under_parameters(parameters, Timestamp::EPOCH, state))
    }
}
