//! The time for which the answer to a request is remembered under its id.

use tidegate_core::Micros;

use super::Ask;
use crate::rules::{Policy, PolicyRule, RuleSpec};

/// The time for which the answer to a request with these limiters is remembered: for the longest `dedupe` of
/// the rules that it takes from. Rules in shadow mode count only if no other does. A request that
/// takes nothing is not remembered.
pub(crate) fn time<K>(policy: &Policy, asks: &[Ask<K>]) -> Option<Micros> {
    let any_enforced = asks.iter().any(Ask::takes_enforced);
    let counting = asks.iter().filter(|ask| ask.takes_enforced() || !any_enforced && ask.cost > 0);
    counting.filter_map(|ask| spec(policy, ask)?.dedupe).max().map(Micros::from)
}

/// The shortest `dedupe` of the enforced rules that the request takes from; `None` if one of them
/// has none.
#[cfg(feature = "redis")]
pub(crate) fn least_time<K>(policy: &Policy, asks: &[Ask<K>]) -> Option<Micros> {
    let enforced = asks.iter().filter(|ask| ask.takes_enforced());
    let times: Option<Vec<_>> = enforced.map(|ask| spec(policy, ask)?.dedupe).collect();
    times?.into_iter().min().map(Micros::from)
}

fn spec<'p, K>(policy: &'p Policy, ask: &Ask<K>) -> Option<&'p RuleSpec> {
    policy.rules().get(ask.rule).map(PolicyRule::spec)
}
