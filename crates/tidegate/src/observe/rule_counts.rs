//! Counts of the decisions of each rule by outcome, kept by an observer.

use super::by_rule::ByRule;
use super::{Observer, RuleOutcome};
use crate::answer::Answer;
use crate::request::Request;
use crate::rules::PolicyRule;
use crate::stats::Striped;

const OUTCOMES: usize = RuleOutcome::ALL.len();
/// The number of the counter of decisions without room, after those of the outcomes.
const OVERFLOW: usize = OUTCOMES;
const NEAR: usize = OUTCOMES + 1;
const COUNTS: usize = OUTCOMES + 2;

/// An [`Observer`] that counts the decisions of each rule by [outcome](RuleOutcome), since the start: for metrics.
///
/// A rule that a request matches under several keys counts once for each of them. Answers that are
/// [repeated](Answer::is_repeated) count nothing. A rule keeps its counts when its policy is replaced by one with a rule
/// of the same domain and name. Use one for each gate. Counting takes no lock and allocates nothing, but for the first
/// decision under a policy.
///
/// ```
/// use std::sync::Arc;
///
/// use std::time::Duration;
/// use tidegate::{
///     AlgorithmKind, Descriptor, Gate, Policy, Request, RuleCounts, RuleOutcome, RuleSpec, Spec,
/// };
///
/// let spec = Spec::new(AlgorithmKind::FixedWindow, 1, Duration::from_secs(86_400));
/// let counts = Arc::new(RuleCounts::new());
/// let gate = Gate::new(Policy::new(vec![RuleSpec::new("all", spec)])?).with_observer(counts.clone());
///
/// let descriptors = [Descriptor::new(&[])];
/// let request = Request::new("default", &descriptors);
/// assert!(gate.admits(&request) && !gate.admits(&request) && !gate.admits(&request));
///
/// let of_all = counts.of(gate.policy().rules());
/// assert_eq!(of_all[0].decisions(RuleOutcome::Allowed), 1);
/// assert_eq!(of_all[0].decisions(RuleOutcome::Refused), 2);
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Debug)]
pub struct RuleCounts(ByRule<Striped<COUNTS>>);

/// The decisions of one rule by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutcomeCounts([u64; COUNTS]);

impl OutcomeCounts {
    /// The number of decisions with this outcome.
    #[must_use]
    pub const fn decisions(&self, outcome: RuleOutcome) -> u64 {
        self.0[outcome as usize]
    }

    /// The number of decisions for which the rule had no room ([`Matched::is_overflow`](crate::Matched::is_overflow)).
    #[must_use]
    pub const fn overflow(&self) -> u64 {
        self.0[OVERFLOW]
    }

    /// Allowed requests after which the limiter was [near its end](crate::Matched::is_near).
    #[must_use]
    pub const fn near(&self) -> u64 {
        self.0[NEAR]
    }
}

impl Default for RuleCounts {
    fn default() -> Self {
        Self::new()
    }
}

impl RuleCounts {
    /// Creates it without counts.
    #[must_use]
    pub fn new() -> Self {
        Self(ByRule::new(|_| Striped::default()))
    }

    /// Returns the counts of the rules of a policy, in their order.
    #[must_use]
    pub fn of(&self, rules: &[PolicyRule]) -> Vec<OutcomeCounts> {
        self.0.of_all(rules).iter().map(|counters| OutcomeCounts(counters.read())).collect()
    }
}

impl Observer for RuleCounts {
    fn decided(&self, _: &Request<'_>, answer: &Answer<'_>) {
        if answer.is_repeated() {
            return;
        }
        self.0.each(answer, |matched, counters| {
            counters.add(RuleOutcome::of(answer, matched) as usize, 1);
            if matched.is_overflow() {
                counters.add(OVERFLOW, 1);
            }
            if answer.is_allowed() && matched.is_near() {
                counters.add(NEAR, 1);
            }
        });
    }
}
