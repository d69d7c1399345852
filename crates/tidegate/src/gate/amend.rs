//! Changing the policy of a gate while it decides.

use super::Gate;
use crate::clock::Clock;
use crate::rules::{AmendError, Amendment, Policy, PolicyErrors};

impl<C: Clock> Gate<C> {
    /// Replaces the policy at one instant: no decision mixes both policies, none is lost between them, and a request
    /// that several rules decide is charged to all of them or to none.
    ///
    /// Rules are matched by domain and name. Usage carries over, so no change is a credit or a reset:
    ///
    /// - A rule that is **unchanged** keeps its limiters.
    /// - A rule with **other values** (its [`Spec`](crate::Spec), its overrides) first settles time under the old
    ///   values; then a higher limit adds the difference, and a lower one may leave debt: see
    ///   [`Limiter::amend`](crate::Limiter::amend). If overrides are added, removed or reordered, each limiter of the rule
    ///   gets its new values when it is next asked, and stores them next to its state from then on.
    /// - Other fields (mode, caps, matching, waiting) apply from now on. A rule with another **key** gets new limiters,
    ///   which start fresh, and forgets the answers remembered for its old limiters.
    /// - A rule that is **removed** stops deciding. Its limiters are kept until all of them are idle, so that adding
    ///   the rule back gives no caller a fresh limit.
    /// - A rule that is **added** starts fresh.
    ///
    /// Plans ([`Setup::plans`](crate::Setup::plans)), bans, queues and answers remembered under an id belong to a rule by its domain
    /// and name, and stay. A request that waits for a limiter of a changed or removed rule asks again immediately; a
    /// rule that was added since refuses it if its limiter has no units for it, because the request is not in that
    /// limiter's queue.
    ///
    /// The gate keeps deciding during the change. Limiters are moved one at a time, when they are next asked or by this
    /// call, which returns when all are moved: its duration grows with the number of limiters of changed rules. Changes
    /// from several threads are applied one after another. They count at the time of the gate's clock, so a gate that
    /// decides at the times of a trace has a [`ManualClock`](crate::ManualClock) that is set to them.
    ///
    /// An [`Answer`](crate::Answer) keeps the policy that decided.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Descriptor, Gate, Policy, Request, RuleSpec, Spec};
    ///
    /// let per_day = |limit| Spec::new(AlgorithmKind::SlidingLog, limit, Duration::from_secs(86_400));
    /// let per_user = |limit| RuleSpec::new("per-user", per_day(limit)).key(["user"]);
    /// let all = RuleSpec::new("all", per_day(1_000));
    /// let gate = Gate::new(Policy::new(vec![per_user(100)])?);
    /// let entries = [("user", "ada")];
    /// let descriptors = [Descriptor::new(&entries).cost(80)];
    /// let request = Request::new("default", &descriptors);
    /// assert!(gate.check(&request).is_allowed());
    ///
    /// gate.replace(Policy::new(vec![all.clone(), per_user(120)])?)?;
    /// assert_eq!(gate.peek(&request).remaining(), Some(40));
    /// gate.replace(Policy::new(vec![all.clone()])?)?;
    /// assert_eq!(gate.peek(&request).remaining(), Some(1_000));
    /// gate.replace(Policy::new(vec![all, per_user(100)])?)?;
    /// assert_eq!(gate.peek(&request).remaining(), Some(20)); // 80 are used still
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the existing limiters would not fit in the memory that a rule allows. The old policy then
    /// stays in force, and nothing is lost.
    pub fn replace(&self, policy: Policy) -> Result<(), PolicyErrors> {
        self.change(|_| Ok(policy))
    }

    /// Replaces the values of the named rule, or of one of its overrides ([`Amendment`]), with any algorithm, at one
    /// instant: no decision mixes old and new values, none is lost between them, and a request that several rules decide is charged to all of them or to
    /// none.
    ///
    /// This is [`Gate::replace`] with a policy in which the rule has these values. All its other fields stay: what it
    /// matches, its mode, its caps on keys, how long it remembers answers. Its overrides stay too, and still change
    /// the same fields of the values, now those of the new spec. Limiters
    /// under an unlimited plan ([`Setup::plans`](crate::Setup::plans)) stay as they are.
    ///
    /// Each answer reports the values that decided ([`Matched::values`](crate::Matched::values)). A request that is
    /// repeated under its id gets the remembered answer only while the values are still the same.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Descriptor, Gate, Limit, Policy, Request, RuleSpec, Spec};
    ///
    /// let per_day = |limit| Spec::new(AlgorithmKind::SlidingLog, limit, Duration::from_secs(86_400));
    /// let rules = vec![RuleSpec::new("per-user", per_day(100)).key(["user"])];
    /// let gate = Gate::new(Policy::new(rules)?);
    /// let entries = [("user", "ada")];
    /// let descriptors = [Descriptor::new(&entries).cost(80)];
    /// let request = Request::new("default", &descriptors);
    /// assert!(gate.check(&request).is_allowed());
    ///
    /// gate.amend("default", "per-user", per_day(170))?;
    /// assert_eq!(gate.peek(&request).remaining(), Some(90));
    /// let answer = gate.check(&request);
    /// assert_eq!(answer.matched()[0].values().spec().limit, Limit::Units(170));
    /// gate.amend("default", "per-user", per_day(100))?;
    /// assert_eq!(gate.peek(&request).remaining(), Some(0)); // 160 are used
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the policy has no such rule or the rule no such override, if the values are invalid, or if the existing limiters would
    /// not fit in the memory that they allow. The old values then stay in force, and nothing is lost.
    pub fn amend(
        &self,
        domain: &str,
        rule: &str,
        values: impl Into<Amendment>,
    ) -> Result<(), AmendError> {
        self.change(|policy| policy.with_values((domain, rule), values.into()))
    }

    /// Puts in force the policy that `next` makes of the current one.
    fn change<E: From<PolicyErrors>>(
        &self,
        next: impl FnOnce(&Policy) -> Result<Policy, E>,
    ) -> Result<(), E> {
        self.memory.change(
            || self.clock.now(),
            next,
            |changed| {
                self.queues.wake_those(|queue| changed.iter().any(|rule| queue.is_of(*rule)));
            },
        )
    }
}
