//! `concurrency`: units that are out until their permit is returned, or W has passed since it was taken or renewed.

use super::{Policy, meaning::Meaning};

/// A permit: its token, the units that are still out, and when it ends.
#[derive(Clone, Copy, Debug)]
struct Permit {
    token: i128,
    units: i128,
    end: i128,
}

/// Every permit ever taken, in that order.
#[derive(Clone, Debug)]
pub(super) struct Concurrency {
    limit: i128,
    life: i128,
    permits: Vec<Permit>,
    newest: i128,
}

impl Concurrency {
    pub(super) fn fresh(policy: &Policy) -> Self {
        let (limit, life) = (policy.limit.into(), policy.window_us.into());
        Self { limit, life, permits: Vec::new(), newest: 0 }
    }

    /// The units of permits that end after `t`.
    fn out(&self, t: i128) -> i128 {
        self.permits.iter().filter(|permit| permit.end > t).map(|permit| permit.units).sum()
    }

    fn ends(&self) -> impl Iterator<Item = i128> {
        self.permits.iter().filter(|permit| permit.units > 0).map(|permit| permit.end)
    }

    fn of(&mut self, t: i128, token: u64) -> Option<&mut Permit> {
        let is_it = |permit: &&mut Permit| permit.token == i128::from(token) && permit.units > 0;
        self.permits.iter_mut().find(is_it).filter(|permit| permit.end > t)
    }
}

impl Meaning for Concurrency {
    fn used(&self, t: i128) -> i128 {
        self.out(t)
    }

    fn admits(&self, t: i128, cost: i128) -> bool {
        self.out(t) + cost <= self.limit
    }

    fn remaining(&self, t: i128) -> i128 {
        self.limit - self.out(t)
    }

    fn retry_after(&self, t: i128, cost: i128) -> Option<i128> {
        let ends = self.ends().filter(|end| *end > t && self.admits(*end, cost));
        ends.min().filter(|_| cost <= self.limit).map(|end| end - t)
    }

    fn reset_after(&self, t: i128) -> i128 {
        self.ends().max().map_or(0, |end| end - t)
    }

    fn charge(&mut self, t: i128, units: i128) {
        self.newest = t.max(self.newest + 1);
        self.permits.push(Permit { token: self.newest, units, end: t + self.life });
    }

    /// Gives back units of the permits that end first.
    fn refund(&mut self, t: i128, units: i128) {
        let mut left = units;
        let mut out: Vec<_> = self.permits.iter_mut().filter(|permit| permit.end > t).collect();
        out.sort_by_key(|permit| permit.end);
        for permit in out {
            let part = left.min(permit.units);
            permit.units -= part;
            left -= part;
        }
    }

    /// Only the token names a permit, so units that name a time come from the permits that end first.
    fn give_back(&mut self, t: i128, units: i128, _since: i128, _drained: i128) -> i128 {
        let before = self.out(t);
        self.refund(t, units);
        before - self.out(t)
    }

    fn move_back(&mut self, last: i128, t: i128) {
        self.permits.iter_mut().for_each(|permit| permit.end -= last - t);
    }

    fn amend(&mut self, _t: i128, policy: &Policy) {
        (self.limit, self.life) = (policy.limit.into(), policy.window_us.into());
    }

    fn token(&self) -> Option<u64> {
        u64::try_from(self.newest).ok().filter(|token| *token > 0)
    }

    fn return_permit(&mut self, t: i128, token: u64, units: i128) {
        if let Some(permit) = self.of(t, token) {
            permit.units -= units.min(permit.units);
        }
    }

    fn renew(&mut self, t: i128, token: u64) -> bool {
        let end = t + self.life;
        let permit = self.of(t, token);
        permit.map(|permit| permit.end = permit.end.max(end)).is_some()
    }
}
