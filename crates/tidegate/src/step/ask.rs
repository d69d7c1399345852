//! One limiter's part in a step, and the values under which it decides.

#[cfg(feature = "redis")]
use std::hash::{Hash, Hasher};

use tidegate_core::{Rule, Since};

use super::{Step, TakenUnits};
use crate::key::Fingerprint;
#[cfg(feature = "redis")]
use crate::rules::OnStoreError;
use crate::rules::Policy;

/// The identity of the limiters of a rule, for the lifetime of a gate and through all its policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Lineage {
    rule: u32,
    /// The number of times that the rule got other limiters.
    limiters: u32,
}

impl Lineage {
    /// The identity that no rule has.
    pub(crate) const NONE: Self = Self::of_rule(u32::MAX);

    /// The first limiters of the rule with this number.
    pub(crate) const fn of_rule(rule: u32) -> Self {
        Self { rule, limiters: 0 }
    }

    /// Returns the lineage of other limiters of this rule.
    pub(crate) const fn with_other_limiters(self) -> Self {
        Self { limiters: self.limiters.wrapping_add(1), ..self }
    }

    /// Returns whether both are of one rule, with the same limiters or others.
    #[inline]
    pub(crate) const fn is_of_rule(self, other: Self) -> bool {
        self.rule == other.rule
    }

    /// Its two numbers, for [`Lineage::from_numbers`].
    pub(crate) const fn numbers(self) -> [u32; 2] {
        [self.rule, self.limiters]
    }

    pub(crate) const fn from_numbers([rule, limiters]: [u32; 2]) -> Self {
        Self { rule, limiters }
    }

    pub(crate) const fn number_of_rule(self) -> u32 {
        self.rule
    }
}

/// The use that a request makes of a limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskKind {
    /// Asks for its cost.
    Question,
    /// Asks for one unit that it does not take: usage is reported later.
    Look,
    /// Reports usage: its cost is taken whatever the limiter holds, which then decides about one unit.
    Report,
}

/// A limiter that a request uses.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ask<K = Fingerprint> {
    pub(crate) lineage: Lineage,
    /// The index of the rule in the policy.
    pub(crate) rule: usize,
    /// Identifies the key.
    pub(crate) fingerprint: K,
    /// Units to take, or that were taken.
    pub cost: u64,
    /// The way in which the units are charged.
    pub kind: AskKind,
    pub(crate) enforced: bool,
    pub(crate) values: AskValues,
    /// The descriptors of the request that match this limiter.
    pub(crate) by: DescriptorSet,
    /// True if the cost is reserved, to be settled later, or comes back of a reservation.
    pub reserves: bool,
    /// The units that come back, or the permit to renew.
    pub taken: TakenUnits,
}

/// The values that hold for a key.
#[derive(Clone, Debug)]
pub(crate) struct AskValues {
    /// The index of the rule's values for the key.
    pub(crate) variant: usize,
    pub(crate) source: ValuesSource,
    /// Values in place of the variant's: supplied by the request, or of a plan.
    pub(crate) own: Option<Rule>,
}

impl AskValues {
    /// The values of the variant, which no plan and no request replaces.
    pub(crate) const fn of_variant(variant: usize) -> Self {
        Self { variant, source: ValuesSource::Rule, own: None }
    }

    /// The values of a plan, or of the variant if there is none for this key.
    pub(crate) const fn of_plan(variant: usize, own: Option<Rule>) -> Self {
        let source = if own.is_some() { ValuesSource::Plan } else { ValuesSource::NoPlan };
        Self { variant, source, own }
    }

    /// Values that a request supplies in place of the variant's.
    pub(crate) fn of_request(variant: usize, values: &Rule) -> Self {
        Self { variant, source: ValuesSource::Request, own: Some(values.clone()) }
    }
}

/// The source of the values that hold for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValuesSource {
    /// The rule, or one of its overrides.
    Rule,
    /// The rule, because neither a plan nor the request has values for this key; for another key they may.
    NoPlan,
    Plan,
    Request,
}

impl ValuesSource {
    /// Returns whether the values of the rule are looked up for each key.
    #[cfg(feature = "redis")]
    pub(crate) const fn is_looked_up(self) -> bool {
        !matches!(self, Self::Rule)
    }
}

/// Asks of the same limiter are equal for any units.
#[cfg(feature = "redis")]
impl<K: PartialEq> PartialEq for Ask<K> {
    fn eq(&self, other: &Self) -> bool {
        self.is_of(other)
    }
}

#[cfg(feature = "redis")]
impl<K: Eq> Eq for Ask<K> {}

#[cfg(feature = "redis")]
impl<K: Hash> Hash for Ask<K> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.lineage.hash(hasher);
        self.fingerprint.hash(hasher);
    }
}

impl<K> Ask<K> {
    /// Units to decide about: the cost, or one unit if usage is reported.
    #[must_use]
    #[inline]
    pub const fn asks(&self) -> u64 {
        match self.kind {
            AskKind::Question => self.cost,
            AskKind::Look | AskKind::Report => 1,
        }
    }

    /// Returns whether usage is reported.
    #[must_use]
    #[inline]
    pub const fn is_report(&self) -> bool {
        matches!(self.kind, AskKind::Report)
    }

    /// Returns whether both are the same limiter, also in different generations.
    pub(crate) fn is_of(&self, other: &Self) -> bool
    where
        K: PartialEq,
    {
        self.lineage == other.lineage && self.fingerprint == other.fingerprint
    }

    /// Returns whether it can refuse the request, and so make it wait.
    pub(crate) fn can_refuse(&self) -> bool {
        self.can_deny() && !self.is_report()
    }

    /// Returns whether it can deny the request. (A report is never refused, but it can be denied.)
    pub(crate) fn can_deny(&self) -> bool {
        self.enforced && self.asks() > 0
    }

    /// Returns whether the request takes units from it and the rule is enforced.
    pub(crate) fn takes_enforced(&self) -> bool {
        self.enforced && self.cost > 0
    }

    /// The step of this limiter in a step over all limiters of the request, and the units of that
    /// step.
    #[inline]
    pub(crate) const fn part(&self, step: Step) -> (u64, Step) {
        match step {
            // Reported usage is taken, and then one unit more is decided about.
            Step::Decide | Step::Ask if self.is_report() && self.cost > 0 => {
                (self.cost, Step::Report)
            }
            // Asked for a unit that it does not take: its usage is reported later.
            Step::Decide | Step::Ask if self.asks() > self.cost => (1, Step::AskReported),
            Step::Ask if self.reserves => (self.cost, Step::Reserve),
            Step::Peek => (self.asks(), Step::Peek),
            _ => (self.cost, step),
        }
    }

    /// The same limiter, asked for other units by a request that reports no usage.
    pub(crate) fn costing(&self, cost: u64) -> Self
    where
        K: Clone,
    {
        Self { cost, kind: AskKind::Question, ..self.clone() }
    }

    /// The units that come back, as the limiter knows them; `None` if it is not known when they were taken.
    pub(crate) fn since(&self) -> Option<Since> {
        self.taken.as_known(self.reserves)
    }

    /// Returns whether the limiter would begin with units in use.
    pub(crate) fn begins_in_use(&self, policy: &Policy) -> bool {
        self.rule_in(policy).is_some_and(Rule::begins_in_use)
    }

    /// Returns its rule's setting for a store that does not decide.
    #[cfg(feature = "redis")]
    pub(crate) fn on_store_error(&self, policy: &Policy) -> OnStoreError {
        policy.rules().get(self.rule).map_or(OnStoreError::Open, |rule| rule.spec().on_store_error)
    }

    /// The rule under which it decides.
    pub(crate) fn rule_in<'a>(&'a self, policy: &'a Policy) -> Option<&'a Rule> {
        match &self.values.own {
            Some(values) => Some(values),
            None => Some(policy.rules().get(self.rule)?.variant(self.values.variant)),
        }
    }

    /// Returns whether the values under which it decides admit everything.
    pub(crate) fn is_unlimited(&self, policy: &Policy) -> bool {
        self.rule_in(policy).is_some_and(Rule::is_unlimited)
    }
}

/// A set of descriptors of a request, by their indices; all from 63 on count as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DescriptorSet(u64);

impl DescriptorSet {
    const LAST: usize = u64::BITS as usize - 1;

    /// The set with one descriptor.
    pub(crate) const fn one(number: usize) -> Self {
        Self(1 << if number < Self::LAST { number } else { Self::LAST })
    }

    /// Its bits, for [`DescriptorSet::from_bits`].
    #[cfg(feature = "redis")]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    #[cfg(feature = "redis")]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Adds a descriptor.
    pub(crate) const fn add(&mut self, number: usize) {
        self.0 |= Self::one(number).0;
    }

    pub(crate) const fn has(self, number: usize) -> bool {
        self.0 & Self::one(number).0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_distinguished_up_to_the_last_which_stands_for_the_rest() {
        let mut some = DescriptorSet::one(0);
        some.add(62);
        assert!(some.has(0) && some.has(62));
        assert!(!some.has(1) && !some.has(63) && !some.has(1000));
        some.add(usize::MAX);
        assert!(some.has(63) && some.has(64) && !some.has(61));
    }
}
