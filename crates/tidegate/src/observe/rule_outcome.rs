//! The outcome of a decision for one rule that took part in it: a word of a closed list, for metrics and
//! statistics.

use crate::answer::{Answer, Matched};

/// The outcome of a decision for one of the rules that matched the request.
///
/// ```
/// use tidegate::{Gate, Policy, RuleOutcome, RuleSpec, Spec};
///
/// let gate = Gate::new(Policy::new(vec![RuleSpec::new("closed", Spec::per_second(0))])?);
/// let answer = gate.check(&[]);
/// let outcomes: Vec<_> = answer.matched().iter().map(|one| RuleOutcome::of(&answer, one).name()).collect();
/// assert_eq!(outcomes, ["never"]);
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleOutcome {
    /// The request is allowed, and the rule took its cost.
    Allowed,
    /// The rule refused the request for now.
    Refused,
    /// The rule refused the request, whose cost can never fit.
    Never,
    /// The rule refused the request because the store did not decide.
    Unavailable,
    /// The rule would have admitted the request, which another rule refused; nothing was taken.
    RefusedByOther,
    /// The request reported usage, which the rule took regardless of the limit.
    Reported,
    /// The rule is in shadow mode, and would have admitted the request.
    ShadowAllowed,
    /// The rule is in shadow mode, and would have refused the request.
    ShadowRefused,
}

impl RuleOutcome {
    /// All outcomes.
    pub const ALL: [Self; 8] = [
        Self::Allowed,
        Self::Refused,
        Self::Never,
        Self::Unavailable,
        Self::RefusedByOther,
        Self::Reported,
        Self::ShadowAllowed,
        Self::ShadowRefused,
    ];

    /// Returns the outcome of `answer` for one of its rules.
    #[must_use]
    pub fn of(answer: &Answer<'_>, matched: &Matched<'_>) -> Self {
        let decision = matched.decision();
        match (matched.is_enforced(), decision.is_allowed()) {
            // Regardless of the decision, which is about one unit more.
            _ if matched.is_report() => Self::Reported,
            (false, true) => Self::ShadowAllowed,
            (false, false) => Self::ShadowRefused,
            (true, true) if answer.is_allowed() => Self::Allowed,
            (true, true) => Self::RefusedByOther,
            (true, false) if answer.is_unavailable() => Self::Unavailable,
            (true, false) if decision.retry_after_micros().is_none() => Self::Never,
            (true, false) => Self::Refused,
        }
    }

    /// Its name in metrics, such as `refused_by_other`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Refused => "refused",
            Self::Never => "never",
            Self::Unavailable => "unavailable",
            Self::RefusedByOther => "refused_by_other",
            Self::Reported => "reported",
            Self::ShadowAllowed => "shadow_allowed",
            Self::ShadowRefused => "shadow_refused",
        }
    }
}
