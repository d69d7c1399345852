//! A limit that falls in memory: no caller waits for more than one new window because of it, and nothing is forgotten.
//!
//! The model keeps two more levels next to the level that decides requests. They drain at the same rate. *Whole* is the
//! level that was never lowered: it counts when more is allowed again. *Caused* is the part of the level that is there
//! without a debt: if a level is above it and above the capacity, the rest was owed regardless of changes.

use super::{Model, Policy, meaning::Meaning, rate::Rate};

/// A level that is empty since then is empty at any reading of the clock.
const NEVER: i128 = 0;

/// The two other levels of a limiter.
#[derive(Clone, Debug)]
pub(super) struct Eased {
    whole: Box<dyn Meaning>,
    caused: Box<dyn Meaning>,
    /// When the level was last lowered.
    cut: Option<i128>,
}

impl Eased {
    /// The level with all usage.
    pub(super) fn whole(&mut self) -> &mut dyn Meaning {
        self.whole.as_mut()
    }

    /// Returns whether no units eased by the change count any more.
    pub(super) fn is_over(&self, t: i128) -> bool {
        self.whole.level(t) == 0
    }

    /// Gives units back, first those that make no caller wait.
    pub(super) fn refund(&mut self, t: i128, units: i128, state: &mut dyn Meaning) {
        let is_lower = state.level(t) < self.whole.level(t);
        self.whole.refund(t, units);
        if !is_lower || self.whole.level(t) == 0 {
            state.refund(t, units);
        } else if state.level(t) >= self.whole.level(t) {
            // The whole level has come down to the level that decides: from here on they are the same.
            state.set_level(t, self.whole.level(t));
        }
        self.see(t, state.level(t));
    }

    /// The part that is there because of a change is no more than the level.
    fn see(&mut self, t: i128, level: i128) {
        if self.caused.level(t) > level {
            self.caused.set_level(t, level);
        }
    }

    /// Gives back units that were taken at `since`. The level that decides requests gets back only the units that
    /// cannot have drained, and none that were taken before it was lowered.
    pub(super) fn give_back(
        &mut self,
        state: &mut dyn Meaning,
        t: i128,
        (units, since, drained): (i128, i128, i128),
        policy: &Policy,
    ) -> i128 {
        let (left, all) = (state.level(t), self.whole.level(t));
        let returned = self.whole.give_back(t, units, since, drained);
        let rest = self.whole.level(t);
        let undrained = match policy.algorithm {
            super::AlgorithmKind::LeakyQueue => all - rest,
            _ => (units * Rate::of(policy).w - drained).max(0),
        };
        let of_level = match self.cut {
            // Both levels are the same, and give back alike.
            _ if left == all => all - rest,
            Some(cut) if since <= cut => 0,
            _ => undrained,
        };
        let lowered = (left - of_level.min(all - rest)).max(0).min(rest);
        if lowered < left {
            state.set_level(t, lowered);
        }
        self.see(t, lowered);
        returned
    }

    pub(super) fn move_back(&mut self, last: i128, t: i128) {
        self.whole.move_back(last, t);
        self.caused.move_back(last, t);
        self.cut = self.cut.map(|cut| cut.min(t));
    }
}

impl Model {
    /// Puts another rule in force at `at_us` as a gate in memory does: like [`Model::amend`], but a level above the new
    /// capacity and one limit, less a unit, counts as that until more is allowed again. A debt counts as before, unless
    /// the limit was 0.
    pub fn replace(&mut self, at_us: u64, policy: Policy) {
        let t = self.now(at_us);
        let debt = self.debt(t);
        self.amend(at_us, policy);
        self.ease(t, debt);
    }

    /// Eases a limiter whose rule has changed at `t`, except for a debt.
    pub(super) fn ease(&mut self, t: i128, debt: u64) {
        let eased = self.eased.take();
        if let Some(state) = &mut self.state {
            state.ease(t, &self.policy, debt.into());
        }
        let is_level = self.policy.algorithm.has_capacity() && self.policy.limit > 0;
        if let (Some(state), true) = (&mut self.state, is_level) {
            let (mut whole, mut cut) = (state.clone(), None);
            if let Some(before) = eased {
                (whole, cut) = (before.whole, before.cut);
            }
            let part = Rate::of(&self.policy).w;
            let most = self.policy.decision_limit() + self.policy.limit - 1 + debt;
            if state.level(t) > i128::from(most) * part {
                state.set_level(t, i128::from(most) * part);
                cut = Some(t);
            }
            // Without a debt, a level above the capacity is there because of the change.
            let (mut caused, above) = (state.clone(), state.level(t) - i128::from(debt) * part);
            let capacity = i128::from(self.policy.decision_limit()) * part;
            if above > capacity {
                caused.set_level(t, above);
            } else {
                caused.set_level(NEVER, 0);
            }
            self.eased = Some(Eased { whole, caused, cut });
        }
    }

    /// The rest of an eased level under another rule. All usage counts where more is allowed, or where the units in use
    /// are taken again.
    pub(super) fn still_eased(&mut self, t: i128, policy: &Policy) -> Option<Eased> {
        let old = &self.policy;
        let rises = policy.limit == 0
            || policy.limit > old.limit
            || policy.decision_limit() > old.decision_limit();
        let stays = old.algorithm == policy.algorithm && old.window_us == policy.window_us;
        if let (Some(state), true) = (&mut self.state, rises || !stays) {
            state.count_all();
        }
        let mut eased = self.eased.take()?;
        if rises || !stays {
            self.state = self.state.is_some().then_some(eased.whole);
            return None;
        }
        eased.whole.amend(t, policy);
        eased.caused.set_level(NEVER, 0);
        Some(eased)
    }

    /// The time until nothing is used, including units that make no caller wait.
    pub fn gone_us(&mut self, at_us: u64) -> u64 {
        let t = self.now(at_us);
        let whole = self.eased.as_ref().map_or(0, |eased| match eased.whole.level(t) {
            0 => 0,
            _ => eased.whole.reset_after(t) + t - i128::from(at_us),
        });
        self.peek(at_us, 0).reset_after_us.max(super::expected::value(whole))
    }

    /// All units in use, also those that make no caller wait.
    pub(super) fn all_used(&self, t: i128) -> i128 {
        let mut all = self.seen(t);
        all.count_all();
        let whole = self.eased.as_ref().map_or(0, |eased| eased.whole.used(t));
        all.used(t).max(whole)
    }

    /// Units above the limit that no change has caused.
    pub(super) fn debt(&self, t: i128) -> u64 {
        if !self.policy.algorithm.has_capacity() || self.policy.limit == 0 {
            return super::expected::value(self.seen(t).debt(t));
        }
        let caused = self.eased.as_ref().map_or(0, |eased| eased.caused.used(t));
        let without = i128::from(self.policy.decision_limit()).max(caused);
        super::expected::value(self.seen(t).used(t) - without)
    }
}
