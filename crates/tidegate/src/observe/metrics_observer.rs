//! An observer for the facade crate `metrics`.
//!
//! A program that has a recorder of that crate adds it to its gate; the server has metrics of its own.

use metrics::Counter;

use super::by_rule::ByRule;
use super::{Observer, RuleOutcome};
use crate::answer::Answer;
use crate::request::Request;
use crate::rules::PolicyRule;

/// An [`Observer`] that counts the decisions of each rule in the recorder of the crate `metrics`, which many exporters
/// provide: as `tidegate_rule_decisions_total`, with the labels `domain`, `rule` and `outcome`
/// ([`RuleOutcome::name`]).
///
/// Its counters are registered when a rule is first seen, so install the recorder before the first request. After that
/// a decision adds to one counter for each of its rules, and looks no name up. No label holds a value of a request.
/// Answers that are [repeated](Answer::is_repeated) count nothing.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tidegate::{AlgorithmKind, Descriptor, Gate, MetricsObserver, Policy, Request, RuleSpec, Setup, Spec};
///
/// let rule = RuleSpec::new("all", Spec::new(AlgorithmKind::TokenBucket, 100, Duration::from_secs(1)));
/// let gate = Gate::new(Setup::new(Policy::new(vec![rule])?).observer(Arc::new(MetricsObserver::new())));
///
/// let descriptors = [Descriptor::new(&[])];
/// assert!(gate.check(&Request::new("default", &descriptors)).is_allowed());
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Debug)]
pub struct MetricsObserver(ByRule<[Counter; RuleOutcome::ALL.len()]>);

impl Default for MetricsObserver {
    fn default() -> Self {
        Self::new()
    }
}

impl MetricsObserver {
    /// Creates the observer.
    #[must_use]
    pub fn new() -> Self {
        Self(ByRule::new(counters))
    }
}

/// The counters of one rule, by outcome.
fn counters(rule: &PolicyRule) -> [Counter; RuleOutcome::ALL.len()] {
    RuleOutcome::ALL.map(|outcome| {
        metrics::counter!(
            "tidegate_rule_decisions_total",
            "domain" => rule.domain().to_owned(),
            "rule" => rule.name().to_owned(),
            "outcome" => outcome.name()
        )
    })
}

impl Observer for MetricsObserver {
    fn decided(&self, _: &Request<'_>, answer: &Answer<'_>) {
        if !answer.is_repeated() {
            self.0.each(answer, |matched, counters| {
                if let Some(counter) = counters.get(RuleOutcome::of(answer, matched) as usize) {
                    counter.increment(1);
                }
            });
        }
    }
}
