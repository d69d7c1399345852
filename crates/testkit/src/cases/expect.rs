//! The expectation of a row, and its comparison with a decision.
//!
//! `row` reads it, and a test reports the columns that differ.

use crate::model::Expected;

/// Yes, no, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Admitted.
    Yes,
    /// Denied now, admitted after a wait.
    No,
    /// Denied for ever.
    Never,
}

impl Answer {
    /// The answer of a decision.
    pub fn of(decision: &Expected) -> Self {
        match (decision.allowed, decision.retry_after_us) {
            (true, _) => Self::Yes,
            (false, Some(_)) => Self::No,
            (false, None) => Self::Never,
        }
    }
}

/// The columns of a row; `None` for `*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    /// Yes, no or never.
    pub answer: Option<Answer>,
    /// Unit-cost requests still admitted.
    pub remaining: Option<u64>,
    /// Least wait; the inner `None` is never.
    pub retry_after_us: Option<Option<u64>>,
    /// Least wait until the limiter is idle.
    pub reset_after_us: Option<u64>,
    /// The time for which an admitted request is held.
    pub delay_us: Option<u64>,
}

impl Expect {
    /// The columns that differ from the decision, as lines of text; empty if all agree.
    pub fn differences(&self, decision: &Expected) -> Vec<String> {
        let columns = [
            differs("answer", self.answer, Answer::of(decision)),
            differs("remaining", self.remaining, decision.remaining),
            differs("retry_after_us", self.retry_after_us, decision.retry_after_us),
            differs("reset_after_us", self.reset_after_us, decision.reset_after_us),
            differs("delay_us", self.delay_us, decision.delay_us),
        ];
        columns.into_iter().flatten().collect()
    }
}

fn differs<T: PartialEq + std::fmt::Debug>(
    column: &str,
    want: Option<T>,
    got: T,
) -> Option<String> {
    want.filter(|want| *want != got).map(|want| format!("{column}: want {want:?}, got {got:?}"))
}

#[cfg(test)]
mod tests {
    use super::{Answer, Expect};
    use crate::model::{AlgorithmKind, Model, Policy};

    #[test]
    fn a_star_matches_anything_and_a_value_only_itself() {
        let decision = Model::new(Policy::new(AlgorithmKind::SlidingLog, 2, 1_000)).step(5, 1);
        assert!(Expect::default().differences(&decision).is_empty());
        let wrong = Expect {
            answer: Some(Answer::Never),
            remaining: Some(0),
            retry_after_us: Some(None),
            reset_after_us: Some(999),
            delay_us: Some(1),
        };
        assert_eq!(wrong.differences(&decision).len(), 5);
    }
}
