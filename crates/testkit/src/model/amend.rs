//! A rule that changes while its limiter exists: never a credit, never a reset.

use super::{AlgorithmKind, Model, Policy};

impl Model {
    /// Puts another rule in force at `at_us`.
    ///
    /// If only limit, capacity or `initial` differ, or the life of permits, used units stay used exactly. Otherwise the
    /// used units, rounded up, count as taken now in a fresh limiter of the new rule. A limit of 0
    /// is a limit like any other; if nothing is used under it, the next rule starts fresh.
    pub fn amend(&mut self, at_us: u64, policy: Policy) {
        let t = self.now(at_us);
        let is_empty = self.all_used(t) == 0;
        let eased = self.still_eased(t, &policy);
        let used = i128::from(self.used(at_us));
        let old = std::mem::replace(&mut self.policy, policy);
        let same = frame(&old) == frame(&self.policy);
        // A bucket or a queue that is empty has drained all units taken before.
        if !same || is_empty && old.algorithm.has_capacity() {
            self.lose(t);
        } else if (old.limit, old.capacity) != (self.policy.limit, self.policy.capacity) {
            self.limits.end(t, old.limit);
        }
        let Some(state) = &mut self.state else { return };
        let is_open = match old.algorithm {
            AlgorithmKind::FixedWindow => state.reset_after(t) > 0,
            // A token that is not in the past must not be given again.
            AlgorithmKind::Concurrency => {
                let ends = self.last.map_or(0, |last| last + i128::from(old.window_us));
                state.token().is_some_and(|token| t <= i128::from(token)) && t < ends
            }
            _ => false,
        };
        if old.limit == 0 && used == 0 && !is_open {
            self.lose(t);
            self.forget();
        } else if same {
            state.amend(t, &self.policy);
        } else {
            self.start_fresh(t, used);
        }
        self.eased = eased;
    }

    /// A fresh limiter, created at `t`, that owes the units that the old limiter had used.
    pub(super) fn start_fresh(&mut self, t: i128, used: i128) {
        self.forget();
        self.born(t);
        if used > 0 {
            self.charge(t, used);
        }
    }
}

/// The fields that must be equal for the history of one rule to be valid under another; `None`
/// without a window, where the history is only a number of units.
fn frame(policy: &Policy) -> Option<(AlgorithmKind, [u64; 5])> {
    let own = |algorithm, word| {
        if policy.algorithm == algorithm { word } else { 0 }
    };
    let words = [
        if policy.algorithm == AlgorithmKind::Concurrency { 0 } else { policy.window_us },
        own(AlgorithmKind::SlidingWindow, policy.buckets),
        own(AlgorithmKind::SlidingWindow, u64::from(policy.strict)),
        own(AlgorithmKind::FixedWindow, u64::from(policy.anchor_first_request)),
        own(AlgorithmKind::SlidingLog, policy.resolution_us),
    ];
    (policy.window_us > 0).then_some((policy.algorithm, words))
}
