//! The verbs of every room, and the atomic step over one or several of them.
//!
//! A step is: *advance* (time passes), *decide* (looks, and by its type can not touch), *take*
//! (commits what was decided), *report* (works out the figures, only when asked). Several rules on
//! one request are: advance all, decide all, then take all. Whoever runs a step holds the states of
//! all its rules from its beginning to its end; that is the store's part.

use alloc::boxed::Box;
use core::fmt;

use crate::decision::{Decision, Outcome, Verdict};
use crate::error::RuleErrors;
use crate::rule::{Spec, Word};
use crate::time::{Micros, Timestamp};

/// How small the states of a room can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// One word of 63 bits.
    One,
    /// Two words, the first of 63 bits.
    Two,
    /// They can not be packed.
    Whole,
}

/// How long a store of packed states may run: 2^48 microseconds, nearly nine years.
pub const HORIZON: Micros = Micros::from_micros(1 << 48);

/// The bits of a packed state's first word; the one above them is the store's.
pub(crate) const WORD_BITS: u32 = 63;

/// One algorithm with the checked figures of one rule.
///
/// `at` is always the instant that [`Room::advance`] answered for the state, never a raw clock
/// reading. Costs are at least 1; a cost of 0 never reaches a room.
pub trait Room: Clone + fmt::Debug + PartialEq + Send + Sync + Sized + 'static {
    /// What the limiter of one key remembers.
    type State: Clone + fmt::Debug + PartialEq + Send + 'static;

    /// The optional words this algorithm understands.
    const WORDS: &'static [Word];

    /// Checks what only this algorithm can check; `limit` is at least 1, every figure in range.
    ///
    /// # Errors
    /// The combinations of words that are impossible.
    fn build(spec: &Spec, limit: u64, window: Micros) -> Result<Self, RuleErrors>;

    /// The state of a limiter that begins at `now`.
    fn fresh(&self, now: Timestamp) -> Self::State;

    /// Whether `cost` would be admitted at `at`.
    fn decide(&self, state: &Self::State, at: Timestamp, cost: u64) -> Verdict;

    /// Takes `cost` units at `at`, also beyond the limit (debt); counters stop at their largest value.
    fn take(&self, state: &mut Self::State, at: Timestamp, cost: u64);

    /// Gives `units` back, the oldest first, to no fewer than none used.
    fn give_back(&self, state: &mut Self::State, at: Timestamp, units: u64);

    /// The window W: how far the clock may step back before the state moves with it.
    fn window(&self) -> Micros;

    /// When the last unit was taken: the epoch before the first, the beginning for a limiter that
    /// began with units in use.
    fn last(&self, state: &Self::State) -> Timestamp;

    /// Moves the state's times back so that they end at `to`, which is before [`Room::last`].
    fn rewind(&self, state: &mut Self::State, to: Timestamp);

    /// The figure `limit` of a decision.
    fn limit(&self) -> u64;

    /// Unit-cost requests that would be admitted at `at`.
    fn remaining(&self, state: &Self::State, at: Timestamp) -> u64;

    /// Least wait until a denied `cost` fits.
    fn retry_after(&self, state: &Self::State, at: Timestamp, cost: u64) -> Micros;

    /// Least wait until the limiter is as good as new.
    fn reset_after(&self, state: &Self::State, at: Timestamp) -> Micros;

    /// How long an admitted request must be held; `taken` units of its own are in the state already.
    fn delay(&self, _state: &Self::State, _at: Timestamp, _taken: u64) -> Micros {
        Micros::ZERO
    }

    /// Units in use at `at`, rounded up; what a changed rule carries over.
    fn used(&self, state: &Self::State, at: Timestamp) -> u64;

    /// Whether the states of `old` mean the same under this rule, but for how much is allowed.
    fn same_shape(&self, old: &Self) -> bool;

    /// Makes a state of `old`, which has the same shape, a state of this rule; what was used stays used.
    fn refit(&self, _old: &Self, _state: &mut Self::State, _at: Timestamp) {}

    /// Whether forgetting the state would change no later decision.
    fn is_as_good_as_new(&self, state: &Self::State, at: Timestamp) -> bool {
        self.reset_after(state, at).is_zero()
    }

    /// The most units that any interval of length W can admit (for a queue: can see leave), however
    /// the requests come, when none costs more than `largest_cost`.
    fn bound(&self, largest_cost: u64) -> u64;

    /// Most bytes the state of one key can hold on the heap, beside `size_of::<State>()`.
    fn most_heap_bytes(&self) -> u64 {
        0
    }

    /// Advances, decides, and takes what is admitted: the verdict of one limiter alone, no figures.
    #[inline]
    fn ask(&self, state: &mut Self::State, now: Timestamp, cost: u64) -> Verdict {
        let at = self.advance(state, now);
        if cost == 0 {
            return Verdict::Allow;
        }
        let verdict = self.decide(state, at, cost);
        if verdict.is_allowed() {
            self.take(state, at, cost);
        }
        verdict
    }

    /// Whether every state can be packed into one word or two, for a store whose clock never steps
    /// back (a packed state does not keep the time of its last unit). Asked once, when a store is built.
    fn packing(&self) -> Packing {
        Packing::Whole
    }

    /// The state in words; all zero for one that is as good as new. `base` is an instant that lies
    /// before every state, and not more than [`HORIZON`] before any.
    fn pack(&self, _base: Timestamp, _state: &Self::State) -> [u64; 2] {
        [0; 2]
    }

    /// The state that was packed with the same `base`; all zero is a limiter as good as new.
    fn unpack(&self, base: Timestamp, _words: [u64; 2]) -> Self::State {
        self.fresh(base)
    }

    /// Time passes: answers the instant that counts for a clock that reads `now`.
    ///
    /// The one place that clamps a clock gone backward. A reading before the last unit counts as the
    /// time of that unit; one earlier by more than the window first moves the state's times so that
    /// they end at the reading. So nobody waits longer because of a step, and no step grants more
    /// than one fill.
    #[inline]
    fn advance(&self, state: &mut Self::State, now: Timestamp) -> Timestamp {
        let last = self.last(state);
        if now >= last {
            now
        } else if last.since(now) <= self.window() {
            last
        } else {
            self.rewind(state, now);
            now
        }
    }
}

/// One limiter held for the length of one step: a room, the slot of its key, and a cost.
///
/// An empty slot is a limiter that does not exist yet; it begins, as new, inside the step.
#[derive(Debug)]
pub struct Held<'a, R: Room> {
    room: &'a R,
    slot: &'a mut Option<R::State>,
    cost: u64,
    enforced: bool,
    at: Timestamp,
    verdict: Verdict,
    taken: bool,
}

impl<'a, R: Room> Held<'a, R> {
    /// Holds the limiter in `slot` for a request of `cost` units.
    pub const fn new(room: &'a R, slot: &'a mut Option<R::State>, cost: u64) -> Self {
        Self {
            room,
            slot,
            cost,
            enforced: true,
            at: Timestamp::EPOCH,
            verdict: Verdict::Allow,
            taken: false,
        }
    }

    /// The same, for a rule in shadow mode: it decides and counts but never refuses.
    #[must_use]
    pub const fn shadow(mut self) -> Self {
        self.enforced = false;
        self
    }

    /// Decides this limiter alone and takes the cost if it is admitted.
    pub fn ask(&mut self, now: Timestamp) -> Verdict {
        self.advance(now);
        let verdict = self.decide();
        if verdict.is_allowed() {
            self.take();
        }
        verdict
    }

    /// What [`Held::ask`] would answer, with its figures, leaving no trace.
    pub fn peek(&mut self, now: Timestamp) -> Decision {
        let begins = self.slot.is_none();
        self.advance(now);
        self.decide();
        let decision = self.report();
        if begins {
            *self.slot = None;
        }
        decision
    }

    /// Gives the cost back, to no fewer than none used.
    pub fn refund(&mut self, now: Timestamp) {
        self.give_back_units(now, self.cost);
    }

    /// Ends a reservation of `reserved` units that turned out to cost `actual`: gives the difference
    /// back, or takes it even into debt.
    pub fn settle(&mut self, now: Timestamp, reserved: u64, actual: u64) {
        if actual > reserved {
            let room = self.room;
            let (state, at) = self.advanced(now);
            room.take(state, at, actual - reserved);
        } else {
            self.give_back_units(now, reserved - actual);
        }
    }

    /// The limiter's rule was `old` until now: carries its state over to the rule held.
    pub fn amend(&mut self, now: Timestamp, old: &R) {
        let Some(mut state) = self.slot.take() else {
            return;
        };
        let at = old.advance(&mut state, now);
        if self.room.same_shape(old) {
            self.room.refit(old, &mut state, at);
            *self.slot = Some(state);
        } else {
            self.charge_as_new(at, old.used(&state, at));
        }
    }

    /// The limiter was of another algorithm until now, its state `state`: what counts as used there
    /// counts as taken now.
    pub fn carry_over<Old: Room>(&mut self, now: Timestamp, old: &Old, mut state: Old::State) {
        let at = old.advance(&mut state, now);
        self.charge_as_new(at, old.used(&state, at));
    }

    /// Whether the slot could be emptied without changing a later decision.
    #[must_use]
    pub fn is_as_good_as_new(&self) -> bool {
        self.slot.as_ref().is_none_or(|state| self.room.is_as_good_as_new(state, self.at))
    }

    fn give_back_units(&mut self, now: Timestamp, units: u64) {
        if self.slot.is_some() {
            let room = self.room;
            let (state, at) = self.advanced(now);
            room.give_back(state, at, units);
        }
    }

    fn charge_as_new(&mut self, at: Timestamp, used: u64) {
        let mut state = self.room.fresh(at);
        if used > 0 {
            self.room.take(&mut state, at, used);
        }
        *self.slot = Some(state);
    }

    fn report_of(&self, state: &R::State) -> Decision {
        let (room, at) = (self.room, self.at);
        let taken = if self.taken { self.cost } else { 0 };
        let outcome = match self.verdict {
            Verdict::Allow if self.cost == 0 => Outcome::Allow { delay: Micros::ZERO },
            Verdict::Allow => Outcome::Allow { delay: room.delay(state, at, taken) },
            Verdict::Deny => Outcome::Deny { retry_after: room.retry_after(state, at, self.cost) },
            Verdict::Never => Outcome::Never,
        };
        Decision {
            outcome,
            limit: room.limit(),
            remaining: room.remaining(state, at),
            reset_after: room.reset_after(state, at),
        }
    }

    fn advanced(&mut self, now: Timestamp) -> (&mut R::State, Timestamp) {
        let state = self.slot.get_or_insert_with(|| self.room.fresh(now));
        self.at = self.room.advance(state, now);
        (state, self.at)
    }
}

/// The verbs of a held limiter, whatever its algorithm: what a step over several rules needs.
pub trait Verbs {
    /// Time passes; a limiter that did not exist begins.
    fn advance(&mut self, now: Timestamp);
    /// Looks, and touches nothing.
    fn decide(&mut self) -> Verdict;
    /// What [`Verbs::decide`] answered.
    fn verdict(&self) -> Verdict;
    /// Takes the cost that was admitted.
    fn take(&mut self);
    /// Gives the cost back, to no fewer than none used.
    fn give_back(&mut self);
    /// The figures, as of the end of the step.
    fn report(&self) -> Decision;
    /// False for a rule in shadow mode.
    fn is_enforced(&self) -> bool;
}

impl<R: Room> Verbs for Held<'_, R> {
    fn advance(&mut self, now: Timestamp) {
        self.advanced(now);
    }

    fn decide(&mut self) -> Verdict {
        self.verdict = match &*self.slot {
            Some(state) if self.cost > 0 => self.room.decide(state, self.at, self.cost),
            _ => Verdict::Allow,
        };
        self.verdict
    }

    fn verdict(&self) -> Verdict {
        self.verdict
    }

    fn take(&mut self) {
        if let (Some(state), 1..) = (&mut *self.slot, self.cost) {
            self.room.take(state, self.at, self.cost);
            self.taken = true;
        }
    }

    fn give_back(&mut self) {
        if let (Some(state), 1..) = (&mut *self.slot, self.cost) {
            self.room.give_back(state, self.at, self.cost);
        }
    }

    fn report(&self) -> Decision {
        match &*self.slot {
            Some(state) => self.report_of(state),
            None => self.report_of(&self.room.fresh(self.at)),
        }
    }

    fn is_enforced(&self) -> bool {
        self.enforced
    }
}

/// Looks at several limiters at `now` and touches none: whether all that are enforced would admit.
///
/// A shadow rule never refuses.
pub fn look_at_all<V: Verbs + ?Sized>(held: &mut [Box<V>], now: Timestamp) -> bool {
    held.iter_mut().for_each(|one| one.advance(now));
    held.iter_mut().fold(true, |all, one| all & (one.decide().is_allowed() | !one.is_enforced()))
}

/// One atomic step over several limiters: all that are enforced must admit, else none is charged.
///
/// A shadow rule never refuses; it is charged, like the others, when the request goes on and it
/// would have admitted it itself. Answers whether the request goes on.
pub fn decide_all<V: Verbs + ?Sized>(held: &mut [Box<V>], now: Timestamp) -> bool {
    let goes_on = look_at_all(held, now);
    if goes_on {
        held.iter_mut().filter(|one| one.verdict().is_allowed()).for_each(|one| one.take());
    }
    goes_on
}
