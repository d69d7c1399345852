//! Changing the policy of a gate while it decides.

use tidegate_core::{Spec, Timestamp};

use super::Gate;
use crate::clock::Clock;
use crate::rules::{
    AmendError, NoSuchRule, OverrideSpec, Policy, PolicyErrors, RuleSpec, override_values,
    own_values,
};

impl<C: Clock> Gate<C> {
    /// Replaces the policy at one instant: no decision mixes both policies, none is lost between them, and a request
    /// that several rules decide is charged to all of them or to none.
    ///
    /// Rules are matched by domain and name. What was used stays used, so no change is a credit or a reset:
    ///
    /// - A rule that is **unchanged** keeps its limiters.
    /// - A rule with **other values** ([`RuleSpec::spec`], its overrides) first settles time under the old ones; then
    ///   a higher limit adds the difference, and a lower one may leave debt: see
    ///   [`Limiter::amend`](crate::Limiter::amend). Only limiters of a rule that was unlimited start fresh. If
    ///   overrides are added, removed or reordered, each limiter of the rule gets its new values when it is next
    ///   asked, and stores them beside its state from then on.
    /// - Other fields (the mode, caps, what matches, whether a request may wait) apply from now on. A rule with
    ///   another **key** has other limiters, which start fresh, and forgets the answers remembered for the old ones.
    /// - A rule that is **removed** stops deciding. Its limiters are kept until all of them are idle, so that adding
    ///   the rule back gives nobody a fresh limit.
    /// - A rule that is **added** starts fresh.
    ///
    /// Plans ([`Gate::with_plans`]), bans, queues and answers remembered under an id belong to a rule by its domain
    /// and name, and stay. A request that waits for a limiter of a changed or removed rule asks again immediately; a
    /// rule that was added since refuses it if its limiter has no units for it, because the request is not in that
    /// limiter's queue.
    ///
    /// The gate goes on deciding meanwhile. Limiters are moved one by one, when they are next asked or by this call,
    /// which returns when all are moved: its duration grows with the number of limiters of changed rules. Changes
    /// from several threads are applied one after another.
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
    /// assert_eq!(gate.available(&request), 40);
    /// gate.replace(Policy::new(vec![all.clone()])?)?;
    /// assert_eq!(gate.available(&request), 1_000);
    /// gate.replace(Policy::new(vec![all, per_user(100)])?)?;
    /// assert_eq!(gate.available(&request), 20); // 80 are used still
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the existing limiters would not fit in the memory that a rule allows. The old policy then
    /// stays in force, and nothing is lost.
    pub fn replace(&self, policy: Policy) -> Result<(), PolicyErrors> {
        self.replace_by(policy, || self.clock.now())
    }

    fn replace_by(&self, policy: Policy, at: impl Fn() -> Timestamp) -> Result<(), PolicyErrors> {
        self.change(at, |before| Ok(policy.known_as(before)))
    }

    /// Replaces the values of the named rule, with any algorithm, at one instant: no decision mixes old and new
    /// values, none is lost between them, and a request that several rules decide is charged to all of them or to
    /// none.
    ///
    /// This is [`Gate::replace`] with a policy in which the rule has these values. All its other fields stay: what it
    /// matches, its mode, its caps on keys, how long it remembers answers. Its overrides stay too, and still change
    /// the same fields of the values, now those of `spec`; [`Gate::amend_override`] changes an override. Limiters
    /// under an unlimited plan ([`Gate::with_plans`]) stay as they are.
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
    /// assert_eq!(gate.available(&request), 90);
    /// let answer = gate.check(&request);
    /// assert_eq!(answer.matched()[0].values().spec().limit, Limit::Units(170));
    /// gate.amend("default", "per-user", per_day(100))?;
    /// assert_eq!(gate.available(&request), 0); // 160 are used
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the policy has no such rule, if the values are invalid, or if the existing limiters would
    /// not fit in the memory that they allow. The old values then stay in force, and nothing is lost.
    pub fn amend(&self, domain: &str, rule: &str, spec: Spec) -> Result<(), AmendError> {
        self.amend_by((domain, rule), own_values(spec), || self.clock.now())
    }

    /// Replaces the values of one override as [`Gate::amend`] does those of the rule. The override is the one with
    /// the same entries, in any order. Fields that `other` leaves out are the rule's own. [`Gate::replace`] adds
    /// overrides and removes them.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{
    ///     AlgorithmKind, Descriptor, Gate, Limit, OverrideSpec, Policy, Request, RuleSpec, Spec,
    /// };
    ///
    /// let vip = |limit| {
    ///     let mut vip = OverrideSpec::new("user", "vip");
    ///     vip.limit = Some(Limit::Units(limit));
    ///     vip
    /// };
    /// let spec = Spec::new(AlgorithmKind::SlidingLog, 10, Duration::from_secs(3_600));
    /// let rule = RuleSpec::new("per-user", spec).key(["user"]).with_override(vip(50));
    /// let gate = Gate::new(Policy::new(vec![rule])?);
    /// gate.amend_override("default", "per-user", vip(70))?;
    /// let available = |user| {
    ///     let entries = [("user", user)];
    ///     gate.available(&Request::new("default", &[Descriptor::new(&entries)]))
    /// };
    /// assert_eq!((available("vip"), available("ada")), (70, 10));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`Gate::amend`], and an error if the rule has no such override.
    pub fn amend_override(
        &self,
        domain: &str,
        rule: &str,
        other: OverrideSpec,
    ) -> Result<(), AmendError> {
        self.amend_by((domain, rule), override_values(other), || self.clock.now())
    }

    /// Returns the spec of the named rule as it is in force.
    ///
    /// # Errors
    /// Returns an error if the policy has no such rule.
    pub fn in_force(&self, domain: &str, rule: &str) -> Result<RuleSpec, NoSuchRule> {
        self.memory.newest().policy.named(domain, rule).map(|(_, rule)| rule.spec().clone())
    }

    fn amend_by(
        &self,
        named: (&str, &str),
        change: impl FnOnce(&mut RuleSpec) -> Result<(), AmendError>,
        at: impl Fn() -> Timestamp,
    ) -> Result<(), AmendError> {
        self.change(at, |policy| policy.with_values(named, change))
    }

    /// Puts in force the policy that `next` makes of the current one.
    fn change<E: From<PolicyErrors>>(
        &self,
        at: impl Fn() -> Timestamp,
        next: impl FnOnce(&Policy) -> Result<Policy, E>,
    ) -> Result<(), E> {
        self.memory.change(at, next, |changed| {
            self.queues.wake_those(|queue| changed.iter().any(|rule| queue.is_of(*rule)));
        })
    }
}

/// Changes that come with their own time, as in a recorded trace.
impl Gate<Timestamp> {
    /// Replaces the policy like [`Gate::replace`], at the time `at`, as in a recorded trace.
    ///
    /// # Errors
    /// Returns the errors of [`Gate::replace`].
    pub fn replace_at(&self, policy: Policy, at: Timestamp) -> Result<(), PolicyErrors> {
        self.replace_by(policy, || at)
    }

    /// Amends a rule like [`Gate::amend`], at the time `at`, as in a recorded trace.
    ///
    /// # Errors
    /// Returns the errors of [`Gate::amend`].
    pub fn amend_at(
        &self,
        domain: &str,
        rule: &str,
        spec: Spec,
        at: Timestamp,
    ) -> Result<(), AmendError> {
        self.amend_by((domain, rule), own_values(spec), || at)
    }
}
