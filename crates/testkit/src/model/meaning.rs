//! The definition of one algorithm, as a trait: each algorithm's file implements it, and `Model` calls it.

use super::Policy;
use std::fmt::Debug;

/// One algorithm's definition over its full history. Times are microseconds and never before the
/// last unit taken; costs are 1 or more; at a limit of 0 none is admitted.
pub(super) trait Meaning: Boxed + Debug {
    /// Units used at `t`, rounded up.
    fn used(&self, t: i128) -> i128;
    /// Returns whether `cost` is admitted at `t`.
    fn admits(&self, t: i128, cost: i128) -> bool;
    /// Unit-cost requests admitted at `t`; below 0 in debt.
    fn remaining(&self, t: i128) -> i128;
    /// Least wait until `cost`, which is not admitted at `t`, is admitted; `None` for never.
    fn retry_after(&self, t: i128, cost: i128) -> Option<i128>;
    /// Least wait until nothing is used.
    fn reset_after(&self, t: i128) -> i128;
    /// The delay of a request that is admitted at `t`.
    fn delay(&self, _t: i128) -> i128 {
        0
    }
    /// Takes units, admitted or not.
    fn charge(&mut self, t: i128, units: i128);
    /// Gives units back; more than are used change nothing further.
    fn refund(&mut self, t: i128, units: i128);
    /// Opens a reservation of the units that were taken last, at `t`.
    fn reserve(&mut self, _t: i128) {}
    /// Ends one of the reservations that were opened at `since` or later.
    fn close(&mut self, _since: i128) {}
    /// Gives back the rest of units that were taken at `since`; returns the number of units that came back, rounded up.
    /// `drained` is the parts that a level drained since then (`drained.rs`); only levels look at it.
    fn give_back(&mut self, t: i128, units: i128, since: i128, drained: i128) -> i128;
    /// Shifts all times so that the last unit is at `t` instead of at `last`.
    fn move_back(&mut self, last: i128, t: i128);
    /// Takes over another limit, capacity or `initial`, with the usage at `t`.
    fn amend(&mut self, t: i128, policy: &Policy);
    /// The level at `t` in parts of a unit; 0 if units leave in another way.
    fn level(&self, _t: i128) -> i128 {
        0
    }
    /// Sets the level at `t`. Before `t` it was higher by the amount that drained until then, also if it is empty now.
    fn set_level(&mut self, _t: i128, _parts: i128) {}
    /// Lets no caller wait longer than one window at `t` because of the change to `policy`; a debt is waited for as
    /// before. Levels are eased by their models ([`super::eased`]).
    fn ease(&mut self, _t: i128, _policy: &Policy, _debt: i128) {}
    /// All counts again that no caller waits for.
    fn count_all(&mut self) {}
    /// Units that are a debt at `t`, if no level is.
    fn debt(&self, _t: i128) -> i128 {
        0
    }
    /// The token of the permit that was taken last.
    fn token(&self) -> Option<u64> {
        None
    }
    /// Returns units of the permit with this token.
    fn return_permit(&mut self, _t: i128, _token: u64, _units: i128) {}
    /// Makes a permit last W from `t`; returns whether it was still out.
    fn renew(&mut self, _t: i128, _token: u64) -> bool {
        false
    }
}

/// Copies a definition and its history.
pub(super) trait Boxed {
    /// A boxed copy.
    fn boxed(&self) -> Box<dyn Meaning>;
}

impl<M: Meaning + Clone + 'static> Boxed for M {
    fn boxed(&self) -> Box<dyn Meaning> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Meaning> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}
