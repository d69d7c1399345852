//! Gives back and settles units, and takes leases, whose units are given back later.
//!
//! Most of these steps refuse nothing: refunds, settlements of reservations, reported usage and resets.

use core::mem;

use super::Held;
use crate::algorithm::Algorithm;
use crate::decision::Verdict;
use crate::past::Since;
use crate::time::{Micros, Timestamp, Token};

/// The units that a reservation is settled for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settlement {
    /// The permit; without it the units come back of the permits that end first.
    pub token: Option<Token>,
    /// When the units were taken: they come back as far as they still count. Without it the units come back that
    /// would leave first.
    pub since: Option<Since>,
    /// Units that were taken.
    pub reserved: u64,
    /// Units that the work has cost.
    pub actual: u64,
}

/// The result of a settlement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Settled {
    /// All units that had to come back came back, or all units that had to be taken were taken.
    #[default]
    Whole,
    /// So many units had to come back and did not, because they count no more.
    Late(u64),
    /// So many units of the actual cost were not taken, because they would pass `max_debt`.
    Cut(u64),
}

impl Settled {
    const fn late(units: u64) -> Self {
        if units > 0 { Self::Late(units) } else { Self::Whole }
    }

    /// Units that had to come back and did not.
    #[must_use]
    pub const fn late_units(self) -> u64 {
        if let Self::Late(units) = self { units } else { 0 }
    }

    /// Units that were not taken.
    #[must_use]
    pub const fn cut_units(self) -> u64 {
        if let Self::Cut(units) = self { units } else { 0 }
    }
}

impl<R: Algorithm> Held<'_, R> {
    /// Gives the cost back, at most as many units as are used.
    pub fn refund(&mut self, now: Timestamp) {
        self.give_back_units(now, self.cost);
    }

    /// Notes that the cost that was taken is reserved, until it is settled.
    pub fn open(&mut self) {
        if let (Some(state), true) = (&mut *self.slot, self.taken) {
            self.algorithm.open(state, self.at);
        }
    }

    /// Settles a reservation: gives the surplus back, or takes the shortfall, even into debt. Units of a permit all
    /// come back, for any actual cost. The decision is then about no units, so a settlement is never refused.
    pub fn settle(&mut self, now: Timestamp, settlement: Settlement) -> Settled {
        let Settlement { token, since, reserved, actual } = settlement;
        let settled = if R::HOLDS_PERMITS {
            self.return_permit(now, token, reserved)
        } else if actual > reserved {
            self.take_as_far_as_fits(now, actual - reserved)
        } else if let Some(since) = since {
            self.give_back_since(now, reserved - actual, since)
        } else {
            self.give_back_units(now, reserved - actual);
            Settled::Whole
        };
        // A cost of 0 opened no reservation. Units that were taken without a reservation must not close a reservation of
        // another caller.
        let opened = since.filter(|since| since.is_of_reservation);
        if let (Some(since), Some(state), 1..) = (opened, &mut *self.slot, reserved) {
            self.algorithm.close(state, since.at);
        }
        self.cost = 0;
        settled
    }

    fn return_permit(&mut self, now: Timestamp, token: Option<Token>, units: u64) -> Settled {
        let algorithm = self.algorithm;
        match token {
            Some(token) if self.slot.is_some() => {
                let (state, at) = self.advanced(now);
                algorithm.return_permit(state, at, token, units);
            }
            // The limiter is gone, and its permits with it.
            Some(_) => {}
            None => self.give_back_units(now, units),
        }
        Settled::Whole
    }

    fn give_back_since(&mut self, now: Timestamp, units: u64, since: Since) -> Settled {
        if self.slot.is_none() {
            return Settled::late(units);
        }
        let algorithm = self.algorithm;
        let (state, at) = self.advanced(now);
        // The clock stepped back by more than W.
        if since.at.since(at) > algorithm.window() {
            return Settled::late(units);
        }
        Settled::late(units - algorithm.give_back_since(state, at, units, since))
    }

    /// Takes the cost as usage that a caller reports, even into debt. The decision is then about
    /// one unit more.
    pub fn take_reported(&mut self, now: Timestamp) -> Settled {
        self.is_usage = true;
        match self.algorithm.max_debt() {
            _ if self.cost == 0 => Settled::Whole,
            Some(_) => self.take_as_far_as_fits(now, self.cost),
            None => {
                self.advanced(now);
                self.take_units(self.cost);
                Settled::Whole
            }
        }
    }

    /// Takes units as far as no more than `max_debt` beyond the limit are in use then.
    fn take_as_far_as_fits(&mut self, now: Timestamp, units: u64) -> Settled {
        let algorithm = self.algorithm;
        let (state, at) = self.advanced(now);
        // More may be in use already, for example after a change of the rule.
        let taken = units.min(algorithm.most_in_use().saturating_sub(algorithm.used(state, at)));
        if taken > 0 {
            self.take_units(taken);
        }
        if taken < units { Settled::Cut(units - taken) } else { Settled::Whole }
    }

    /// Resets the limiter: nothing counts as used. If the state `remembers` it, nothing comes back that was taken until
    /// now.
    pub fn reset(&mut self, now: Timestamp, remembers: bool) {
        let algorithm = self.algorithm;
        let known = self.slot.is_some();
        let (state, at) = self.advanced(now);
        let is_waited_for = !algorithm.reset_after(state, at).is_zero();
        let mut past = algorithm.past_mut(state).map(mem::take).unwrap_or_default();
        // Units that make no caller wait are in use as well.
        let in_use = is_waited_for || past.eased_until() > at;
        past.run_empty();
        // Units that were in use come to nothing here, so a later settlement must not return them to the fresh state.
        if known && remembers && in_use {
            past.lose(at, at.plus(algorithm.counts_for(algorithm.limit())));
        }
        let mut fresh = algorithm.fresh(at);
        let begins_in_use = algorithm.used(&fresh, at);
        // A bucket that begins with fewer tokens is filled.
        algorithm.give_back(&mut fresh, at, begins_in_use);
        if let Some(of_fresh) = algorithm.past_mut(&mut fresh) {
            *of_fresh = past;
        }
        // Without the full state the next request would begin with fewer tokens again.
        let stays = begins_in_use > 0 || !algorithm.is_idle(&fresh, at);
        *self.slot = stays.then_some(fresh);
    }

    fn give_back_units(&mut self, now: Timestamp, units: u64) {
        if self.slot.is_some() {
            let algorithm = self.algorithm;
            let (state, at) = self.advanced(now);
            algorithm.give_back(state, at, units);
        }
    }

    /// Takes the cost as a lease that lasts `life` at most. Returns the instant before which the units can be
    /// spent; `None` if nothing was taken, because the cost does not fit or the algorithm grants no leases.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_core::{Algorithm, AlgorithmKind, Held, Micros, Rule, Spec, Timestamp, Visitor};
    ///
    /// struct Leased;
    ///
    /// impl Visitor for Leased {
    ///     type Out = Option<Timestamp>;
    ///
    ///     fn visit<R: Algorithm>(self, algorithm: &R) -> Option<Timestamp> {
    ///         let at = Timestamp::from_micros(950_000);
    ///         Held::new(algorithm, &mut None, 10).lease(at, Micros::from_millis(200))
    ///     }
    /// }
    ///
    /// let second = Duration::from_secs(1);
    /// let window = Rule::new(Spec::new(AlgorithmKind::FixedWindow, 100, second))?;
    /// assert_eq!(window.visit(Leased), Some(Some(Timestamp::from_micros(1_000_000))));
    ///
    /// let bucket = Rule::new(Spec::new(AlgorithmKind::TokenBucket, 100, second))?;
    /// assert_eq!(bucket.visit(Leased), Some(Some(Timestamp::from_micros(1_150_000))));
    /// # Ok::<(), tidegate_core::RuleErrors>(())
    /// ```
    pub fn lease(&mut self, now: Timestamp, life: Micros) -> Option<Timestamp> {
        self.advance(now);
        let algorithm = self.algorithm();
        let at = self.at();
        let state = self.state()?;
        let end = algorithm.lease_end(state, at)?.min(at.plus(life));
        // On a copy, because a denied lease changes nothing.
        let mut prepared = state.clone();
        algorithm.prepare(&mut prepared, end);
        if algorithm.decide(&prepared, at, self.cost()) != Verdict::Allow {
            return None;
        }
        self.replace(prepared);
        self.take();
        Some(end)
    }

    /// Gives back the cost as units of a lease that was taken at `since`, and that are not spent any more. Returns
    /// how many of them still counted.
    pub fn give_back_lease(&mut self, now: Timestamp, since: Timestamp) -> u64 {
        let Some(mut state) = self.state().cloned() else { return 0 };
        let at = self.algorithm().advance(&mut state, now);
        // The clock stepped back by more than W, and the state that knew the units was lost.
        if since.since(at) > self.algorithm().window() {
            return 0;
        }
        let returned = self.algorithm().give_back_lease(&mut state, at, self.cost(), since);
        if returned > 0 {
            self.replace(state);
        }
        returned
    }
}
