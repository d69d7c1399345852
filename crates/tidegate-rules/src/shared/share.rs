//! A node's share of each limit, for decisions without the store: the arithmetic.

use tidegate_core::{AlgorithmKind, Limit, Rule, Spec};

use crate::rules::{OnStoreError, Policy, PolicyErrors, PolicyRule, RuleSpec, refused};

/// The share of a node in every limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The number of nodes, at least 1.
    nodes: u32,
    /// The number of nodes before this node; `None` if no order is known.
    rank: Option<u32>,
}

impl Share {
    /// The whole of every limit.
    const WHOLE: Self = Self { nodes: 1, rank: None };

    /// Returns an equal share for a configured number of nodes, rounded down; the whole if none was configured.
    pub fn of(nodes: Option<u64>) -> Self {
        nodes.map_or(Self::WHOLE, |nodes| Self { nodes: saturated(nodes).max(1), rank: None })
    }

    /// Returns the share of the node at this rank, from 0, of `nodes`.
    pub fn of_rank(nodes: u64, rank: u64) -> Self {
        let nodes = saturated(nodes).max(1);
        Self { nodes, rank: Some(saturated(rank).min(nodes - 1)) }
    }

    /// The number of nodes.
    pub const fn nodes(self) -> u64 {
        self.nodes as u64
    }

    /// Returns an nth of `units`. The first nodes get one of the remaining units each, if their order is known.
    /// The shares of all nodes are never more than the whole.
    fn of_units(self, units: u64) -> u64 {
        let nodes = u64::from(self.nodes);
        let has_one_more = self.rank.is_some_and(|rank| u64::from(rank) < units % nodes);
        units / nodes + u64::from(has_one_more)
    }

    /// Returns whether this node has no share of a limit: less than one unit of what it admits in a window, or of its
    /// capacity.
    pub fn has_none(self, whole: &Rule) -> bool {
        counts(whole.spec()).any(|units| units > 0 && self.of_units(units) == 0)
    }

    /// Returns this node's share of the values of a rule. A share of less than one unit is kept as one unit, so
    /// that usage stays known; callers check [`Share::has_none`] first.
    pub fn spec(self, whole: &Spec) -> Spec {
        let mut part = *whole;
        part.limit = self.limit(whole.limit);
        part.capacity = whole.capacity.map(|units| self.capacity(whole.algorithm, units));
        part.initial = whole.initial.map(|units| self.of_units(units));
        part.max_debt = whole.max_debt.map(|units| self.of_units(units));
        part
    }

    fn limit(self, whole: Limit) -> Limit {
        match whole {
            Limit::Units(units) => Limit::Units(self.of_units(units).max(units.min(1))),
            Limit::Unlimited => Limit::Unlimited,
        }
    }

    /// Returns the share of a capacity. A queue without places still admits one request after another, but a
    /// bucket holds at least one unit.
    fn capacity(self, algorithm: AlgorithmKind, units: u64) -> u64 {
        self.of_units(units).max(units.min(algorithm.least_capacity()))
    }

    /// Returns this node's share of values; a limit of 0 if no share can be made of them.
    pub fn rule(self, whole: &Rule) -> Rule {
        let spec = self.spec(whole.spec());
        if spec == *whole.spec() {
            // The only node shares the values with the rule.
            return whole.clone();
        }
        Rule::new(spec).unwrap_or_else(|_| closed(whole))
    }

    /// Returns true if some node has no share of this limit.
    fn leaves_some_without(self, whole: &Rule) -> bool {
        counts(whole.spec()).any(|units| (1..self.nodes()).contains(&units))
    }

    /// Returns whether a rule that is decided in process leaves some node without a share, under any of its values.
    pub fn is_too_small(self, rule: &PolicyRule) -> bool {
        is_local(rule.spec())
            && (0..rule.variants()).any(|number| self.leaves_some_without(rule.variant(number)))
    }

    /// Checks whether shares can be made of a policy.
    ///
    /// # Errors
    /// Returns the values that cannot be divided into shares.
    pub fn check(self, policy: &Policy) -> Result<(), PolicyErrors> {
        let rules = policy.rules().iter().enumerate();
        for (number, rule) in rules.filter(|(_, rule)| is_local(rule.spec())) {
            for variant in 0..rule.variants() {
                let part = Rule::new(self.spec(rule.variant(variant).spec()));
                part.map_err(|errors| refused(number, rule, &errors))?;
            }
        }
        Ok(())
    }
}

/// Returns the numbers of units that every node needs a share of.
fn counts(whole: &Spec) -> impl Iterator<Item = u64> {
    let limit = match whole.limit {
        Limit::Units(units) => Some(units),
        Limit::Unlimited => None,
    };
    let capacity = whole.capacity.filter(|_| !whole.algorithm.is_queue());
    limit.into_iter().chain(capacity)
}

/// Returns these values with a limit of 0.
fn closed(whole: &Rule) -> Rule {
    let mut none = Spec::unlimited(whole.spec().algorithm);
    none.limit = Limit::Units(0);
    Rule::new(none).unwrap_or_else(|_| whole.clone())
}

fn saturated(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Returns whether a rule is decided in process while the store is unavailable or overloaded.
pub fn is_local(rule: &RuleSpec) -> bool {
    rule.on_store_error != OnStoreError::Closed
}

#[cfg(test)]
mod tests;
