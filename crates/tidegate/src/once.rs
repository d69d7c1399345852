//! A request that is asked again under its id: what makes it the same, and for how long.

mod answers;

use tidegate_core::Micros;

use crate::gate::Met;
use crate::key::{Fingerprint, Seed};
use crate::rules::{Policy, RuleSpec};
pub(crate) use answers::Answers;

/// A request that is to take once, however often it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Once {
    print: Fingerprint,
    /// How long its answer is remembered.
    time: Micros,
}

/// The request of an id that meets these limiters; `None` where none of them remembers.
pub(crate) fn of(policy: &Policy, seed: &Seed, id: &str, met: &[Met]) -> Option<Once> {
    let time = time(policy, met)?;
    let print = seed.of_request(id, met.iter().map(|met| (met.rule, met.print, met.cost)));
    Some(Once { print, time })
}

/// How long the answer to a request that meets these limiters is remembered: for the longest `dedupe`
/// of its rules. Those in shadow mode have a say only where no other is met. What takes nothing is not
/// remembered.
pub(crate) fn time<K>(policy: &Policy, met: &[Met<K>]) -> Option<Micros> {
    let takes = met.iter().any(|met| met.cost > 0);
    let enforced = met.iter().any(|met| met.enforced);
    let counts = |met: &&Met<K>| takes && (met.enforced || !enforced);
    met.iter().filter(counts).filter_map(|met| spec(policy, met)?.dedupe).max()
}

/// The shortest `dedupe` of the rules that are enforced; `None` where one of them has none.
#[cfg(feature = "redis")]
pub(crate) fn least_time<K>(policy: &Policy, met: &[Met<K>]) -> Option<Micros> {
    let enforced = met.iter().filter(|met| met.enforced);
    let times: Option<Vec<_>> = enforced.map(|met| spec(policy, met)?.dedupe).collect();
    times?.into_iter().min()
}

fn spec<'p, K>(policy: &'p Policy, met: &Met<K>) -> Option<&'p RuleSpec> {
    policy.rules().get(met.rule).map(crate::PolicyRule::spec)
}
