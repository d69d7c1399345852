//! A limiter that a request meets, and under which figures.

use std::sync::Arc;

use tidegate_core::Rule;

use super::Step;
use crate::inline_list::InlineList;
use crate::key::Fingerprint;
#[cfg(feature = "redis")]
use crate::rules::Policy;

/// Figures in place of those of a rule's variant; `None` where those hold.
pub(crate) type Figures = Option<Arc<Rule>>;

/// What a rule is known by for as long as a gate lives, whatever policies are put in force.
pub(crate) type Lineage = u32;

/// A limiter that a request meets.
#[derive(Clone, Debug)]
pub(crate) struct Met<K = Fingerprint> {
    pub(crate) lineage: Lineage,
    /// The number of the rule in the policy.
    pub(crate) rule: usize,
    /// Which of the rule's figures hold for the key.
    pub(crate) variant: usize,
    /// What it is known by.
    pub(crate) fingerprint: K,
    /// Units that it is to take.
    pub(crate) cost: u64,
    /// Units that it decides about: its cost, or one where its usage is reported.
    pub(crate) asks: u64,
    /// Whether the request reports usage: its costs are taken whatever the limiters hold.
    pub(crate) report: bool,
    pub(crate) enforced: bool,
    /// Whether its figures came with the request.
    pub(crate) brought: bool,
    /// Whether they are a plan.
    pub(crate) by_plan: bool,
    /// Figures in place of the rule's own: what the request brought, or a plan.
    pub(crate) figures: Figures,
    /// The descriptors of the request that meet it.
    pub(crate) by: Descriptors,
}

impl<K> Met<K> {
    /// Whether both are one limiter, whatever generations they were met in.
    pub(crate) fn is_of(&self, other: &Self) -> bool
    where
        K: PartialEq,
    {
        self.lineage == other.lineage && self.fingerprint == other.fingerprint
    }

    /// Whether it may refuse the request, and so have it wait.
    pub(crate) fn can_refuse(&self) -> bool {
        self.can_deny() && !self.report
    }

    /// Whether it may be what denies the request, which has not been kept from a report by that.
    pub(crate) fn can_deny(&self) -> bool {
        self.enforced && self.asks > 0 && !self.is_unlimited()
    }

    /// Whether the request may take from it where it also has a say.
    pub(crate) fn takes_enforced(&self) -> bool {
        self.enforced && self.cost > 0 && !self.is_unlimited()
    }

    /// Its own part in a step over the limiters of the request, and the units that part is about.
    #[inline]
    pub(crate) const fn part(&self, step: Step) -> (u64, Step) {
        match step {
            Step::Decide | Step::Ask if self.report && self.cost > 0 => (self.cost, Step::Report),
            Step::Decide | Step::Ask if self.asks > self.cost => (self.asks, Step::AskReported),
            Step::Peek => (self.asks, Step::Peek),
            _ => (self.cost, step),
        }
    }

    /// The figures under which it is asked.
    #[cfg(feature = "redis")]
    pub(crate) fn rule_in<'a>(&'a self, policy: &'a Policy) -> Option<&'a Rule> {
        let own = || Some(policy.rules().get(self.rule)?.variant(self.variant));
        self.figures.as_deref().or_else(own)
    }

    /// Whether its plan, or what the request brings, admits everything. Where a rule's own figures do, it is not met at
    /// all.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.figures.as_ref().is_some_and(|figures| figures.is_unlimited())
    }
}

/// Those that can refuse a request: what is unlimited is not met.
#[inline]
pub(crate) fn limited<K>(mut met: InlineList<Met<K>>) -> InlineList<Met<K>> {
    if met.iter().any(Met::is_unlimited) {
        met.retain(|one| !one.is_unlimited());
    }
    met
}

/// Some descriptors of a request, by their numbers; those from 63 on are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptors(u64);

impl Descriptors {
    const LAST: usize = u64::BITS as usize - 1;

    /// The one with this number.
    pub(crate) const fn one(number: usize) -> Self {
        Self(1 << if number < Self::LAST { number } else { Self::LAST })
    }

    /// Adds the one with this number.
    pub(crate) const fn add(&mut self, number: usize) {
        self.0 |= Self::one(number).0;
    }

    pub(crate) const fn has(self, number: usize) -> bool {
        self.0 & Self::one(number).0 != 0
    }
}
