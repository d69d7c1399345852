//! Charging by outcome: a cost that is taken first, and given back if the work turns out to be free.

#![expect(
    clippy::result_large_err,
    reason = "a refusal is an answer as any other, and needs no memory"
)]

use super::Gate;
use crate::answer::Answer;
use crate::clock::Clock;
use crate::frontend::{Charge, Taken};
use crate::request::Request;

impl<C: Clock> Gate<C> {
    /// Decides a request like [`Gate::check`], and holds its cost until it is known whether it counts.
    ///
    /// The cost is taken before the work starts, so that no more work can run at the same time than the limit still
    /// admits.
    ///
    /// A request that may wait is held by [`Charge::of`], with the answer of [`Gate::acquire`].
    ///
    /// For a limiter by itself use [`Limiter::reserve`](crate::Limiter::reserve), and settle it with 0 if nothing is
    /// to count.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Gate, Policy, RuleSpec, Spec};
    ///
    /// // Only failed logins count.
    /// let spec = Spec::new(AlgorithmKind::SlidingLog, 1, Duration::from_secs(900));
    /// let gate = Gate::new(Policy::new(vec![RuleSpec::new("logins", spec).key(["user"])])?);
    /// let login = |is_right: bool| match gate.hold(&[("user", "ada")]) {
    ///     Ok(charge) if is_right => {
    ///         charge.release();
    ///         "welcome"
    ///     }
    ///     Ok(charge) => {
    ///         charge.keep();
    ///         "wrong password"
    ///     }
    ///     Err(_) => "too many failed logins",
    /// };
    /// let told = [true, true, false, true].map(login);
    /// assert_eq!(told, ["welcome", "welcome", "wrong password", "too many failed logins"]);
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    ///
    /// # Errors
    /// Returns the answer that refuses; nothing is taken.
    pub fn hold<'a>(
        &'a self,
        request: impl Into<Request<'a>>,
    ) -> Result<Charge<'a, Self>, Answer<'a>> {
        let request = request.into().reserving();
        Charge::of(self, request, self.check(request))
    }
}

impl<C: Clock> Charge<'_, Gate<C>> {
    /// Gives the whole cost back, in one atomic step, down to nothing used at most.
    pub fn release(self) {
        self.settle(0);
    }

    /// Makes the permits of the charge last their lives from now: see [`Gate::renew`].
    #[must_use]
    pub fn renew(&self) -> bool {
        self.gate.renew(self.request, &Taken::from(&self.answer))
    }

    /// Settles the charge for the actual cost of the work, for each descriptor: see [`Gate::settle`].
    pub fn settle(self, actual: u64) {
        let _ = self.gate.settle(self.request, &Taken::from(&self.answer), &[actual]);
    }
}
