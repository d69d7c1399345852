//! Settling units that were taken at a known time, and undoing them: the part of a model that reservations need.

use super::{Expected, Model};

/// The result of a settlement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Units that the work costs now: the actual cost, less the cut units.
    pub settled: u64,
    /// Units of the actual cost for which `max_debt` leaves no room.
    pub cut: u64,
    /// Units that had to come back and did not, because they count no more.
    pub late: u64,
}

impl Model {
    /// Decides as [`Model::step`] does; a reservation holds the admitted units.
    pub fn reserve(&mut self, at_us: u64, cost: u64) -> Expected {
        let answer = self.step(at_us, cost);
        if answer.allowed {
            self.reserved(cost);
        }
        answer
    }

    /// Makes a reservation of the units that were taken last.
    pub fn reserved(&mut self, units: u64) {
        if units > 0
            && let (Some(state), Some(last)) = (&mut self.state, self.last)
        {
            state.reserve(last);
            if let Some(eased) = &mut self.eased {
                eased.whole().reserve(last);
            }
        }
    }

    /// Settles a reservation whose units were taken at `since_us`: gives the surplus back, or takes the shortfall, even
    /// into debt, as far as `max_debt` has room.
    pub fn settle_since(
        &mut self,
        at_us: u64,
        since_us: u64,
        reserved: u64,
        actual: u64,
    ) -> Settled {
        let t = self.now(at_us);
        let (surplus, missing) = if self.policy.holds_permits() {
            (reserved, 0)
        } else {
            (reserved.saturating_sub(actual), actual.saturating_sub(reserved))
        };
        let returned = self.returned(t, i128::from(since_us), i128::from(surplus));
        let taken = missing.min(self.space(t));
        if taken > 0 {
            self.charge(t, i128::from(taken));
        } else if missing > 0 {
            self.born(t);
        }
        // A cost of 0 opened no reservation.
        if let (Some(state), 1..) = (&mut self.state, reserved) {
            state.close(i128::from(since_us));
            self.eased.iter_mut().for_each(|eased| eased.whole().close(i128::from(since_us)));
        }
        let cut = missing - taken;
        // A permit that has ended is free already.
        let late = if self.policy.holds_permits() { 0 } else { surplus - returned };
        Settled { settled: actual - cut, cut, late }
    }

    /// Gives back units that were taken at `since_us`, and that no caller was told of; returns the units that did not
    /// come back.
    pub fn undo(&mut self, at_us: u64, since_us: u64, units: u64) -> u64 {
        let t = self.now(at_us);
        units - self.returned(t, i128::from(since_us), i128::from(units))
    }

    fn returned(&mut self, t: i128, since: i128, units: i128) -> u64 {
        // Only a token names a permit; without a token, units come back from the permits that end first.
        let stepped_back = since - t > self.policy.clock_window();
        let counts = self.policy.holds_permits() || since >= self.lost && !stepped_back;
        // Without a unit a settlement still sees how low the level is.
        let units = if counts { units } else { 0 };
        let drained = self.drained(since, t) + self.above(units, since);
        let Some(state) = self.state.as_mut() else { return 0 };
        let returned = match &mut self.eased {
            Some(eased) => {
                eased.give_back(state.as_mut(), t, (units, since, drained), &self.policy)
            }
            None => state.give_back(t, units, since, drained),
        };
        super::expected::value(returned)
    }

    /// The number of units that a settlement may take in addition.
    pub(super) fn space(&self, t: i128) -> u64 {
        let max_debt = self.policy.max_debt.unwrap_or(self.policy.decision_limit());
        let most = i128::from(self.policy.decision_limit()) + i128::from(max_debt);
        super::expected::value(most - self.seen(t).used(t))
    }
}
