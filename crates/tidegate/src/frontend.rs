//! What a gate does around its store: a request becomes limiters before, and their replies an answer after.

mod bans;
mod plans;
mod queues;
mod resolve;
mod settle;

use std::borrow::Borrow;

use tidegate_core::Rule;

use crate::answer::{Answer, Matched, Standing};
use crate::limiter::Ban;
use crate::observe::Observers;
use crate::rules::{ActivePolicy, NoSuchRule, Policy, RuleSpec};
use crate::step::{Decided, Done, Figures, Met};
use bans::Bans;
pub(crate) use bans::deny;
use plans::{Lookup, Plans};
pub(crate) use queues::{GateQueue, GateQueues, delay_of, patience, queue_of, stops_of};
#[cfg(any(feature = "redis", feature = "tower"))]
pub(crate) use settle::{again, known_by};
pub(crate) use settle::{taken, with_actual};

/// What all gates have, whatever their store: a policy in force (`P`, which a store may share), plans, bans that go
/// by the clock `C`, and observers.
#[derive(Debug)]
pub(crate) struct Frontend<C, P = ActivePolicy> {
    pub(crate) policy: P,
    pub(crate) plans: Plans,
    pub(crate) bans: Bans<C>,
    pub(crate) observers: Observers,
}

impl<C, P: Borrow<ActivePolicy>> Frontend<C, P> {
    pub(crate) fn new(policy: P) -> Self {
        let (plans, bans, observers) = (Plans::default(), Bans::none(), Observers::default());
        Self { policy, plans, bans, observers }
    }

    /// The policy as it was loaded.
    #[inline]
    pub(crate) fn loaded(&self) -> &Policy {
        &self.policy.borrow().loaded
    }

    /// Returns the words of the named rule as they are in force.
    ///
    /// # Errors
    /// The policy has no such rule.
    pub(crate) fn in_force(&self, domain: &str, rule: &str) -> Result<RuleSpec, NoSuchRule> {
        self.policy.borrow().in_force(domain, rule).map(|(_, spec)| spec)
    }

    /// Looks up the figures of the named rule by `plan` from now on, and returns the number of the rule.
    ///
    /// # Errors
    /// The policy has no such rule.
    pub(crate) fn add_plans(
        &mut self,
        domain: &str,
        rule: &str,
        plan: Box<Lookup>,
    ) -> Result<usize, NoSuchRule> {
        self.plans.add(&self.policy.borrow().loaded, domain, rule, plan)
    }

    /// Bans the keys that the named rule refuses too often.
    ///
    /// # Errors
    /// The policy has no such rule.
    pub(crate) fn add_ban(
        &mut self,
        domain: &str,
        rule: &str,
        ban: Ban<C>,
    ) -> Result<(), NoSuchRule> {
        let (number, _) = self.loaded().named(domain, rule)?;
        self.bans.add(number, ban);
        Ok(())
    }

    /// Returns the figures of a variant of a rule whose figures come with each request: what the rule was changed
    /// to, or `own` where those are unlimited.
    pub(crate) fn figures_sent(&self, rule: usize, variant: usize, own: &Rule) -> Figures {
        self.policy.borrow().figures_or_unlimited(rule, variant, own)
    }

    /// Makes the answer of what the limiters replied; one that replied nothing is left out of it.
    #[inline]
    pub(crate) fn answer<K, D: Into<Option<Decided>>>(
        &self,
        met: &[Met<K>],
        done: Done<D>,
        standing: Standing,
    ) -> Answer<'_> {
        let Done { allowed, at, repeated, decisions } = done;
        let decided = met.iter().zip(decisions);
        let matched = decided.filter_map(|(met, decided)| self.matched(met, decided.into()?));
        Answer { allowed, at, standing, repeated, matched: matched.collect() }
    }

    fn matched<K>(&self, met: &Met<K>, decided: Decided) -> Option<Matched<'_>> {
        if decided.unlimited || met.is_unlimited() {
            return None;
        }
        Some(Matched {
            rule: self.loaded().rules().get(met.rule)?,
            number: met.rule,
            variant: met.variant,
            figures: decided.figures.or_else(|| met.figures.clone()),
            cost: met.cost,
            asks: met.asks,
            report: met.report,
            by: met.by,
            decision: decided.decision,
            overflow: decided.overflow,
            elsewhere: decided.elsewhere,
        })
    }
}
