//! The decisions of one rule by outcome.

use super::RuleOutcome;
use crate::answer::{Answer, Matched};
use crate::stats::Striped;

const OUTCOMES: usize = RuleOutcome::ALL.len();
/// The number of the counter of decisions without room; the counters of the outcomes come before it.
const OVERFLOW: usize = OUTCOMES;
const NEAR: usize = OUTCOMES + 1;
const COUNTS: usize = OUTCOMES + 2;

/// The decisions of one rule by outcome.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::{Gate, Policy, RuleOutcome, RuleSpec, RuleStatistics, Setup};
///
/// let statistics = Arc::new(RuleStatistics::new());
/// let policy = Policy::new(vec![RuleSpec::new("all", "2/h").near("0.5".parse()?)])?;
/// let gate = Gate::new(Setup::new(policy).observer(statistics.clone()));
/// while gate.admits(&[]) {}
///
/// let counts = statistics.of(gate.policy().rules())[0].counts();
/// assert_eq!(counts.decisions(RuleOutcome::Allowed), 2);
/// assert_eq!(counts.decisions(RuleOutcome::Refused), 1);
/// assert_eq!((counts.near(), counts.overflow()), (2, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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

/// The counters of one rule.
#[derive(Debug, Default)]
pub(super) struct Counters(Striped<COUNTS>);

impl Counters {
    /// Counts a rule's part in an answer.
    #[inline]
    pub(super) fn count(&self, answer: &Answer<'_>, matched: &Matched<'_>) {
        self.0.add(RuleOutcome::of(answer, matched) as usize, 1);
        if matched.is_overflow() {
            self.0.add(OVERFLOW, 1);
        }
        if answer.is_allowed() && matched.is_near() {
            self.0.add(NEAR, 1);
        }
    }

    pub(super) fn read(&self) -> OutcomeCounts {
        OutcomeCounts(self.0.read())
    }
}
