//! A node's part of a limit, for while the store is away.

use tidegate_core::{Algorithm, Limit, Rule, Spec};

use super::SharedGateError;
use crate::rules::{AmendError, OnStoreError, Policy, PolicyRule, RuleSpec};

/// A rule has less than one unit for each node.
struct NoShare {
    rule: String,
    units: u64,
    nodes: u64,
}

impl From<NoShare> for SharedGateError {
    fn from(NoShare { rule, units, nodes }: NoShare) -> Self {
        Self::NoShare { rule, units, nodes }
    }
}

impl From<NoShare> for AmendError {
    fn from(NoShare { rule, units, nodes }: NoShare) -> Self {
        Self::NoShare { rule, units, nodes }
    }
}

/// The rules that are decided in process while the store is away, each with one node's part of its
/// limit, rounded down so that all nodes together never admit more; the others limit nothing here.
pub(super) fn of(policy: &Policy, nodes: u64) -> Result<Policy, SharedGateError> {
    let rules = policy.rules().iter().map(|rule| rule_of(rule, nodes));
    let rules = rules.collect::<Result<Vec<_>, _>>()?;
    let parts = Policy::new(rules).map_err(SharedGateError::Policy)?;
    Ok(match policy.max_keys() {
        Some(most) => parts.with_max_keys(most),
        None => parts,
    })
}

/// The same for one rule that was changed, with its number.
pub(super) fn of_rule(
    number: usize,
    rule: &PolicyRule,
    nodes: u64,
) -> Result<PolicyRule, AmendError> {
    PolicyRule::checked(number, rule_of(rule, nodes)?)
}

fn rule_of(rule: &PolicyRule, nodes: u64) -> Result<RuleSpec, NoShare> {
    let whole = rule.spec();
    let mut part = whole.clone();
    if whole.on_store_error != OnStoreError::Local {
        part.spec = Spec::unlimited(whole.spec.algorithm);
        part.overrides.clear();
        return Ok(part);
    }
    let share = |units: u64, least: u64| match units / nodes {
        0 if units >= least && least > 0 => {
            Err(NoShare { rule: rule.name().to_owned(), units, nodes })
        }
        share => Ok(share),
    };
    let limit = |limit| match limit {
        Limit::Units(units) => share(units, 1).map(Limit::Units),
        Limit::Unlimited => Ok(Limit::Unlimited),
    };
    // A queue without places is one all the same; a bucket without room is none.
    let least = u64::from(whole.spec.algorithm != Algorithm::LeakyQueue);
    part.spec.limit = limit(whole.spec.limit)?;
    part.spec.capacity = whole.spec.capacity.map(|units| share(units, least)).transpose()?;
    part.spec.initial = whole.spec.initial.map(|units| units / nodes);
    for other in &mut part.overrides {
        other.limit = other.limit.map(limit).transpose()?;
        other.capacity = other.capacity.map(|units| share(units, least)).transpose()?;
    }
    Ok(part)
}

/// A node's part of figures that were looked up, or brought along; where it is less than one unit they deny.
pub(super) fn of_figures(whole: &Rule, nodes: u64) -> Rule {
    let mut part = *whole.spec();
    let nodes = nodes.max(1);
    if let Limit::Units(units) = part.limit {
        part.limit = Limit::Units(units / nodes);
    }
    part.capacity = part.capacity.map(|units| units / nodes);
    part.initial = part.initial.map(|units| units / nodes);
    // A bucket that can hold nothing.
    Rule::new(part).unwrap_or_else(|_| closed(whole))
}

/// The same figures with a limit of 0.
fn closed(whole: &Rule) -> Rule {
    let mut none = Spec::unlimited(whole.spec().algorithm);
    none.limit = Limit::Units(0);
    Rule::new(none).unwrap_or_else(|_| whole.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::Micros;

    fn rule(limit: u64) -> RuleSpec {
        RuleSpec::new("r", Spec::new(Algorithm::TokenBucket, limit, Micros::from_secs(1)))
    }

    fn shares(rule: RuleSpec, nodes: u64) -> Result<Spec, SharedGateError> {
        Ok(*of(&Policy::new(vec![rule]).unwrap(), nodes)?.rules()[0].variant(0).spec())
    }

    #[test]
    fn the_parts_of_all_nodes_are_never_more_than_the_whole() {
        for (limit, nodes) in [(10, 1), (10, 3), (10, 10), (1_000_000_000, 7)] {
            let mut whole = rule(limit).on_store_error(OnStoreError::Local);
            (whole.spec.capacity, whole.spec.initial) = (Some(limit), Some(limit - 1));
            let part = shares(whole, nodes).unwrap();
            assert_eq!(part.limit, Limit::Units(limit / nodes));
            assert_eq!(part.capacity, Some(limit / nodes));
            assert!(part.initial.unwrap() * nodes < limit);
        }
    }

    #[test]
    fn figures_of_a_plan_are_split_and_deny_where_there_is_less_than_one_unit_each() {
        let plan = |limit, capacity| {
            let mut spec = Spec::new(Algorithm::TokenBucket, limit, Micros::from_secs(1));
            spec.capacity = capacity;
            Rule::new(spec).unwrap()
        };
        let part = of_figures(&plan(10, Some(7)), 3);
        assert_eq!((part.spec().limit, part.spec().capacity), (Limit::Units(3), Some(2)));
        for whole in [plan(2, None), plan(10, Some(2)), plan(2, Some(10))] {
            assert_eq!(of_figures(&whole, 3).spec().limit, Limit::Units(0), "{whole:?}");
        }
        let all = Rule::new(Spec::unlimited(Algorithm::TokenBucket)).unwrap();
        assert!(of_figures(&all, 3).is_unlimited());
    }

    #[test]
    fn less_than_one_unit_each_is_told() {
        let told = shares(rule(2).on_store_error(OnStoreError::Local), 3).unwrap_err();
        assert!(told.to_string().contains("rule `r`: 2 units among 3 nodes"), "{told}");
        assert_eq!(
            shares(rule(0).on_store_error(OnStoreError::Local), 3).unwrap().limit,
            Limit::Units(0)
        );
    }

    #[test]
    fn rules_that_are_not_decided_here_limit_nothing_here() {
        let part = shares(rule(1).on_store_error(OnStoreError::Closed), 3).unwrap();
        assert_eq!(part.limit, Limit::Unlimited);
    }
}
