//! The usual questions to a gate.

use std::time::Duration;

use tidegate::{Clock, Descriptor, Gate, Policy, Request, RuleSpec};

pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
pub(crate) const DAY: Duration = Duration::from_secs(86_400);

pub(crate) fn policy(rules: impl IntoIterator<Item = RuleSpec>) -> Policy {
    Policy::new(rules.into_iter().collect()).unwrap()
}

/// Asks for `cost` units as `user`.
pub(crate) fn ask<T>(user: &str, cost: u64, ask: impl FnOnce(&Request<'_>) -> T) -> T {
    ask(&Request::from(Descriptor::new(&[("user", user)]).cost(cost)))
}

pub(crate) fn admits<C: Clock>(gate: &Gate<C>, user: &str, cost: u64) -> bool {
    ask(user, cost, |request| gate.admits(request))
}

/// The units left by each rule that limits the user.
pub(crate) fn left<C: Clock>(gate: &Gate<C>, user: &str) -> Vec<u64> {
    ask(user, 1, |request| {
        gate.peek(request).matched().iter().map(|one| one.decision().remaining).collect()
    })
}
