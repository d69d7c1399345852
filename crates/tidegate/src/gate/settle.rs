//! A cost that is settled after the decision: units come back or are taken later, permits last longer, limiters are reset.

#![expect(
    clippy::result_large_err,
    reason = "a refusal is an answer as any other, and needs no memory"
)]

use super::Gate;
use super::step::Stepped;
use crate::answer::Answer;
use crate::clock::Clock;
use crate::frontend::{Charge, Settling, Taken};
use crate::inline_list::InlineList;
use crate::request::Request;
use crate::step::Step;

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

    /// Gives the request's cost back to each of its limiters, down to nothing used at most. The answer reports the
    /// limiters' values after that, and is never a refusal.
    ///
    /// ```
    /// use tidegate::{Gate, Policy, RuleSpec};
    ///
    /// let gate = Gate::new(Policy::new(vec![RuleSpec::new("per-user", "2/h").key(["user"])])?);
    /// let ada = ("default", &[("user", "ada")]);
    /// assert!(gate.admits(ada) && gate.admits(ada));
    /// assert_eq!(gate.refund(ada).remaining(), Some(1));
    /// assert!(gate.admits(ada));
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    pub fn refund<'r>(&self, request: impl Into<Request<'r>>) -> Answer<'_> {
        let request = &request.into();
        let (generation, (asks, done)) = self.memory.ask(|generation| {
            let asks = self.asks(generation, request);
            let done = self.memory.step(generation, &asks, &self.clock, Step::Refund)?;
            Ok((asks, done))
        });
        self.wake(&asks);
        Stepped { generation, asks, done }.answer()
    }

    /// Settles an admitted request whose cost turned out to be `actual`, for each of its descriptors in their order; the
    /// last number also holds for the rest. In one atomic step, every limiter of the request gets the surplus back, down to
    /// nothing used at most, or is charged the shortfall, even into debt. The answer reports the limiters' values after
    /// that, and is never a refusal.
    ///
    /// [`Taken`] says which limiters took the cost, and when: only these are settled, even if the rules have changed
    /// since. A limiter of a rule that was added, or that the request matches no more, is left alone. With `None` it is
    /// all limiters that the request matches now.
    ///
    /// ```
    /// use tidegate::{Descriptor, Gate, Policy, RuleSpec, Taken};
    ///
    /// let gate = Gate::new(Policy::new(vec![RuleSpec::new("tokens", "100/h").key(["user"])])?);
    /// let ada = [("user", "ada")];
    /// let request = Descriptor::new(&ada).cost(60);
    /// let taken = Taken::from(&gate.check(request));
    /// // The work turned out to need less.
    /// assert_eq!(gate.settle(request, &taken, &[25]).remaining(), Some(75));
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    pub fn settle<'r, 't>(
        &self,
        request: impl Into<Request<'r>>,
        taken: impl Into<Option<&'t Taken>>,
        actual: &[u64],
    ) -> Answer<'_> {
        let request = &request.into();
        let taken = taken.into();
        let (generation, (settling, done)) = self.memory.ask(|generation| {
            let settling = Settling::of(&generation.policy, request, taken, actual, |request| {
                let mut asks = InlineList::new();
                self.resolve(generation, request, |_| true, &mut asks);
                asks
            });
            let Settling { asks, actual, .. } = &settling;
            let done = self.memory.settle(generation, asks, actual, &self.clock)?;
            Ok((settling, done))
        });
        let Settling { asks, unreached, .. } = settling;
        // Also after a settlement that took more: the waiter finds out.
        self.wake(&asks);
        Answer { unreached, ..Stepped { generation, asks, done }.answer() }
    }

    /// Makes each permit that a request took, of a rule of `concurrency`, last its life from now, in one atomic step.
    /// Returns whether all of them were still out: if not, the work has to stop, because others may have its place.
    ///
    /// Units of other rules need no renewal. A permit whose rule was removed, or that keys without room share, counts
    /// as out no more.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Gate, Policy, RuleSpec, Spec, Taken};
    ///
    /// let exports = Spec::new(AlgorithmKind::Concurrency, 5, Duration::from_secs(30));
    /// let gate = Gate::new(Policy::new(vec![RuleSpec::new("exports", exports).key(["tenant"])])?);
    /// let request = ("default", &[("tenant", "acme")]);
    /// let taken = Taken::from(&gate.check(request));
    /// assert!(gate.renew(request, &taken));
    /// let _ = gate.settle(request, &taken, &[0]);
    /// assert!(!gate.renew(request, &taken));
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    #[must_use]
    pub fn renew<'r>(&self, request: impl Into<Request<'r>>, taken: &Taken) -> bool {
        let request = &request.into();
        let (_, are_out) = self.memory.ask(|generation| {
            let asks = taken.permits_of(self.all_asks(generation, request));
            asks.map_or(Ok(false), |asks| {
                Ok(self.memory.renew(generation, &asks, &self.clock)?.allowed)
            })
        });
        are_out
    }

    /// Resets every limiter of the request, in one atomic step, and lifts the bans of their keys; returns the number
    /// of limiters. Nothing counts as used then: a bucket that begins with fewer tokens
    /// ([`Spec::initial`](crate::Spec::initial)) is full.
    ///
    /// ```
    /// use tidegate::{Gate, Policy, RuleSpec};
    ///
    /// let gate = Gate::new(Policy::new(vec![RuleSpec::new("per-user", "2/h").key(["user"])])?);
    /// let ada = ("default", &[("user", "ada")]);
    /// assert!(gate.admits(ada) && gate.admits(ada) && !gate.admits(ada));
    /// assert_eq!(gate.reset(ada), 1);
    /// assert_eq!(gate.peek(ada).remaining(), Some(2));
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    pub fn reset<'r>(&self, request: impl Into<Request<'r>>) -> usize {
        let request = &request.into();
        let (_, asks) = self.memory.ask(|generation| {
            let asks = self.all_asks(generation, request);
            self.front.bans.lift(&asks, |ask| ask.fingerprint);
            self.memory.reset(generation, &asks, &self.clock)?;
            Ok(asks)
        });
        self.wake(&asks);
        asks.len()
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
