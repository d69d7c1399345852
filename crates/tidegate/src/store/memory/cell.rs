//! One limiter by itself, without a key.
//!
//! How its state is kept is chosen once: a word that is replaced by compare-and-swap, two words under
//! a lock bit in the first, or the whole state under a lock. All run the same verbs on a copy. When
//! its rule is changed it is closed, and what follows it is kept whole: no change may cut off what a
//! packed state has no room for. So it is when a debt is settled that the words have no room for; the
//! rule then stays, and the debt is taken by what follows.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::{Packing, Room, Rule, RuleErrors, Timestamp, Visitor};

use super::ahead::{Ahead, ahead, ahead_of_none};
use super::build::stays_whole;
use super::estate::carried;
use super::later::Later;
use super::spin::Spin;
use super::sync::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use super::table::{One, Step};
use crate::clock::Reading;

/// The bit that packed states leave free.
const LOCKED: u64 = 1 << 63;
/// What a closed word holds.
const CLOSED: u64 = LOCKED;

/// One limiter, whatever its algorithm and however it keeps its state.
pub(crate) trait Cell: fmt::Debug + Send + Sync {
    /// Decides and takes, working out no figures: whether the cost was admitted.
    fn admits(&self, cost: u64, reading: Reading<'_>) -> bool;

    /// One step.
    fn step(&self, cost: u64, step: Step, reading: Reading<'_>) -> One;

    /// Makes it as good as new.
    fn forget(&self);

    /// A look ahead from its state as it is now.
    fn ahead(&self, reading: Reading<'_>) -> Box<dyn Ahead>;

    /// Closes it for good; answers the cell of `rule` that follows, in which what was used stays used,
    /// or `None` where that is unlimited.
    fn close(&self, rule: &Rule, reading: Reading<'_>) -> Option<Box<dyn Cell>>;
}

impl Later<dyn Cell> {
    /// [`Cell::admits`] of the cell in force.
    pub(crate) fn admits(&self, cost: u64, reading: Reading<'_>) -> bool {
        self.with(|cell| cell.is_none_or(|cell| cell.admits(cost, reading)))
    }

    /// [`Cell::step`] of the cell in force.
    pub(crate) fn step(&self, cost: u64, step: Step, reading: Reading<'_>) -> One {
        self.with(|cell| match cell {
            Some(cell) => cell.step(cost, step, reading),
            None => One::unlimited(reading.early()),
        })
    }

    /// [`Cell::forget`] of the cell in force.
    pub(crate) fn forget(&self) {
        self.with(|cell| cell.iter().for_each(|cell| cell.forget()));
    }

    /// [`Cell::ahead`] of the cell in force.
    pub(crate) fn ahead(&self, reading: Reading<'_>) -> Box<dyn Ahead> {
        self.with(|cell| cell.map_or_else(ahead_of_none, |cell| cell.ahead(reading)))
    }

    /// Puts `rule` in force in place of that of `first`, or of what followed it.
    pub(crate) fn amend(
        &self,
        first: Option<&(dyn Cell + 'static)>,
        rule: &Rule,
        reading: Reading<'_>,
    ) -> Result<(), RuleErrors> {
        self.change(first, |last| match last {
            Some(cell) => (cell.close(rule, reading), Ok(())),
            None => (rule.visit(cell_of(None, Self::none_yet())), Ok(())),
        })
    }
}

/// The cell of a rule that is visited; `later` decides once it is closed. Without `base`, what packed
/// times count from, the state is kept whole.
pub(crate) fn cell_of(
    base: Option<Timestamp>,
    later: Arc<Later<dyn Cell>>,
) -> impl Visitor<Out = Box<dyn Cell>> {
    Build { base, later }
}

struct Build {
    base: Option<Timestamp>,
    later: Arc<Later<dyn Cell>>,
}

impl Visitor for Build {
    type Out = Box<dyn Cell>;

    fn visit<R: Room>(self, room: &R) -> Box<dyn Cell> {
        let (room, later) = (room.clone(), self.later);
        match (room.packing(), self.base) {
            (Packing::One, Some(base)) => {
                Box::new(Word { room, base, word: AtomicU64::new(0), later })
            }
            (Packing::Two, Some(base)) => Box::new(Pair {
                room,
                base,
                first: AtomicU64::new(0),
                second: AtomicU64::new(0),
                closed: AtomicU32::new(0),
                later,
            }),
            _ => Box::new(Locked::new(room, None, later)),
        }
    }
}

/// Carries the state of a closed cell over to the rule that is visited.
struct Heir<'a, Old: Room> {
    old: &'a Old,
    state: Option<Old::State>,
    now: Timestamp,
}

impl<Old: Room> Visitor for Heir<'_, Old> {
    type Out = Box<dyn Cell>;

    fn visit<R: Room>(self, room: &R) -> Box<dyn Cell> {
        let state = self.state.and_then(|state| carried(self.old, state, room, self.now));
        Box::new(Locked::new(room.clone(), state, Later::none_yet()))
    }
}

/// A state in one word.
#[derive(Debug)]
struct Word<R: Room> {
    room: R,
    base: Timestamp,
    word: AtomicU64,
    later: Arc<Later<dyn Cell>>,
}

impl<R: Room> Word<R> {
    /// Closes it; answers its state.
    fn end(&self) -> Option<R::State> {
        let word = self.word.swap(CLOSED, AcqRel);
        (word != 0).then(|| self.room.unpack(self.base, [word, 0]))
    }
}

impl<R: Room> Cell for Word<R> {
    fn admits(&self, cost: u64, reading: Reading<'_>) -> bool {
        let mut word = self.word.load(Acquire);
        loop {
            if word & CLOSED != 0 {
                return self.later.admits(cost, reading);
            }
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
            if word & CLOSED != 0 {
                return self.later.step(cost, step, reading);
            }
            let mut slot = Some(self.room.unpack(self.base, [word, 0]));
            let (one, changed) = step.run(&self.room, &mut slot, cost, reading.early());
            let Some(state) = slot.filter(|_| changed) else { return one };
            if step.owes(cost) && !stays_whole(&self.room, self.base, &state, reading.early()) {
                self.later.follow(|| followed_whole(&self.room, self.end()));
                return self.later.step(cost, step, reading);
            }
            let next = self.room.pack(self.base, &state)[0];
            match self.word.compare_exchange_weak(word, next, AcqRel, Acquire) {
                Ok(_) => return one,
                Err(other) => word = other,
            }
        }
    }

    fn forget(&self) {
        let mut word = self.word.load(Acquire);
        while word & CLOSED == 0 {
            match self.word.compare_exchange_weak(word, 0, AcqRel, Acquire) {
                Ok(_) => return,
                Err(other) => word = other,
            }
        }
        self.later.forget();
    }

    fn ahead(&self, reading: Reading<'_>) -> Box<dyn Ahead> {
        match self.word.load(Acquire) {
            word if word & CLOSED != 0 => self.later.ahead(reading),
            word => {
                let state = self.room.unpack(self.base, [word, 0]);
                ahead(&self.room, Some(state), reading.early())
            }
        }
    }

    fn close(&self, rule: &Rule, reading: Reading<'_>) -> Option<Box<dyn Cell>> {
        rule.visit(Heir { old: &self.room, state: self.end(), now: reading.anew() })
    }
}

/// A state in two words; the free bit of the first is the lock over both. It is closed by a lock that
/// never ends.
#[derive(Debug)]
struct Pair<R: Room> {
    room: R,
    base: Timestamp,
    first: AtomicU64,
    second: AtomicU64,
    /// 1 when closed.
    closed: AtomicU32,
    later: Arc<Later<dyn Cell>>,
}

impl<R: Room> Pair<R> {
    /// Locks; answers both words, or `None` when it is closed.
    fn lock(&self) -> Option<[u64; 2]> {
        let mut spin = Spin::default();
        loop {
            let first = self.first.load(Relaxed) & !LOCKED;
            if self.first.compare_exchange_weak(first, first | LOCKED, Acquire, Relaxed).is_ok() {
                return Some([first, self.second.load(Relaxed)]);
            }
            if self.closed.load(Acquire) != 0 {
                return None;
            }
            spin.wait();
        }
    }

    /// Closes it; answers its state.
    fn end(&self) -> Option<R::State> {
        let words = self.lock().filter(|words| *words != [0; 2]);
        self.closed.store(1, Release);
        words.map(|words| self.room.unpack(self.base, words))
    }

    /// Stores both words, and unlocks.
    fn unlock(&self, words: [u64; 2]) {
        self.second.store(words[1], Relaxed);
        self.first.store(words[0], Release);
    }
}

impl<R: Room> Cell for Pair<R> {
    fn admits(&self, cost: u64, reading: Reading<'_>) -> bool {
        let Some(words) = self.lock() else { return self.later.admits(cost, reading) };
        let mut state = self.room.unpack(self.base, words);
        let allowed = self.room.ask(&mut state, reading.early(), cost).is_allowed();
        self.unlock(if allowed { self.room.pack(self.base, &state) } else { words });
        allowed
    }

    fn step(&self, cost: u64, step: Step, reading: Reading<'_>) -> One {
        let Some(words) = self.lock() else { return self.later.step(cost, step, reading) };
        let mut slot = Some(self.room.unpack(self.base, words));
        let (one, changed) = step.run(&self.room, &mut slot, cost, reading.early());
        let state = slot.filter(|_| changed);
        let is_cut = |state| !stays_whole(&self.room, self.base, state, reading.early());
        if step.owes(cost) && state.as_ref().is_some_and(is_cut) {
            self.unlock(words);
            self.later.follow(|| followed_whole(&self.room, self.end()));
            return self.later.step(cost, step, reading);
        }
        self.unlock(state.map_or(words, |state| self.room.pack(self.base, &state)));
        one
    }

    fn forget(&self) {
        match self.lock() {
            Some(_) => self.unlock([0; 2]),
            None => self.later.forget(),
        }
    }

    fn ahead(&self, reading: Reading<'_>) -> Box<dyn Ahead> {
        let Some(words) = self.lock() else { return self.later.ahead(reading) };
        self.unlock(words);
        ahead(&self.room, Some(self.room.unpack(self.base, words)), reading.early())
    }

    fn close(&self, rule: &Rule, reading: Reading<'_>) -> Option<Box<dyn Cell>> {
        rule.visit(Heir { old: &self.room, state: self.end(), now: reading.anew() })
    }
}

/// What follows a cell that ended under the same rule.
fn followed_whole<R: Room>(room: &R, state: Option<R::State>) -> Box<dyn Cell> {
    Box::new(Locked::new(room.clone(), state, Later::none_yet()))
}

/// A whole state under a lock.
#[derive(Debug)]
struct Locked<R: Room> {
    room: R,
    slot: Mutex<Slot<R>>,
    later: Arc<Later<dyn Cell>>,
}

#[derive(Debug)]
struct Slot<R: Room> {
    state: Option<R::State>,
    closed: bool,
}

impl<R: Room> Locked<R> {
    fn new(room: R, state: Option<R::State>, later: Arc<Later<dyn Cell>>) -> Self {
        Self { room, slot: Mutex::new(Slot { state, closed: false }), later }
    }

    /// Locks; `None` when it is closed.
    fn lock(&self) -> Option<MutexGuard<'_, Slot<R>>> {
        let slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        (!slot.closed).then_some(slot)
    }
}

impl<R: Room> Cell for Locked<R> {
    fn admits(&self, cost: u64, reading: Reading<'_>) -> bool {
        let Some(mut slot) = self.lock() else { return self.later.admits(cost, reading) };
        let now = reading.anew();
        let state = slot.state.get_or_insert_with(|| self.room.fresh(now));
        self.room.ask(state, now, cost).is_allowed()
    }

    fn step(&self, cost: u64, step: Step, reading: Reading<'_>) -> One {
        let Some(mut slot) = self.lock() else { return self.later.step(cost, step, reading) };
        let stays_unborn = slot.state.is_none() && !step.begins(cost);
        let (one, _) = step.run(&self.room, &mut slot.state, cost, reading.anew());
        if stays_unborn {
            slot.state = None;
        }
        one
    }

    fn forget(&self) {
        match self.lock() {
            Some(mut slot) => slot.state = None,
            None => self.later.forget(),
        }
    }

    fn ahead(&self, reading: Reading<'_>) -> Box<dyn Ahead> {
        match self.lock() {
            Some(slot) => ahead(&self.room, slot.state.clone(), reading.anew()),
            None => self.later.ahead(reading),
        }
    }

    fn close(&self, rule: &Rule, reading: Reading<'_>) -> Option<Box<dyn Cell>> {
        let state = self.lock().and_then(|mut slot| {
            slot.closed = true;
            slot.state.take()
        });
        rule.visit(Heir { old: &self.room, state, now: reading.anew() })
    }
}
