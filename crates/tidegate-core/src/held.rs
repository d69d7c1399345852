//! One atomic step over one limiter.
//!
//! A step *advances* the state (time passes), *decides* (reads the state, and by its type cannot
//! change it), *takes* (commits the decision), and *reports* (computes the values of the decision,
//! only if they are needed). The store keeps the state locked during the whole step.

mod amend;
mod settle;

use crate::algorithm::Algorithm;
use crate::decision::{Decision, Outcome, Verdict};
use crate::script::ScriptReply;
use crate::time::{Micros, Timestamp, Token};
pub use settle::{Settled, Settlement};

/// One limiter held during one step: an algorithm, the slot of its key, and a cost.
///
/// An empty slot is a limiter that does not exist yet; the step creates it.
#[derive(Debug)]
pub struct Held<'a, R: Algorithm> {
    algorithm: &'a R,
    slot: &'a mut Option<R::State>,
    cost: u64,
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
        Self {
            algorithm,
            slot,
            cost,
            is_usage: false,
            in_place: false,
            now: Timestamp::EPOCH,
            at: Timestamp::EPOCH,
            verdict: Verdict::Allow,
            taken: false,
        }
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
        let begins = self.slot.is_none();
        self.advance(now);
        let _ = self.decide();
        let decision = self.report();
        // A look creates no limiter.
        if begins {
            *self.slot = None;
        }
        decision
    }

    /// Makes a permit last W from now. Returns whether it was still out; if not, nothing changes. Units of an algorithm
    /// without permits need no renewal.
    pub fn renew(&mut self, now: Timestamp, token: Token) -> bool {
        let algorithm = self.algorithm;
        // Without a limiter there is no permit, and a renewal creates no limiter.
        if !R::HOLDS_PERMITS || self.slot.is_none() {
            return !R::HOLDS_PERMITS;
        }
        let (state, at) = self.advanced(now);
        algorithm.renew(state, at, token)
    }

    /// Returns whether the slot could be emptied without changing a later decision.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.slot.as_ref().is_none_or(|state| self.algorithm.is_idle(state, self.at))
    }

    pub(crate) const fn algorithm(&self) -> &'a R {
        self.algorithm
    }

    pub(crate) const fn cost(&self) -> u64 {
        self.cost
    }

    pub(crate) fn state(&self) -> Option<&R::State> {
        self.slot.as_ref()
    }

    pub(crate) fn replace(&mut self, state: R::State) {
        *self.slot = Some(state);
    }

    /// The units that the decision is about.
    const fn asked(&self) -> u64 {
        if self.is_usage { 1 } else { self.cost }
    }

    #[inline]
    fn take_units(&mut self, units: u64) {
        let Some(state) = &mut *self.slot else { return };
        // Only when units are taken, because a look may be followed by an earlier reading.
        self.algorithm.pass(state, self.at);
        if self.in_place {
            self.algorithm.take_in_place(state, self.at, units);
        } else {
            self.algorithm.take(state, self.at, units);
        }
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
        let state = self.slot.get_or_insert_with(|| self.algorithm.fresh(now));
        self.at = self.algorithm.advance(state, now);
        (state, self.at)
    }

    /// Moves time forward; creates a limiter that does not exist yet.
    pub fn advance(&mut self, now: Timestamp) {
        self.advanced(now);
    }

    /// Decides without any change of the state.
    pub fn decide(&mut self) -> Verdict {
        self.verdict = match &*self.slot {
            // A cost of 0 is always admitted, and never reaches an algorithm.
            Some(state) if self.asked() > 0 => self.algorithm.decide(state, self.at, self.asked()),
            _ => Verdict::Allow,
        };
        self.verdict
    }

    /// Takes the cost that was admitted.
    pub fn take(&mut self) {
        if self.cost > 0 {
            self.take_units(self.cost);
            self.taken = true;
        }
    }

    /// Gives the cost back, at most as many units as are used. The decision is then about no units.
    pub fn give_back(&mut self) {
        if let (Some(state), 1..) = (&mut *self.slot, self.cost) {
            self.algorithm.give_back(state, self.at, self.cost);
        }
        // No unit is asked for any more, so the decision refuses nothing.
        self.cost = 0;
    }

    /// The decision with its values, as of the end of the step.
    #[must_use]
    pub fn report(&self) -> Decision {
        match &*self.slot {
            Some(state) => self.report_of(state),
            None => self.report_of(&self.algorithm.fresh(self.at)),
        }
    }

    /// The token of the permit that was taken.
    #[must_use]
    pub fn token(&self) -> Option<Token> {
        let state = self.slot.as_ref().filter(|_| R::HOLDS_PERMITS && self.taken)?;
        self.algorithm.token(state)
    }

    /// The instant that counted.
    #[must_use]
    pub const fn at(&self) -> Timestamp {
        self.at
    }
}
