//! The values of an answer: from its reported rule, or from all enforced rules together.

use std::time::Duration;

#[cfg(feature = "redis")]
use tidegate_core::Outcome;
use tidegate_core::{Limit, Micros, Rejected, Verdict};

use super::Answer;
use crate::step::without_values;

impl Answer<'_> {
    /// True if the request is refused by a rule whose limit is 0, so that no cost fits while the rule is in force.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        !self.allowed
            && self.enforced().any(|matched| {
                !matched.decision().is_allowed() && matched.values().spec().limit == Limit::Units(0)
            })
    }

    /// The number of requests of one unit that the [reported](Answer::reported) rule would admit now; `None` if no
    /// rule limits the request.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        self.reported().map(|matched| matched.decision().remaining)
    }

    /// The shortest wait after which the same cost would fit: zero if allowed, `None` if it never does.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after_micros().map(Duration::from)
    }

    /// Returns [`Answer::retry_after`] in the engine's own unit.
    pub(crate) fn retry_after_micros(&self) -> Option<Micros> {
        let none = (!self.is_no_rule()).then_some(Micros::ZERO);
        self.reported().map_or(none, |matched| matched.decision().retry_after_micros())
    }

    /// The time for which an admitted request must be held: the longest delay of the enforced rules.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.delay_micros().into()
    }

    /// Returns [`Answer::delay`] in the engine's own unit.
    pub(crate) fn delay_micros(&self) -> Micros {
        let longest = self.enforced().map(|matched| matched.decision().delay_micros()).max();
        longest.filter(|_| self.allowed).unwrap_or_default()
    }

    /// Clears the delay, after the work was held for it.
    #[cfg(feature = "redis")]
    pub(crate) fn release(&mut self) {
        for reply in &mut self.replies {
            if let Outcome::Allow { delay } = &mut reply.decision.outcome {
                *delay = Micros::ZERO;
            }
        }
    }

    /// Returns the answer if the request is allowed.
    ///
    /// # Errors
    /// Returns a refusal as an error, for `?`; its text names the [reported](Answer::reported) rule, the limit and the
    /// wait.
    ///
    /// ```
    /// use tidegate::{Gate, Policy, Rejected, RuleSpec};
    ///
    /// # fn serve(gate: &Gate) -> Result<(), Rejected> {
    /// gate.check(&[("user", "ada")]).ok()?;
    /// # Ok(())
    /// # }
    /// let gate = Gate::new(Policy::new(vec![RuleSpec::new("per-user", "1/h").key(["user"])])?);
    /// assert_eq!(serve(&gate), Ok(()));
    /// assert_eq!(serve(&gate).unwrap_err().rule(), Some("per-user"));
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    pub fn ok(self) -> Result<Self, Rejected> {
        if self.allowed {
            return Ok(self);
        }
        let refusing = self.reported();
        let decision =
            refusing.as_ref().map_or(without_values(Verdict::Deny), |one| *one.decision());
        Err(Rejected::new(decision, refusing.map(|one| one.rule().name().to_owned())))
    }

    /// The wait until the limiters of all enforced rules are idle: the longest of their waits. A limit of 0 has no
    /// reset, and counts as idle.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.reset_after_micros().into()
    }

    /// Returns [`Answer::reset_after`] in the engine's own unit.
    pub(crate) fn reset_after_micros(&self) -> Micros {
        let decisions = self.enforced().map(|matched| *matched.decision());
        let resets = decisions.filter(|decision| decision.limit > 0);
        resets.map(|decision| decision.reset_after).max().unwrap_or_default()
    }
}
