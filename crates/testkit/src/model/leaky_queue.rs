//! `leaky_queue`: slots W/N apart; an admitted request leaves at the next free one.
//!
//! A request of cost c takes c slots, and is admitted if the last of them is at most `capacity`
//! slots away; at a limit of 0 there is no slot, not even in an idle queue. Times here are exact,
//! in n-ths of a microsecond, so slots are w apart.

use super::{Policy, meaning::Meaning, rate::Rate, rate::ceil_div};

/// The capacity; -1 at a limit of 0, under which nothing leaves.
fn places_behind_the_first(policy: &Policy) -> i128 {
    i128::from(policy.decision_limit()) - 1
}

/// The next free slot.
#[derive(Clone, Debug)]
pub(super) struct LeakyQueue {
    rate: Rate,
    capacity: i128,
    next_free: i128,
    /// When the last slot was promised.
    promised: Option<i128>,
}

impl LeakyQueue {
    pub(super) fn fresh(policy: &Policy) -> Self {
        let (rate, capacity) = (Rate::of(policy), places_behind_the_first(policy));
        Self { rate, capacity, next_free: 0, promised: None }
    }

    fn wait(&self, t: i128) -> i128 {
        (self.next_free - t * self.rate.n).max(0)
    }

    /// The distance from the last place at which the last unit of `cost` would wait.
    fn excess(&self, t: i128, cost: i128) -> i128 {
        self.wait(t) + (cost - 1) * self.rate.w - self.capacity * self.rate.w
    }
}

impl Meaning for LeakyQueue {
    fn used(&self, t: i128) -> i128 {
        ceil_div(self.wait(t), self.rate.w)
    }

    fn admits(&self, t: i128, cost: i128) -> bool {
        self.excess(t, cost) <= 0
    }

    /// One unit that leaves next, and one more for each whole free slot after it.
    fn remaining(&self, t: i128) -> i128 {
        let slack = self.capacity * self.rate.w - self.wait(t);
        if slack < 0 { 0 } else { slack / self.rate.w + 1 }
    }

    fn retry_after(&self, t: i128, cost: i128) -> Option<i128> {
        (cost - 1 <= self.capacity).then(|| self.rate.wait(self.excess(t, cost)))
    }

    fn reset_after(&self, t: i128) -> i128 {
        self.rate.wait_from(t, self.wait(t))
    }

    fn delay(&self, t: i128) -> i128 {
        self.rate.wait(self.wait(t))
    }

    fn charge(&mut self, t: i128, units: i128) {
        self.next_free = self.next_free.max(t * self.rate.n) + units * self.rate.w;
        self.promised = Some(t);
    }

    fn refund(&mut self, t: i128, units: i128) {
        if self.wait(t) > 0 {
            self.next_free = (self.next_free - units * self.rate.w).max(t * self.rate.n);
        }
    }

    /// The last slots, as long as none was promised after them.
    fn give_back(&mut self, t: i128, units: i128, since: i128, _drained: i128) -> i128 {
        let are_last = self.promised == Some(since);
        let given = if are_last { (units * self.rate.w).min(self.wait(t)) } else { 0 };
        self.next_free -= given;
        ceil_div(given, self.rate.w)
    }

    fn move_back(&mut self, last: i128, t: i128) {
        self.promised = Some(t);
        self.next_free -= (last - t) * self.rate.n;
    }

    fn amend(&mut self, t: i128, policy: &Policy) {
        let rate = Rate::of(policy);
        let wait = self.rate.convert(self.wait(t), rate);
        self.next_free = if wait > 0 { t * rate.n + wait } else { 0 };
        self.rate = rate;
        self.capacity = places_behind_the_first(policy);
    }

    fn level(&self, t: i128) -> i128 {
        self.wait(t)
    }

    fn set_level(&mut self, t: i128, parts: i128) {
        self.next_free = t * self.rate.n + parts;
    }
}
