//! A limiter without a key.
//!
//! Its state is one word or two, which are replaced as a whole, if it can be packed into them. A state that cannot, such as
//! a log, a debt or a state with an open reservation, lies next to the words under a lock until it fits. Both run the
//! same verbs.
//!
//! A cell is read without a lock, so it cannot be replaced while threads may read it. The first change of the rule *closes*
//! it for good. From then on the limiter is an entry with a rule of its own, under a lock: it packs no state, because a
//! packed state could be cut off.

mod words;

use std::fmt;
use std::sync::{Arc, PoisonError};

use tidegate_core::{Algorithm, Packing, Rule, Timestamp, Visitor};

use super::parameters::{Parameters, stays_whole};
use super::preview::{Preview, UnlimitedPreview, preview};
use super::ruled::RuledEntry;
use super::sync::{Mutex, MutexGuard};
use crate::clock::{Clock, Reading};
use crate::step::{One, Step};
use words::{CLOSED, UNPACKED, Words};

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
        match (self.base.filter(|_| is_small), algorithm.packing()) {
            (Some(base), Packing::One) => Box::new(Limited::<R, 1>::new(algorithm, base)),
            (Some(base), Packing::Two) => Box::new(Limited::<R, 2>::new(algorithm, base)),
            _ => Box::new(Limited::<R, 0>::new(algorithm, Timestamp::EPOCH)),
        }
    }
}

/// The largest state that is packed, in bytes. To pack and unpack a larger one, such as the counters of a sliding window,
/// takes longer than to lock it.
const MOST_PACKED_BYTES: usize = 40;

/// The cell of a limited rule: words, and next to them a state that is not packed. Without words no state is ever packed,
/// and no step tries to.
#[derive(Debug)]
struct Limited<R: Algorithm, const WORDS: usize> {
    algorithm: R,
    /// The base of packed times.
    base: Timestamp,
    words: Words<WORDS>,
    /// The lock also covers the change of the head from and to [`UNPACKED`].
    unpacked: Mutex<Unpacked<R::State>>,
}

/// The state of a cell while the head of its words is [`UNPACKED`].
#[derive(Debug)]
struct Unpacked<S> {
    state: Option<S>,
    /// The version of the words that it follows.
    version: u64,
}

impl<R: Algorithm, const WORDS: usize> Limited<R, WORDS> {
    fn new(algorithm: &R, base: Timestamp) -> Self {
        let unpacked = Mutex::new(Unpacked { state: None, version: 0 });
        Self { algorithm: algorithm.clone(), base, words: Words::new(), unpacked }
    }

    fn pack(&self, state: Option<&R::State>) -> [u64; WORDS] {
        state.map_or([0; WORDS], |state| self.algorithm.pack(self.base, state))
    }

    fn fits(&self, state: &R::State, now: Timestamp) -> bool {
        stays_whole::<_, WORDS>(&self.algorithm, self.base, state, now)
    }

    fn lock_unpacked(&self) -> MutexGuard<'_, Unpacked<R::State>> {
        self.unpacked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves a state that does not fit next to the words; false if other words are there by then.
    #[cold]
    fn spill(&self, seen: u64, state: R::State) -> bool {
        // Locked before the head changes: a thread that reads the mark waits until the state is there.
        let mut unpacked = self.lock_unpacked();
        let is_marked = self.words.mark(seen, UNPACKED);
        if is_marked {
            *unpacked = Unpacked { state: Some(state), version: seen };
        }
        is_marked
    }

    /// Locks the state next to the words; `None` if the words hold the state by now, or the cell is closed.
    #[inline]
    fn lock_if_unpacked(&self) -> Option<MutexGuard<'_, Unpacked<R::State>>> {
        let unpacked = self.lock_unpacked();
        (self.words.head() == UNPACKED).then_some(unpacked)
    }

    /// Returns whether the cell is closed, after its head was found not to be [`UNPACKED`]. Without words no state is packed.
    fn is_closed(&self) -> bool {
        WORDS == 0 || self.words.head() == CLOSED
    }

    /// Packs a state that fits into the words again.
    #[inline]
    fn pack_if_it_fits(&self, unpacked: &mut Unpacked<R::State>, now: Timestamp) {
        if WORDS > 0 && unpacked.state.as_ref().is_none_or(|state| self.fits(state, now)) {
            let state = unpacked.state.take();
            self.words.put(unpacked.version, self.pack(state.as_ref()));
        }
    }

    /// [`Cell::admits`] where the words hold no state. It stays out of line: the usual case then needs fewer registers.
    #[inline(never)]
    fn admits_unpacked(&self, cost: u64, early: Timestamp, clock: &dyn Clock) -> Option<bool> {
        let Some(mut unpacked) = self.lock_if_unpacked() else {
            return if self.is_closed() { None } else { self.admits(cost, early, clock) };
        };
        let now = clock.now();
        let state = unpacked.state.get_or_insert_with(|| self.algorithm.fresh(now));
        let admitted = self.algorithm.ask(state, now, cost).is_allowed();
        self.pack_if_it_fits(&mut unpacked, now);
        Some(admitted)
    }

    /// The time of a step on the state that was read. Two words may have the time of a last unit, which can overtake the
    /// reading.
    #[inline]
    fn time_of(&self, state: Option<&R::State>, early: Timestamp) -> Timestamp {
        if WORDS > 1 { self.algorithm.overtaken(state, early) } else { early }
    }

    /// [`Cell::step`] where the words hold no state. It stays out of line, as [`Limited::admits_unpacked`] does. It asks
    /// the words again only if another step packed the state in between.
    #[inline(never)]
    fn step_unpacked(&self, cost: u64, step: Step, reading: Reading<'_>) -> Option<One> {
        let Some(mut unpacked) = self.lock_if_unpacked() else {
            return if self.is_closed() { None } else { self.step(cost, step, reading) };
        };
        let (_, clock) = reading.apart();
        let now = clock.now();
        // A bucket that begins with fewer tokens exists after a reset, and is full.
        let begins = step.begins(cost) || matches!(step, Step::Reset { .. });
        let stays_unborn = unpacked.state.is_none() && !begins;
        // In place: unlike words, the state advances also if the step changes nothing else.
        let one = step.run(&self.algorithm, &mut unpacked.state, cost, now);
        if stays_unborn {
            unpacked.state = None;
        }
        self.pack_if_it_fits(&mut unpacked, now);
        Some(one)
    }
}

impl<R: Algorithm, const WORDS: usize> Cell for Limited<R, WORDS> {
    fn reads_early(&self) -> bool {
        WORDS > 0
    }

    fn admits(&self, cost: u64, early: Timestamp, clock: &dyn Clock) -> Option<bool> {
        while let Some(seen) = self.words.read() {
            let mut next = seen.words;
            if !self.algorithm.ask_packed(self.base, &mut next, early, cost).is_allowed() {
                return Some(false);
            }
            if self.words.replace(seen.head, next) {
                return Some(true);
            }
        }
        self.admits_unpacked(cost, early, clock)
    }

    fn step(&self, cost: u64, step: Step, reading: Reading<'_>) -> Option<One> {
        while let Some(seen) = self.words.read() {
            let mut slot = Some(self.algorithm.unpack(self.base, seen.words));
            let now = self.time_of(slot.as_ref(), reading.early());
            let one = step.run(&self.algorithm, &mut slot, cost, now);
            if !step.changes(one.verdict, cost) {
                return Some(one);
            }
            // Only a debt or a reservation can outgrow the words, so other steps need not unpack them again to compare.
            let is_stored = match slot {
                Some(state) if step.may_not_fit(cost) && !self.fits(&state, now) => {
                    self.spill(seen.head, state)
                }
                state => self.words.replace(seen.head, self.pack(state.as_ref())),
            };
            // If another step came between, this step runs again.
            if is_stored {
                return Some(one);
            }
        }
        self.step_unpacked(cost, step, reading)
    }

    fn preview(&self, reading: Reading<'_>) -> Option<Box<dyn Preview>> {
        if let Some(seen) = self.words.read() {
            let state = Some(self.algorithm.unpack(self.base, seen.words));
            let now = self.time_of(state.as_ref(), reading.early());
            return Some(preview(&self.algorithm, state, now));
        }
        let Some(mut unpacked) = self.lock_if_unpacked() else {
            return if self.is_closed() { None } else { self.preview(reading) };
        };
        let (_, clock) = reading.apart();
        let now = clock.now();
        let preview = preview(&self.algorithm, unpacked.state.clone(), now);
        self.pack_if_it_fits(&mut unpacked, now);
        Some(preview)
    }

    fn close(&self) -> Option<RuledEntry> {
        let state = loop {
            // Each step comes before the mark, or finds the cell closed.
            if let Some(seen) = self.words.read() {
                if self.words.mark(seen.head, CLOSED) {
                    let is_idle = seen.words == [0; WORDS];
                    break (!is_idle).then(|| self.algorithm.unpack(self.base, seen.words));
                }
                continue;
            }
            let mut unpacked = self.lock_unpacked();
            if self.words.mark(UNPACKED, CLOSED) {
                break unpacked.state.take();
            }
            if self.words.head() == CLOSED {
                return None;
            }
        };
        let parameters = Arc::new(Parameters::new(self.algorithm.clone()));
        Some(RuledEntry::under_parameters(parameters, Timestamp::EPOCH, state))
    }
}
