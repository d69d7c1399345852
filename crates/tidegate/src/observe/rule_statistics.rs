//! The statistics of each rule of a policy, kept by an observer.

use crate::answer::{Answer, Matched};
use crate::clock::{Clock, SystemClock};
use crate::request::Request;
use crate::rules::{Policy, PolicyRule, Token};
use crate::stats::Statistics;

use super::Observer;

/// An [`Observer`] that keeps the [`Statistics`] of each rule: the units it passed and blocked, over the
/// last second and the last minute.
///
/// A rule passes the cost of an allowed request, and blocks the cost of a request that it refuses itself. A rule that
/// admits a request which another one refuses counts nothing, because nothing was taken from it. A rule in shadow
/// mode counts the decision that it would have made; a rule that is unlimited, by itself or by the plan of the key,
/// counts nothing. A rule that a request matches under several keys counts for each of them.
///
/// The statistics take about seven kilobytes for each rule of the policy, regardless of the requests. Units are
/// counted at the time of the answer ([`Answer::at`]), regardless of the gate's clock; the clock here is only for
/// reading the statistics now ([`Statistics::second`] and others).
///
/// ```
/// use std::sync::Arc;
///
/// use std::time::Duration;
/// use tidegate::{
///     AlgorithmKind, Descriptor, Gate, ManualClock, Policy, Request, RuleSpec, RuleStatistics,
///     Spec,
/// };
///
/// let clock = ManualClock::new();
/// let spec = Spec::new(AlgorithmKind::SlidingLog, 1, Duration::from_secs(60));
/// let policy = Policy::new(vec![RuleSpec::new("per-user", spec).key(["user"])])?;
/// let statistics = Arc::new(RuleStatistics::with_clock(&policy, clock.clone()));
/// let gate = Gate::with_clock(policy, clock).with_observer(statistics.clone());
///
/// let entries = [("user", "ada")];
/// let descriptors = [Descriptor::new(&entries)];
/// let request = Request::new("default", &descriptors);
/// assert!(gate.admits(&request));
/// assert!(!gate.admits(&request));
///
/// let minute = statistics.of("default", "per-user").map(|rule| rule.minute());
/// assert_eq!(minute.map(|minute| (minute.pass, minute.block)), Some((1, 1)));
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Debug)]
pub struct RuleStatistics<C = SystemClock> {
    /// In the order of the policy.
    rules: Vec<OfRule<C>>,
    /// Their indices, by domain and name.
    sorted: Vec<usize>,
}

#[derive(Debug)]
struct OfRule<C> {
    domain: Box<str>,
    name: Box<str>,
    token: Token,
    statistics: Statistics<C>,
}

impl<C> OfRule<C> {
    fn identity(&self) -> (&str, &str) {
        (&self.domain, &self.name)
    }
}

impl RuleStatistics {
    /// Statistics of the rules of `policy`, read by the system's clock.
    #[must_use]
    pub fn new(policy: &Policy) -> Self {
        Self::with_clock(policy, SystemClock::new())
    }
}

impl<C: Clock + Clone> RuleStatistics<C> {
    /// Statistics of the rules of `policy`, each read by a copy of `clock`: in tests, a copy of the
    /// gate's.
    #[must_use]
    pub fn with_clock(policy: &Policy, clock: C) -> Self {
        let of_rule = |rule: &PolicyRule| OfRule {
            domain: rule.domain().into(),
            name: rule.name().into(),
            token: rule.token().clone(),
            statistics: Statistics::with_clock(clock.clone()),
        };
        let rules: Vec<_> = policy.rules().iter().map(of_rule).collect();
        let mut sorted: Vec<_> = (0..rules.len()).collect();
        sorted.sort_unstable_by_key(|number| rules[*number].identity());
        Self { rules, sorted }
    }
}

impl<C> RuleStatistics<C> {
    /// The statistics of a rule; `None` if the policy has no such rule.
    #[must_use]
    pub fn of(&self, domain: &str, name: &str) -> Option<&Statistics<C>> {
        let identity = |number: &usize| self.rules.get(*number).map(OfRule::identity);
        let index = self.sorted.binary_search_by_key(&Some((domain, name)), identity);
        Some(&self.rules.get(*self.sorted.get(index.ok()?)?)?.statistics)
    }

    /// The statistics of a matched rule, of this policy or of the same name in another.
    #[inline]
    fn of_matched(&self, matched: &Matched<'_>) -> Option<&Statistics<C>> {
        match self.rules.get(matched.reply.number) {
            Some(rule) if rule.token.is(matched.rule().token()) => Some(&rule.statistics),
            _ => self.of(matched.rule().domain(), matched.rule().name()),
        }
    }

    /// The domain, the name and the statistics of every rule, by domain, then by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, &Statistics<C>)> {
        let rules = self.sorted.iter().filter_map(|number| self.rules.get(*number));
        rules.map(|rule| (&*rule.domain, &*rule.name, &rule.statistics))
    }

    /// Counts one rule's part in an answer.
    fn count(&self, answer: &Answer<'_>, matched: &Matched<'_>) {
        let Some(statistics) = self.of_matched(matched) else { return };
        if matched.is_report() {
            statistics.pass_at(matched.cost(), answer.at());
        } else if !matched.decision().is_allowed() {
            statistics.block_at(matched.reply.asks, answer.at());
        } else if answer.is_allowed() {
            statistics.pass_at(matched.cost(), answer.at());
        }
    }
}

impl<C: Clock> Observer for RuleStatistics<C> {
    fn decided(&self, _: &Request<'_>, answer: &Answer<'_>) {
        if !answer.is_repeated() {
            answer.all().for_each(|matched| self.count(answer, &matched));
        }
    }
}
