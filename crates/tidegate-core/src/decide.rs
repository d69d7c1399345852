//! The verbs and the values of an algorithm.
//!
//! Each folder of `algorithms` has one implementation. `held.rs` runs the verbs on a limiter in memory, and the other
//! traits of an algorithm (`algorithm.rs`, `packing.rs`) build on them.

use core::fmt;

use crate::decision::Verdict;
use crate::error::RuleErrors;
use crate::field::Field;
use crate::past::{Past, Since};
use crate::spec::Spec;
use crate::time::{Micros, Timestamp, Token};

/// The verbs and the values of one algorithm, with the checked parameters of one rule.
///
/// `at` is always the instant that [`Decide::advance`] returned for the state, never a raw clock reading. Costs are at
/// least 1; a cost of 0 never reaches an algorithm.
pub trait Decide: Clone + fmt::Debug + PartialEq + Send + Sync + Sized + 'static {
    /// The state of one key's limiter.
    type State: Clone + fmt::Debug + PartialEq + Send + 'static;

    /// The optional fields of a [`Spec`] that this algorithm understands.
    const FIELDS: &'static [Field];

    /// True if admitted requests are held for their [`delay`](Decide::delay) and leave in order.
    const IS_QUEUE: bool = false;

    /// True if units are out until their permit is returned by its [`token`](Decide::token). Settling then returns all
    /// units, at any actual cost.
    const HOLDS_PERMITS: bool = false;

    /// Sets other fields of a spec whose limit and window the algorithm cannot hold by default, so that it can be
    /// compared with other algorithms.
    fn fit(_spec: &mut Spec, _limit: u64, _window: Micros) {}

    /// Builds the rule and makes the checks that only this algorithm can make. `limit` may be 0;
    /// every number is in its range.
    ///
    /// A spec that is valid with some limit is valid with a limit of 0: setting it closes the gate and needs no other
    /// field changed. Every cost is then [`Verdict::Never`], and units in use leave as the algorithm defines.
    ///
    /// # Errors
    /// Returns the combinations of fields that are impossible.
    fn build(spec: &Spec, limit: u64, window: Micros) -> Result<Self, RuleErrors>;

    /// The state of a limiter that begins at `now`.
    fn fresh(&self, now: Timestamp) -> Self::State;

    /// Returns whether `cost` would be admitted at `at`.
    fn decide(&self, state: &Self::State, at: Timestamp, cost: u64) -> Verdict;

    /// Takes `cost` units at `at`, also beyond the limit (debt); counters stop at their largest value.
    fn take(&self, state: &mut Self::State, at: Timestamp, cost: u64);

    /// Takes `cost` units like [`Decide::take`] without allocating memory. A state that would have to grow keeps its
    /// times more coarsely instead, and later admits nothing sooner because of that.
    fn take_in_place(&self, state: &mut Self::State, at: Timestamp, cost: u64) {
        self.take(state, at, cost);
    }

    /// Returns whether the state has allocated the memory for another [`Decide::take`].
    fn has_place(&self, _state: &Self::State) -> bool {
        true
    }

    /// Gives `units` back, at most as many as are used. The algorithm chooses which units come back first: the oldest
    /// if each has a time of its own, the heaviest in a weighted count. Units that no longer count are not given back.
    fn give_back(&self, state: &mut Self::State, at: Timestamp, units: u64);

    /// Gives back `units` that were taken at `since`, as far as they still count; returns how many units came back,
    /// rounded up. Windows, buckets and the time of the last unit stay as taking the units left them.
    fn give_back_since(
        &self,
        state: &mut Self::State,
        at: Timestamp,
        units: u64,
        since: Since,
    ) -> u64;

    /// Notes that the units that were taken last, at `at`, belong to a reservation.
    fn open(&self, _state: &mut Self::State, _at: Timestamp) {}

    /// Notes that one of the reservations since `since` is settled.
    fn close(&self, _state: &mut Self::State, _since: Timestamp) {}

    /// The memory of the state about units that may still be given back; `None` if they are known in another way.
    fn past<'s>(&self, state: &'s Self::State) -> Option<&'s Past>;

    /// See [`Decide::past`].
    fn past_mut<'s>(&self, state: &'s mut Self::State) -> Option<&'s mut Past>;

    /// The time after which `units` that are taken at one instant count no more, also if others are taken later.
    fn counts_for(&self, _units: u64) -> Micros {
        self.lap().unwrap_or(Micros::MAX)
    }

    /// The window W: the largest step back of the clock with which the state does not move.
    fn window(&self) -> Micros;

    /// The time in which `limit` units, all taken at one instant, have left; `None` if units leave one after another at
    /// the rate, debts too.
    fn lap(&self) -> Option<Micros> {
        Some(self.window())
    }

    /// When the last unit was taken: the epoch before the first unit, the time of creation for a
    /// limiter that began with units in use.
    fn last(&self, state: &Self::State) -> Timestamp;

    /// Moves the state's times back so that they end at `to`, which is before [`Decide::last`]. The caller notes in
    /// [`Decide::past`] that units taken until then come back no more.
    fn rewind(&self, state: &mut Self::State, to: Timestamp);

    /// The value `limit` of a decision.
    fn limit(&self) -> u64;

    /// The number of units beyond the limit that may be in use, if the rule says.
    fn max_debt(&self) -> Option<u64>;

    /// The maximum number of units that may be in use after a settlement takes more.
    fn most_in_use(&self) -> u64 {
        self.limit().saturating_add(self.max_debt().unwrap_or(self.limit()))
    }

    /// Unit-cost requests that would be admitted at `at`.
    fn remaining(&self, state: &Self::State, at: Timestamp) -> u64;

    /// Least wait until a denied `cost` fits.
    fn retry_after(&self, state: &Self::State, at: Timestamp, cost: u64) -> Micros;

    /// Least wait until the limiter is idle, and zero exactly when nothing is used. Where units
    /// never leave, it is the time until [`Timestamp::MAX`].
    fn reset_after(&self, state: &Self::State, at: Timestamp) -> Micros;

    /// The time for which an admitted request must be held; `taken` units of its own are in the state already.
    fn delay(&self, _state: &Self::State, _at: Timestamp, _taken: u64) -> Micros {
        Micros::ZERO
    }

    /// Units in use at `at`, rounded up; a changed rule carries these over.
    fn used(&self, state: &Self::State, at: Timestamp) -> u64;

    /// Returns whether nothing is used that a fresh limiter would not begin with.
    fn is_unused(&self, state: &Self::State, at: Timestamp) -> bool {
        self.reset_after(state, at).is_zero()
    }

    /// Returns whether forgetting the state would change no later decision.
    fn is_idle(&self, state: &Self::State, at: Timestamp) -> bool {
        self.is_unused(state, at) && self.past(state).is_none_or(|past| past.is_over(at))
    }

    /// Drops a state in which nothing is used, except for its memory; `None` if that is empty too.
    fn worth_keeping(&self, mut state: Self::State, at: Timestamp) -> Option<Self::State> {
        if !self.is_unused(&state, at) {
            return Some(state);
        }
        let past = self.past_mut(&mut state).map(core::mem::take).filter(|past| !past.is_over(at));
        let mut fresh = self.fresh(at);
        *self.past_mut(&mut fresh)? = past?;
        Some(fresh)
    }

    /// The maximum number of units that any interval of length W can admit (for a queue: can see leave), when none
    /// costs more than `largest_cost`.
    fn bound(&self, largest_cost: u64) -> u64;

    /// Bytes that a state holds on the heap at this moment, in addition to `size_of::<State>()`.
    fn heap_bytes(&self, _state: &Self::State) -> u64 {
        0
    }

    /// Most bytes the state of one key can hold on the heap, in addition to `size_of::<State>()`.
    fn most_heap_bytes(&self) -> u64 {
        0
    }

    /// The token of the permit that was taken last, if the algorithm [holds permits](Decide::HOLDS_PERMITS).
    fn token(&self, _state: &Self::State) -> Option<Token> {
        None
    }

    /// Returns `units` of the permit with this token, at most all of them; one that has ended stays as it is.
    fn return_permit(&self, _state: &mut Self::State, _at: Timestamp, _token: Token, _units: u64) {}

    /// Makes the permit with this token last W from `at`. Returns whether it was still out; if not, nothing changes.
    fn renew(&self, _state: &mut Self::State, _at: Timestamp, _token: Token) -> bool {
        false
    }

    /// Advances, decides, and takes the cost if it is admitted; returns the verdict alone.
    #[inline(always)]
    fn ask(&self, state: &mut Self::State, now: Timestamp, cost: u64) -> Verdict {
        let at = self.advance(state, now);
        if cost == 0 {
            return Verdict::Allow;
        }
        let verdict = self.decide(state, at, cost);
        if verdict.is_allowed() {
            self.pass(state, at);
            self.take(state, at, cost);
        }
        verdict
    }

    /// Moves time forward; returns the instant that counts for a clock that reads `now`.
    ///
    /// This is the only place that handles a clock that stepped backward. A reading before the last unit counts as the
    /// time of that unit. If it is earlier by more than the window, the state's times are first moved back to end at the
    /// reading. So no step makes a caller wait longer, and no step grants more than one fill.
    #[inline]
    fn advance(&self, state: &mut Self::State, now: Timestamp) -> Timestamp {
        let last = self.last(state);
        if now >= last {
            now
        } else if last.since(now) <= self.window() {
            last
        } else {
            self.move_back(state, now, last);
            now
        }
    }

    /// Drops the memory that the state no longer needs once units are taken at `at`. A look drops nothing: the clock
    /// may step back.
    #[inline]
    fn pass(&self, state: &mut Self::State, at: Timestamp) {
        if let Some(past) = self.past_mut(state).filter(|past| !past.is_none()) {
            past.pass(at);
        }
    }

    /// Moves a state back with its clock.
    #[cold]
    fn move_back(&self, state: &mut Self::State, now: Timestamp, last: Timestamp) {
        self.rewind(state, now);
        let until = last.plus(self.counts_for(self.limit()));
        if let Some(past) = self.past_mut(state) {
            past.lose(last, until);
        }
    }
}
