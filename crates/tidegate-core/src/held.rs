//! One atomic step over one limiter or several.
//!
//! A step *advances* each state (time passes), *decides* (reads the state, and by its type cannot
//! change it), *takes* (commits the decision), and *reports* (computes the values of the decision,
//! only if they are needed). With several rules on one request it advances all, decides all, then
//! takes all. The store keeps the states of all rules locked during the whole step.

mod amend;
mod settle;

use core::borrow::BorrowMut;
use core::ops::DerefMut;

use crate::algorithm::{Algorithm, Decide};
use crate::decision::{Decision, Outcome, Verdict};
use crate::script::ScriptReply;
use crate::time::{Micros, Timestamp, Token};
pub use settle::{Settled, Settlement};

/// One limiter held during one step: an algorithm, the slot of its key, and a cost.
///
/// An empty slot is a limiter that does not exist yet; the step creates it. The slot is borrowed, or a copy
/// that is part of this value ([`Held::of_copy`]).
#[derive(Debug)]
pub struct Held<'a, R: Algorithm, S = &'a mut Option<<R as Decide>::State>> {
    algorithm: &'a R,
    slot: S,
    cost: u64,
    enforced: bool,
    /// True if the cost is usage that a caller reports: it is taken whatever the decision, which is
    /// about one unit more.
    is_usage: bool,
    /// True if the state must not grow, because there is no memory for it.
    in_place: bool,
    /// The time that the clock shows.
    now: Timestamp,
    /// The instant that counts: `now`, or the time of the last unit if the clock is slightly before it.
    at: Timestamp,
    verdict: Verdict,
    taken: bool,
}

impl<'a, R: Algorithm> Held<'a, R> {
    /// Prepares a step of the limiter in `slot` for a request of `cost` units.
    pub const fn new(algorithm: &'a R, slot: &'a mut Option<R::State>, cost: u64) -> Self {
        Self::in_slot(algorithm, slot, cost)
    }

    /// A limiter after a step that ran elsewhere, with its state in `slot`, to compute the values
    /// of the decision.
    pub(crate) const fn after(
        algorithm: &'a R,
        slot: &'a mut Option<R::State>,
        cost: u64,
        reply: &ScriptReply,
    ) -> Self {
        let mut held = Self::new(algorithm, slot, cost);
        (held.now, held.at) = (reply.now, reply.at);
        (held.verdict, held.taken) = (reply.verdict, reply.taken);
        held
    }
}

impl<'a, R: Algorithm> Held<'a, R, Option<R::State>> {
    /// Prepares a step of a limiter whose state was copied from where it is kept; [`Held::into_slot`] returns it.
    pub const fn of_copy(algorithm: &'a R, state: Option<R::State>, cost: u64) -> Self {
        Self::in_slot(algorithm, state, cost)
    }

    /// The state as the step leaves it.
    #[must_use]
    pub fn into_slot(self) -> Option<R::State> {
        self.slot
    }
}

impl<'a, R: Algorithm, S: BorrowMut<Option<R::State>>> Held<'a, R, S> {
    const fn in_slot(algorithm: &'a R, slot: S, cost: u64) -> Self {
        Self {
            algorithm,
            slot,
            cost,
            enforced: true,
            is_usage: false,
            in_place: false,
            now: Timestamp::EPOCH,
            at: Timestamp::EPOCH,
            verdict: Verdict::Allow,
            taken: false,
        }
    }

    /// Marks a rule in shadow mode: it decides and counts but never refuses.
    #[must_use]
    pub const fn shadow(mut self) -> Self {
        self.enforced = false;
        self
    }

    /// Marks the cost as usage that a caller reports: see [`Held::take_reported`].
    #[must_use]
    pub(crate) const fn for_usage(mut self) -> Self {
        self.is_usage = true;
        self
    }

    /// Forbids the state to grow, because there is no memory: units are then kept more coarsely,
    /// and nothing is admitted sooner because of that.
    #[must_use]
    pub const fn in_place(mut self) -> Self {
        self.in_place = true;
        self
    }

    /// Decides this limiter alone and takes the cost if it is admitted.
    #[inline]
    pub fn ask(&mut self, now: Timestamp) -> Verdict {
        self.advance(now);
        let verdict = self.decide();
        if verdict.is_allowed() {
            self.take();
        }
        verdict
    }

    /// Returns the decision that [`Held::ask`] would make, without any change of the state.
    #[must_use]
    pub fn peek(&mut self, now: Timestamp) -> Decision {
        let begins = self.slot().is_none();
        self.advance(now);
        let _ = self.decide();
        let decision = self.report();
        // A look creates no limiter.
        if begins {
            *self.slot.borrow_mut() = None;
        }
        decision
    }

    /// Makes a permit last W from now. Returns whether it was still out; if not, nothing changes. Units of an algorithm
    /// without permits need no renewal.
    pub fn renew(&mut self, now: Timestamp, token: Token) -> bool {
        let algorithm = self.algorithm;
        // Without a limiter there is no permit, and a renewal creates no limiter.
        if !R::HOLDS_PERMITS || self.slot().is_none() {
            return !R::HOLDS_PERMITS;
        }
        let (state, at) = self.advanced(now);
        algorithm.renew(state, at, token)
    }

    /// Returns whether the slot could be emptied without changing a later decision.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.slot().as_ref().is_none_or(|state| self.algorithm.is_idle(state, self.at))
    }

    pub(crate) const fn algorithm(&self) -> &'a R {
        self.algorithm
    }

    pub(crate) const fn cost(&self) -> u64 {
        self.cost
    }

    pub(crate) fn state(&self) -> Option<&R::State> {
        self.slot().as_ref()
    }

    pub(crate) fn replace(&mut self, state: R::State) {
        *self.slot.borrow_mut() = Some(state);
    }

    /// The units that the decision is about.
    const fn asked(&self) -> u64 {
        if self.is_usage { 1 } else { self.cost }
    }

    fn take_units(&mut self, units: u64) {
        let Some(state) = self.slot.borrow_mut() else { return };
        // Only when units are taken, because a look may be followed by an earlier reading.
        self.algorithm.pass(state, self.at);
        if self.in_place {
            self.algorithm.take_in_place(state, self.at, units);
        } else {
            self.algorithm.take(state, self.at, units);
        }
    }

    fn slot(&self) -> &Option<R::State> {
        self.slot.borrow()
    }

    /// The values of the decision. A caller measures waits on the clock that was read; if that
    /// clock is before the instant that counts, the difference is added to the waits.
    fn report_of(&self, state: &R::State) -> Decision {
        let algorithm = self.algorithm;
        let at = self.at;
        // Nonzero only while the clock reads less than the time of the last unit, by at most W.
        let behind = self.at.since(self.now);
        // Units just taken are in the state already, and must not delay themselves.
        let taken = if self.taken { self.cost } else { 0 };
        let outcome = match self.verdict {
            Verdict::Allow if self.cost == 0 || self.is_usage => {
                Outcome::Allow { delay: Micros::ZERO }
            }
            Verdict::Allow => Outcome::Allow { delay: algorithm.delay(state, at, taken) },
            Verdict::Deny => {
                let wait = algorithm.retry_after(state, at, self.asked());
                Outcome::Deny { retry_after: wait.plus(behind) }
            }
            Verdict::Never => Outcome::Never,
        };
        Decision {
            outcome,
            limit: algorithm.limit(),
            remaining: algorithm.remaining(state, at),
            reset_after: match algorithm.reset_after(state, at) {
                // An idle limiter is idle now, at any reading of the clock.
                Micros::ZERO => Micros::ZERO,
                wait => wait.plus(behind),
            },
        }
    }

    fn advanced(&mut self, now: Timestamp) -> (&mut R::State, Timestamp) {
        self.now = now;
        let state = self.slot.borrow_mut().get_or_insert_with(|| self.algorithm.fresh(now));
        self.at = self.algorithm.advance(state, now);
        (state, self.at)
    }
}

/// The verbs that a step over several rules needs, of any algorithms.
pub trait Verbs {
    /// Moves time forward; creates a limiter that does not exist yet.
    fn advance(&mut self, now: Timestamp);
    /// Decides without any change of the state.
    fn decide(&mut self) -> Verdict;
    /// The result of [`Verbs::decide`].
    fn verdict(&self) -> Verdict;
    /// Takes the cost that was admitted.
    fn take(&mut self);
    /// Gives the cost back, at most as many units as are used. The decision is then about no units.
    fn give_back(&mut self);
    /// The decision with its values, as of the end of the step.
    fn report(&self) -> Decision;
    /// The token of the permit that was taken.
    fn token(&self) -> Option<Token>;
    /// The instant that counted.
    fn at(&self) -> Timestamp;
    /// False for a rule in shadow mode.
    fn is_enforced(&self) -> bool;
}

impl<R: Algorithm, S: BorrowMut<Option<R::State>>> Verbs for Held<'_, R, S> {
    fn advance(&mut self, now: Timestamp) {
        self.advanced(now);
    }

    fn decide(&mut self) -> Verdict {
        self.verdict = match self.slot() {
            // A cost of 0 is always admitted, and never reaches an algorithm.
            Some(state) if self.asked() > 0 => self.algorithm.decide(state, self.at, self.asked()),
            _ => Verdict::Allow,
        };
        self.verdict
    }

    fn verdict(&self) -> Verdict {
        self.verdict
    }

    fn take(&mut self) {
        if self.cost > 0 {
            self.take_units(self.cost);
            self.taken = true;
        }
    }

    fn give_back(&mut self) {
        if let (Some(state), 1..) = (self.slot.borrow_mut(), self.cost) {
            self.algorithm.give_back(state, self.at, self.cost);
        }
        // No unit is asked for any more, so the decision refuses nothing.
        self.cost = 0;
    }

    fn report(&self) -> Decision {
        match self.slot() {
            Some(state) => self.report_of(state),
            None => self.report_of(&self.algorithm.fresh(self.at)),
        }
    }

    fn token(&self) -> Option<Token> {
        let state = self.slot().as_ref().filter(|_| R::HOLDS_PERMITS && self.taken)?;
        self.algorithm.token(state)
    }

    fn at(&self) -> Timestamp {
        self.at
    }

    fn is_enforced(&self) -> bool {
        self.enforced
    }
}

/// Returns whether all enforced limiters would admit the request at `now`; changes nothing.
pub fn look_at_all<V: DerefMut<Target: Verbs>>(held: &mut [V], now: Timestamp) -> bool {
    held.iter_mut().for_each(|one| one.advance(now));
    // `&` does not stop at the first refusal: every limiter reports a verdict of its own.
    held.iter_mut().fold(true, |all, one| all & (one.decide().is_allowed() | !one.is_enforced()))
}

/// Runs one atomic step over several limiters: all enforced ones must admit the request, else none
/// is charged.
///
/// A rule in shadow mode never refuses. Like the others it is charged if the request goes on and
/// the rule itself admits it. Returns whether the request goes on.
pub fn decide_all<V: DerefMut<Target: Verbs>>(held: &mut [V], now: Timestamp) -> bool {
    let goes_on = look_at_all(held, now);
    if goes_on {
        held.iter_mut().filter(|one| one.verdict().is_allowed()).for_each(|one| one.take());
    }
    goes_on
}
