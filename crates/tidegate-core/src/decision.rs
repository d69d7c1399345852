//! The decision of a limiter: yes, no, or never, its values, and a refusal as an error.
//!
//! A step makes it from the state that it leaves (`Held::report`). Most verbs of the engine return it, and every
//! protocol writes it.

use alloc::string::String;
use core::fmt;
use core::time::Duration;

use crate::time::Micros;

/// The bare answer to one request, without the values of a [`Decision`].
///
/// ```
/// # use tidegate_core as tidegate;
/// use tidegate::Verdict;
///
/// fn status(verdict: Verdict) -> u16 {
///     match verdict {
///         Verdict::Allow => 200,
///         Verdict::Deny => 429,
///         Verdict::Never => 422,
///     }
/// }
/// assert_eq!(status(Verdict::Deny), 429);
/// ```
#[must_use = "a request goes on even if it was refused, unless the verdict is looked at"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The request may go on; its cost has been (or may be) taken.
    Allow,
    /// The request is refused now; the same cost fits at some later time.
    Deny,
    /// The cost can never fit, because it is larger than an idle limiter admits.
    Never,
}

impl Verdict {
    /// True for [`Verdict::Allow`].
    #[must_use]
    pub const fn is_allowed(self) -> bool {
        matches!(self, Self::Allow)
    }
}

/// A verdict with its delay or wait, in the engine's own unit; callers ask the [`Decision`].
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The request may go on, after being held for `delay` (zero except for a shaping queue).
    Allow {
        /// The time for which the admitted request must be held before it runs.
        delay: Micros,
    },
    /// The request is refused now.
    Deny {
        /// Least wait after which the same cost would be admitted if nothing else arrived.
        retry_after: Micros,
    },
    /// The cost can never fit.
    Never,
}

/// The decision about one request, with its values as of that instant.
///
/// ```
/// use std::time::Duration;
/// # use tidegate_core as tidegate;
/// use tidegate::{Decision, Verdict};
///
/// /// The answer to a client.
/// fn tell(decision: &Decision) -> String {
///     match (decision.verdict(), decision.retry_after()) {
///         (Verdict::Allow, _) => format!("{} of {} left", decision.remaining, decision.limit),
///         (_, Some(wait)) => format!("come back in {wait:?}"),
///         (_, None) => String::from("never"),
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    /// Says if the request may go on, with its delay or wait.
    #[doc(hidden)]
    pub outcome: Outcome,
    /// The limit N; the capacity of a bucket; capacity + 1 for a queue; `u64::MAX` if the rule is unlimited.
    pub limit: u64,
    /// Unit-cost requests that would still be admitted at this instant, after this decision; `u64::MAX` if the rule
    /// is unlimited.
    pub remaining: u64,
    /// Least wait after which the limiter is idle if nothing else arrived.
    #[doc(hidden)]
    pub reset_after: Micros,
}

impl Decision {
    /// The decision of a limiter whose rule is unlimited. No other has this limit.
    #[doc(hidden)]
    pub const UNLIMITED: Self = Self {
        outcome: Outcome::Allow { delay: Micros::ZERO },
        limit: u64::MAX,
        remaining: u64::MAX,
        reset_after: Micros::ZERO,
    };

    /// The decision that these values describe, as another process returned them: [`verdict`](Self::verdict), and for an
    /// admitted request its [`delay`](Self::delay), for a denied request the wait
    /// [`retry_after`](Self::retry_after). A request that never fits has no wait: `wait` is not read.
    ///
    /// ```
    /// use std::time::Duration;
    /// # use tidegate_core as tidegate;
    /// use tidegate::{Decision, Verdict};
    ///
    /// let (wait, reset_after) = (Duration::from_secs(3), Duration::from_secs(60));
    /// let denied = Decision::of_values(Verdict::Deny, wait, 10, 0, reset_after);
    /// assert_eq!((denied.retry_after(), denied.reset_after()), (Some(wait), reset_after));
    /// ```
    #[must_use]
    pub fn of_values(
        verdict: Verdict,
        wait: Duration,
        limit: u64,
        remaining: u64,
        reset_after: Duration,
    ) -> Self {
        let outcome = match verdict {
            Verdict::Allow => Outcome::Allow { delay: wait.into() },
            Verdict::Deny => Outcome::Deny { retry_after: wait.into() },
            Verdict::Never => Outcome::Never,
        };
        Self { outcome, limit, remaining, reset_after: reset_after.into() }
    }

    /// True if the rule is unlimited: it admits everything and counts nothing.
    #[must_use]
    pub const fn is_unlimited(&self) -> bool {
        self.limit == Self::UNLIMITED.limit
    }

    /// The bare answer.
    pub const fn verdict(&self) -> Verdict {
        match self.outcome {
            Outcome::Allow { .. } => Verdict::Allow,
            Outcome::Deny { .. } => Verdict::Deny,
            Outcome::Never => Verdict::Never,
        }
    }

    /// True if the request may go on.
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        self.verdict().is_allowed()
    }

    /// Returns the decision if the request may go on.
    ///
    /// ```
    /// #![deny(unused_must_use)]
    /// # use tidegate_core as tidegate;
    /// use tidegate::{Decision, Rejected};
    ///
    /// fn upload(decision: Decision) -> Result<(), Rejected> {
    ///     decision.ok()?;
    ///     // The work, which only an admitted request reaches.
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// Returns a refusal as an error, for `?`; its text names the limit and the wait.
    pub const fn ok(self) -> Result<Self, Rejected> {
        if self.is_allowed() { Ok(self) } else { Err(Rejected::new(self, None)) }
    }

    /// The wait until the same cost fits: zero if allowed, `None` if it never fits.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.retry_after_micros() {
            Some(wait) => Some(wait.as_duration()),
            None => None,
        }
    }

    /// The time for which an admitted request must be held; zero if it was not admitted.
    #[must_use]
    pub const fn delay(&self) -> Duration {
        self.delay_micros().as_duration()
    }

    /// The shortest wait after which the limiter is idle if nothing else arrives.
    #[must_use]
    pub const fn reset_after(&self) -> Duration {
        self.reset_after.as_duration()
    }

    /// Returns [`Decision::retry_after`] in the engine's own unit.
    #[doc(hidden)]
    #[must_use]
    pub const fn retry_after_micros(&self) -> Option<Micros> {
        match self.outcome {
            Outcome::Allow { .. } => Some(Micros::ZERO),
            Outcome::Deny { retry_after } => Some(retry_after),
            Outcome::Never => None,
        }
    }

    /// Returns [`Decision::delay`] in the engine's own unit.
    #[doc(hidden)]
    #[must_use]
    pub const fn delay_micros(&self) -> Micros {
        match self.outcome {
            Outcome::Allow { delay } => delay,
            Outcome::Deny { .. } | Outcome::Never => Micros::ZERO,
        }
    }
}

/// A request that was not admitted: the error of [`Decision::ok`].
///
/// ```
/// # use tidegate_core as tidegate;
/// use tidegate::{Decision, Rejected};
///
/// /// Passes a refusal on, as any other error.
/// fn upload(decision: Decision) -> Result<&'static str, Rejected> {
///     decision.ok()?;
///     Ok("stored")
/// }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Rejected {
    decision: Decision,
    rule: Option<String>,
}

impl Rejected {
    /// Creates the error of a decision of this rule.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(decision: Decision, rule: Option<String>) -> Self {
        Self { decision, rule }
    }

    /// The limit N; the capacity of a bucket; capacity + 1 for a queue.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.decision.limit
    }

    /// The wait until the same cost fits; `None` if it never fits.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        self.decision.retry_after()
    }

    /// The name of the rule, if a rule of a policy refused.
    #[must_use]
    pub fn rule(&self) -> Option<&str> {
        self.rule.as_deref()
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rule {
            Some(rule) => write!(f, "rule `{rule}` does not admit the request")?,
            None => f.write_str("the limiter does not admit the request")?,
        }
        match self.retry_after() {
            Some(wait) => {
                write!(f, ": its limit is {}, and the same cost fits after {wait:?}", self.limit())
            }
            None => write!(f, ": its limit is {}, and this cost never fits", self.limit()),
        }
    }
}

debug_as_display!(Rejected);

impl core::error::Error for Rejected {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;

    #[test]
    fn a_refusal_says_who_refuses_the_limit_and_the_wait() {
        let decision =
            |outcome| Decision { outcome, limit: 5, remaining: 0, reset_after: Micros::ZERO };
        let admitted = decision(Outcome::Allow { delay: Micros::ZERO });
        assert_eq!(admitted.ok(), Ok(admitted));
        for (us, wait) in [(250_000, "250ms"), (999_897, "999.897ms"), (90_000_000, "90s")] {
            let retry_after = Micros::from_micros(us);
            let refused = decision(Outcome::Deny { retry_after }).ok();
            let text = "the limiter does not admit the request: its limit is 5, and the same cost fits after";
            let text = format!("{text} {wait}");
            assert_eq!(refused.map_err(|error| error.to_string()), Err(text));
        }
        let never = Rejected::new(decision(Outcome::Never), Some("per-user".to_string()));
        let text =
            "rule `per-user` does not admit the request: its limit is 5, and this cost never fits";
        assert_eq!((never.to_string().as_str(), never.retry_after()), (text, None));
    }
}
