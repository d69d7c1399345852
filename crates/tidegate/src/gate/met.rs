//! A limiter that a request meets, and under which figures.

use std::sync::Arc;

use tidegate_core::Rule;

use super::Plans;
use crate::answer::{Descriptors, Matched};
use crate::few::Few;
use crate::key::Fingerprint;
use crate::request::{Descriptor, Request};
use crate::rules::{Mode, Policy, PolicyRule, Usage};
use crate::store::memory::Step;

/// Figures in place of those of a rule's variant; `None` where those hold.
pub(crate) type Figures = Option<Arc<Rule>>;

/// A limiter that a request meets.
#[derive(Clone, Debug)]
pub(crate) struct Met<K = Fingerprint> {
    /// The number of the rule in the policy.
    pub(crate) rule: usize,
    /// Which of the rule's figures hold for the key.
    pub(crate) variant: usize,
    /// What it is known by.
    pub(crate) print: K,
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
    /// Figures in place of the rule's own: what the request brought, a plan, or, where they are sent with
    /// each request, what the rule was changed to.
    pub(crate) figures: Figures,
    /// The number of the first descriptor of the request that meets it, and which do.
    pub(crate) first: usize,
    pub(crate) by: Descriptors,
}

impl<K> Met<K> {
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
            Step::Decide | Step::Ask if self.asks > self.cost => (self.asks, Step::Look),
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

    /// Whether its plan, what the request brings, or what its rule was changed to admits everything. Where a
    /// rule's own figures do, it is not met at all.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.figures.as_ref().is_some_and(|figures| figures.is_unlimited())
    }
}

/// Those that can refuse a request: what is unlimited is not met.
pub(crate) fn limited<K>(mut met: Few<Met<K>>) -> Few<Met<K>> {
    if met.iter().any(Met::is_unlimited) {
        met.retain(|one| !one.is_unlimited());
    }
    met
}

/// The limiters of an answer, met once more: those that were unlimited then are left out. `met` are all that
/// the same request meets, unlimited ones included.
pub(crate) fn again<T, M>(
    met: impl IntoIterator<Item = T>,
    of: impl Fn(&T) -> &Met,
    answered: &[M],
    told: impl Fn(&M) -> (usize, Descriptors),
) -> Vec<(T, &M)> {
    let mut answered = answered.iter().peekable();
    let mut same = |one: &T| {
        let met = of(one);
        answered.next_if(|answered| told(answered) == (met.rule, met.by))
    };
    met.into_iter().filter_map(|one| same(&one).map(|answered| (one, answered))).collect()
}

/// What [`again`] knows a limiter of an answer by.
pub(crate) const fn known_by(matched: &Matched<'_>) -> (usize, Descriptors) {
    (matched.number, matched.by)
}

/// The limiters a request meets, in the order of the rules, each once, by what `known_by` tells of each:
/// the same limiter met twice sums its costs. `in_force` is told the number of a rule, that of a variant,
/// and its figures, and answers those to be used in their place where none are brought along or looked up;
/// or that it does not limit. Where figures are looked up, or brought along, unlimited ones are among them.
pub(crate) fn meet<K: PartialEq>(
    policy: &Policy,
    plans: &Plans,
    request: &Request<'_>,
    known_by: impl Fn(&PolicyRule, &Descriptor<'_>) -> K,
    in_force: impl Fn(usize, usize, &Rule) -> Option<Figures>,
) -> Few<Met<K>> {
    let mut all: Few<Met<K>> = Few::new();
    let mut usage = Reported::default();
    for (place, descriptor) in request.descriptors().iter().enumerate() {
        for (number, rule) in policy.in_domain(request.domain()) {
            if !counts(rule) || !rule.matches(descriptor) {
                continue;
            }
            usage.note(rule, descriptor.units());
            let variant = rule.variant_for(descriptor);
            let brought = descriptor.own_limit().and_then(|own| own.figures(rule));
            let in_force = match brought {
                Some(_) => None,
                None => match in_force(number, variant, rule.variant(variant)) {
                    Some(figures) => figures,
                    None => continue,
                },
            };
            let print = known_by(rule, descriptor);
            match all.iter_mut().find(|met| met.rule == number && met.print == print) {
                Some(met) => {
                    met.cost = met.cost.saturating_add(descriptor.units());
                    met.by.add(place);
                    if let Some(figures) = brought.filter(|_| !met.brought) {
                        (met.brought, met.by_plan) = (true, false);
                        met.figures = Some(Arc::clone(figures));
                    }
                }
                None => {
                    let plan = || plans.of(number, descriptor);
                    let plan = if brought.is_none() { plan() } else { None };
                    all.push(Met {
                        rule: number,
                        variant,
                        print,
                        cost: descriptor.units(),
                        asks: 0,
                        report: false,
                        enforced: rule.mode() == Mode::Enforce,
                        brought: brought.is_some(),
                        by_plan: plan.is_some(),
                        figures: brought.cloned().or(plan).or(in_force),
                        first: place,
                        by: Descriptors::one(place),
                    });
                }
            }
        }
    }
    let is_reported =
        |met: &Met<K>| usage.any && policy.rules().get(met.rule).is_some_and(is_reported);
    for met in &mut all {
        (met.report, met.asks) = (usage.is_report(), usage.asks(met.cost, is_reported(met)));
    }
    all.sort_by_key(|met| met.rule);
    all
}

/// What a request says to rules whose usage is reported.
#[derive(Clone, Copy, Default)]
struct Reported {
    /// It meets such a rule.
    any: bool,
    /// It tells an enforced one of usage, or one in shadow mode.
    enforced: bool,
    shadow: bool,
    /// Another rule may refuse it.
    refusable: bool,
}

impl Reported {
    fn note(&mut self, rule: &PolicyRule, units: u64) {
        let (enforced, reported) = (rule.mode() == Mode::Enforce, is_reported(rule));
        self.any |= reported;
        self.enforced |= reported && enforced && units > 0;
        self.shadow |= reported && !enforced && units > 0;
        self.refusable |= !reported && enforced && units > 0;
    }

    /// Whether it is a report. A rule in shadow mode makes it one only where no other could refuse it.
    const fn is_report(self) -> bool {
        self.enforced || self.shadow && !self.refusable
    }

    /// What a limiter decides about that takes `cost`.
    const fn asks(self, cost: u64, reported: bool) -> u64 {
        match (self.is_report(), cost) {
            (true, 1..) => 1,
            (_, 0) if reported => 1,
            _ => cost,
        }
    }
}

fn is_reported(rule: &PolicyRule) -> bool {
    rule.spec().usage == Usage::Reported
}

/// The limiters of a request, each with what the same limiter costs in `costing`.
pub(crate) fn with_actual<K: PartialEq>(
    met: Few<Met<K>>,
    costing: &[Met<K>],
) -> Vec<(Met<K>, u64)> {
    let with_actual = |met: Met<K>| {
        let same = |other: &&Met<K>| other.rule == met.rule && other.print == met.print;
        let actual = costing.iter().find(same)?.cost;
        Some((met, actual))
    };
    met.into_iter().filter_map(with_actual).collect()
}

fn counts(rule: &PolicyRule) -> bool {
    rule.mode() != Mode::Off
}
