//! One limiter's part in a step, and the values under which it decides.

use std::hash::{Hash, Hasher};

use tidegate_core::{Micros, Rule, Since};

use super::{Step, TakenUnits};
use crate::key::Fingerprint;
use crate::rules::{OnStoreError, Policy, PolicyRule};

/// The identity of the limiters of a rule, for the lifetime of a gate and through all its policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lineage {
    rule: u32,
    /// The number of times that the rule got other limiters.
    limiters: u32,
}

impl Lineage {
    /// The identity that no rule has.
    pub const NONE: Self = Self::of_rule(u32::MAX);

    /// The first limiters of the rule with this number.
    pub const fn of_rule(rule: u32) -> Self {
        Self { rule, limiters: 0 }
    }

    /// Returns the lineage of other limiters of this rule.
    pub const fn with_other_limiters(self) -> Self {
        Self { limiters: self.limiters.wrapping_add(1), ..self }
    }

    /// Returns whether both are of one rule, with the same limiters or others.
    #[inline]
    pub const fn is_of_rule(self, other: Self) -> bool {
        self.rule == other.rule
    }

    /// Its two numbers, for [`Lineage::from_numbers`].
    pub const fn numbers(self) -> [u32; 2] {
        [self.rule, self.limiters]
    }

    /// The lineage with these numbers.
    pub const fn from_numbers([rule, limiters]: [u32; 2]) -> Self {
        Self { rule, limiters }
    }

    /// The number of the rule among all rules that a gate has had.
    pub const fn number_of_rule(self) -> u32 {
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
pub struct Ask<K = Fingerprint> {
    #[doc(hidden)]
    pub lineage: Lineage,
    /// The index of the rule in the policy.
    #[doc(hidden)]
    pub rule: usize,
    /// Identifies the key.
    #[doc(hidden)]
    pub fingerprint: K,
    /// Units to take, or that were taken.
    pub cost: u64,
    /// The way in which the units are charged.
    pub kind: AskKind,
    #[doc(hidden)]
    pub enforced: bool,
    #[doc(hidden)]
    pub values: AskValues,
    /// The descriptors of the request that match this limiter.
    #[doc(hidden)]
    pub by: DescriptorSet,
    /// True if the cost is reserved, to be settled later, or comes back of a reservation.
    pub reserves: bool,
    /// The units that come back, or the permit to renew.
    pub taken: TakenUnits,
}

/// The values that hold for a key.
#[derive(Clone, Debug)]
pub struct AskValues {
    /// The index of the rule's values for the key.
    pub variant: usize,
    /// Their source.
    pub source: ValuesSource,
    /// Values in place of the variant's: supplied by the request, or of a plan.
    pub own: Option<Rule>,
}

impl AskValues {
    /// The values of the variant, which no plan and no request replaces.
    #[inline]
    pub const fn of_variant(variant: usize) -> Self {
        Self { variant, source: ValuesSource::Rule, own: None }
    }

    /// The values of a plan, or of the variant if there is none for this key.
    pub const fn of_plan(variant: usize, own: Option<Rule>) -> Self {
        let source = if own.is_some() { ValuesSource::Plan } else { ValuesSource::NoPlan };
        Self { variant, source, own }
    }

    /// Values that a request supplies in place of the variant's.
    pub fn of_request(variant: usize, values: &Rule) -> Self {
        Self { variant, source: ValuesSource::Request, own: Some(values.clone()) }
    }
}

/// The source of the values that hold for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValuesSource {
    /// The rule, or one of its overrides.
    Rule,
    /// The rule, because neither a plan nor the request has values for this key; for another key they may.
    NoPlan,
    /// The plan of the key.
    Plan,
    /// The request.
    Request,
}

impl ValuesSource {
    /// Returns whether the values of the rule are looked up for each key.
    pub const fn is_looked_up(self) -> bool {
        !matches!(self, Self::Rule)
    }
}

/// Asks of the same limiter are equal for any units.
impl<K: PartialEq> PartialEq for Ask<K> {
    fn eq(&self, other: &Self) -> bool {
        self.is_of(other)
    }
}

impl<K: Eq> Eq for Ask<K> {}

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

    /// The rule of the policy that has the limiter, whatever the origin of its values; `None` if the policy has no such
    /// rule.
    #[must_use]
    pub fn policy_rule<'p>(&self, policy: &'p Policy) -> Option<&'p PolicyRule> {
        policy.rules().get(self.rule)
    }
}

#[doc(hidden)]
impl<K> Ask<K> {
    /// Returns whether both are the same limiter, also in different generations.
    pub fn is_of(&self, other: &Self) -> bool
    where
        K: PartialEq,
    {
        self.lineage == other.lineage && self.fingerprint == other.fingerprint
    }

    /// Returns whether it can refuse the request, and so make it wait.
    pub fn can_refuse(&self) -> bool {
        self.can_deny() && !self.is_report()
    }

    /// Returns whether it can deny the request. (A report is never refused, but it can be denied.)
    pub fn can_deny(&self) -> bool {
        self.enforced && self.asks() > 0
    }

    /// Returns whether the request takes units from it and the rule is enforced.
    pub fn takes_enforced(&self) -> bool {
        self.enforced && self.cost > 0
    }

    /// The step of this limiter in a step over all limiters of the request, and the units of that
    /// step.
    #[inline]
    pub const fn part(&self, step: Step) -> (u64, Step) {
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
    pub fn costing(&self, cost: u64) -> Self
    where
        K: Clone,
    {
        Self { cost, kind: AskKind::Question, ..self.clone() }
    }

    /// The units that come back, as the limiter knows them; `None` if it is not known when they were taken.
    pub fn since(&self) -> Option<Since> {
        self.taken.as_known(self.reserves)
    }

    /// Returns whether the limiter would begin with units in use.
    pub fn begins_in_use(&self, policy: &Policy) -> bool {
        self.rule_in(policy).is_some_and(Rule::begins_in_use)
    }

    /// Returns its rule's setting for a store that does not decide.
    pub fn on_store_error(&self, policy: &Policy) -> OnStoreError {
        self.policy_rule(policy).map_or(OnStoreError::Open, |rule| rule.spec().on_store_error)
    }

    /// The rule under which it decides.
    pub fn rule_in<'a>(&'a self, policy: &'a Policy) -> Option<&'a Rule> {
        match &self.values.own {
            Some(values) => Some(values),
            None => Some(self.policy_rule(policy)?.variant(self.values.variant)),
        }
    }

    /// Returns whether the values under which it decides admit everything.
    pub fn is_unlimited(&self, policy: &Policy) -> bool {
        self.rule_in(policy).is_some_and(Rule::is_unlimited)
    }
}

/// The time for which the answer to a request with these limiters is remembered: for the longest `dedupe` of
/// the rules that it takes from. Rules in shadow mode count only if no other does. A request that
/// takes nothing is not remembered.
pub fn remembered_time<K>(policy: &Policy, asks: &[Ask<K>]) -> Option<Micros> {
    let any_enforced = asks.iter().any(Ask::takes_enforced);
    let counting = asks.iter().filter(|ask| ask.takes_enforced() || !any_enforced && ask.cost > 0);
    counting.filter_map(|ask| ask.policy_rule(policy)?.spec().dedupe).max().map(Micros::from)
}

/// The shortest `dedupe` of the enforced rules that the request takes from; `None` if one of them
/// has none.
pub fn least_remembered_time<K>(policy: &Policy, asks: &[Ask<K>]) -> Option<Micros> {
    let enforced = asks.iter().filter(|ask| ask.takes_enforced());
    let times: Option<Vec<_>> =
        enforced.map(|ask| ask.policy_rule(policy)?.spec().dedupe).collect();
    times?.into_iter().min().map(Micros::from)
}

/// A set of descriptors of a request, by their indices; all from 63 on count as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorSet(u64);

impl DescriptorSet {
    const LAST: usize = u64::BITS as usize - 1;

    /// The set with one descriptor.
    #[inline]
    pub const fn one(number: usize) -> Self {
        Self(1 << if number < Self::LAST { number } else { Self::LAST })
    }

    /// Its bits, for [`DescriptorSet::from_bits`].
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The set with these bits.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Adds a descriptor.
    #[inline]
    pub const fn add(&mut self, number: usize) {
        self.0 |= Self::one(number).0;
    }

    /// Returns whether a descriptor is in the set.
    #[inline]
    pub const fn has(self, number: usize) -> bool {
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
