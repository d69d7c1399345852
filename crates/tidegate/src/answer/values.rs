//! The values of an answer, from its reported rule or from all enforced rules together; the answer where no rule matches;
//! and the limiters that a settlement did not find.

use std::time::Duration;

#[cfg(feature = "redis")]
use tidegate_core::Outcome;
use tidegate_core::{Decision, Limit, Micros, Rejected, Settled, Verdict};

use super::Answer;
use crate::request::Request;
#[cfg(feature = "redis")]
use crate::rules::PolicyInternals as _;
use crate::step::{DescriptorSet, Standing, without_values};

impl Answer<'_> {
    /// True if the request is refused by a rule whose limit is 0, so that no cost fits while the rule is in force.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        !self.allowed
            && self.enforced().any(|matched| {
                let Decision { limit, .. } = *matched.decision();
                // The values are looked up only for a limit of 0.
                limit == 0
                    && !matched.decision().is_allowed()
                    && matched.values().spec().limit == Limit::Units(0)
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
        if let Some(matched) = self.reported() {
            return matched.decision().retry_after_micros();
        }
        // A request that no rule matches is refused for good; without limits no wait is needed.
        if self.is_no_rule() { None } else { Some(Micros::ZERO) }
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
            if let Outcome::Allow { delay } = &mut reply.decided.decision.outcome {
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

impl Answer<'_> {
    /// Refuses the request if it has no limiter because no rule matches it, and the policy refuses such requests.
    #[cfg(feature = "redis")]
    pub(crate) fn refused_without_rule(mut self, request: &Request<'_>) -> Self {
        let policy = self.rules.policy().filter(|_| self.replies.is_empty());
        if policy.is_some_and(|policy| policy.refuses_without_rule(request)) {
            self.allowed = false;
            // No limiter decided, so it does not matter if the store was away.
            self.standing = Standing::Exact;
        }
        self
    }

    /// True if the request is refused because no rule matches it ([`OnNoRule`](crate::OnNoRule)).
    #[must_use]
    pub fn is_no_rule(&self) -> bool {
        !self.allowed && self.replies.is_empty() && self.standing == Standing::Exact
    }

    /// Returns whether no rule of the policy that decided matches the request, which was admitted or
    /// [refused](Answer::is_no_rule) for that.
    #[must_use]
    pub fn matches_nothing(&self, request: &Request<'_>) -> bool {
        self.replies.is_empty()
            && self.rules.policy().is_some_and(|policy| !policy.matches(request))
    }
}

/// A limiter that took units of a request and that a settlement did not find, because its rule is gone, is off, or has no
/// limit for the key any more: nothing came back to it, and nothing more was taken from it.
///
/// ```
/// use tidegate::{Gate, Policy, RuleSpec, Taken};
///
/// let gate = Gate::new(Policy::new(vec![RuleSpec::new("all", "100/h")])?);
/// let request = ("default", &[("user", "ada")]);
/// let taken = Taken::from(&gate.check(request));
/// gate.replace(Policy::new(vec![RuleSpec::new("other", "100/h")])?)?;
/// let settled = gate.settle(request, &taken, &[0]);
/// let late: Vec<_> = settled.unreached().iter().map(|one| one.settled().late_units()).collect();
/// assert_eq!(late, [1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Unreached {
    pub(crate) by: DescriptorSet,
    pub(crate) settled: Settled,
}

impl Unreached {
    /// The units that had to come back, or the units of the actual cost that were not taken.
    #[must_use]
    pub const fn settled(&self) -> Settled {
        self.settled
    }

    /// Returns whether the descriptor with this number has this limiter: see
    /// [`Matched::is_matched_by`](crate::Matched::is_matched_by).
    #[must_use]
    pub const fn is_matched_by(&self, descriptor: usize) -> bool {
        self.by.has(descriptor)
    }
}

impl Answer<'_> {
    /// The limiters that a settlement did not find, of rules that could refuse the request; empty for all other answers.
    #[must_use]
    pub fn unreached(&self) -> &[Unreached] {
        self.unreached.as_deref().unwrap_or_default()
    }
}
