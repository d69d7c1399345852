//! Changing the policy of a gate while it decides.

use tidegate_core::{Spec, Timestamp};

use super::Gate;
use crate::clock::Clock;
use crate::rules::{
    AmendError, NoSuchRule, OverrideSpec, Policy, PolicyErrors, RuleSpec, override_figures,
    own_figures,
};

impl<C: Clock> Gate<C> {
    /// Puts another policy in force from one instant to the next: no decision mixes both, none is lost between
    /// them, and a request that several rules decide is charged to all of them or to none.
    ///
    /// Rules are matched by domain and name. What was used stays used, so no change is a credit or a reset:
    ///
    /// - A rule that is **unchanged** goes on with its limiters.
    /// - A rule with **other figures** ([`RuleSpec::spec`], its overrides) settles time under the old ones; then a
    ///   higher limit adds the difference, and a lower one may leave debt: see
    ///   [`Limiter::amend`](crate::Limiter::amend). Only from an unlimited rule on limiters begin as new. Where
    ///   overrides are added, removed or put in another order, each limiter of the rule comes under its new
    ///   figures when it is next asked, and keeps them beside its state from then on.
    /// - Other words (the mode, caps, what matches, whether a request may wait) hold from now on. A rule with another
    ///   **key** has other limiters, which begin as new, and remembers no answers of the old ones.
    /// - A rule that is **removed** decides nothing any more. Its limiters are kept until all of them are idle, so
    ///   that adding it back gives nobody a fresh limit.
    /// - A rule that is **added** begins as new.
    ///
    /// Plans ([`Gate::with_plans`]), bans, queues and answers that are remembered under an id belong to a rule by
    /// its domain and name, and go on. Whoever waits for a limiter of a changed or removed rule asks again at once;
    /// a rule that was added since refuses it where it has no room for it, for it came to wait before others.
    ///
    /// The gate goes on deciding meanwhile. Limiters are moved one by one, when they are next asked or by this
    /// call, which returns when all are where they belong: it takes a time that grows with the number of limiters
    /// of changed rules. What several threads put in force at once comes into force one after another.
    ///
    /// An [`Answer`](crate::Answer) keeps the policy that decided.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, Descriptor, Gate, Micros, Policy, Request, RuleSpec, Spec};
    ///
    /// let per_day = |limit| Spec::new(AlgorithmKind::SlidingLog, limit, Micros::from_secs(86_400));
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
    /// The limiters that there are would not fit in the memory that a rule allows; the old policy stays in force,
    /// and nothing is lost.
    pub fn replace(&self, policy: Policy) -> Result<(), PolicyErrors> {
        self.replace_by(policy, || self.clock.now())
    }

    fn replace_by(&self, policy: Policy, at: impl Fn() -> Timestamp) -> Result<(), PolicyErrors> {
        self.change(at, |before| Ok(policy.known_as(before)))
    }

    /// Puts other figures in force for the named rule, of any algorithm, from one instant to the next: no
    /// decision mixes both, none is lost between them, and a request that several rules decide is charged
    /// to all of them or to none.
    ///
    /// It is [`Gate::replace`] with the policy in which this rule has these figures. All other words of the rule
    /// stay: what it matches, its mode, its caps on keys, for how long it remembers answers. Its overrides stay as
    /// well, and go on changing what they changed: `spec` takes the place of the figures that the rule was
    /// written with. [`Gate::amend_override`] changes one of them. Under an unlimited plan
    /// ([`Gate::with_plans`]) limiters stay as they were.
    ///
    /// Each answer tells the figures that decided ([`Matched::figures`](crate::Matched::figures)). A request that
    /// was answered under an id is answered the same only while the figures are those of then.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, Descriptor, Gate, Limit, Micros, Policy, Request, RuleSpec, Spec};
    ///
    /// let per_day = |limit| Spec::new(AlgorithmKind::SlidingLog, limit, Micros::from_secs(86_400));
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
    /// assert_eq!(answer.matched()[0].figures().spec().limit, Limit::Units(170));
    /// gate.amend("default", "per-user", per_day(100))?;
    /// assert_eq!(gate.available(&request), 0); // 160 are used
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The policy has no such rule, the figures are wrong, or the limiters that there are would not fit in
    /// the memory that they allow; the old ones stay in force, and nothing is lost.
    pub fn amend(&self, domain: &str, rule: &str, spec: Spec) -> Result<(), AmendError> {
        self.amend_by((domain, rule), own_figures(spec), || self.clock.now())
    }

    /// Puts other figures in force for the keys of one override, the one with the same entries, in
    /// whatever order they are: what [`Gate::amend`] is for the rule. What `other` does not say is as the
    /// rule has it. [`Gate::replace`] adds overrides and removes them.
    ///
    /// ```
    /// use tidegate::{
    ///     AlgorithmKind, Descriptor, Gate, Limit, Micros, OverrideSpec, Policy, Request, RuleSpec, Spec,
    /// };
    ///
    /// let vip = |limit| {
    ///     let mut vip = OverrideSpec::new("user", "vip");
    ///     vip.limit = Some(Limit::Units(limit));
    ///     vip
    /// };
    /// let spec = Spec::new(AlgorithmKind::SlidingLog, 10, Micros::from_secs(3_600));
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
    /// As [`Gate::amend`], and where the rule has no such override.
    pub fn amend_override(
        &self,
        domain: &str,
        rule: &str,
        other: OverrideSpec,
    ) -> Result<(), AmendError> {
        self.amend_by((domain, rule), override_figures(other), || self.clock.now())
    }

    /// The words of the named rule as they are in force.
    ///
    /// # Errors
    /// The policy has no such rule.
    pub fn in_force(&self, domain: &str, rule: &str) -> Result<RuleSpec, NoSuchRule> {
        self.memory.newest().policy.named(domain, rule).map(|(_, rule)| rule.spec().clone())
    }

    fn amend_by(
        &self,
        named: (&str, &str),
        words: impl FnOnce(&mut RuleSpec) -> Result<(), AmendError>,
        at: impl Fn() -> Timestamp,
    ) -> Result<(), AmendError> {
        self.change(at, |policy| policy.with_words(named, words))
    }

    /// Puts in force what `next` makes of the policy that is in force.
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

/// A gate whose requests bring their own time, as in a recorded trace.
impl Gate<Timestamp> {
    /// The same as [`Gate::replace`] for a policy that came at `at`, as in a recorded trace.
    ///
    /// # Errors
    /// As [`Gate::replace`].
    pub fn replace_at(&self, policy: Policy, at: Timestamp) -> Result<(), PolicyErrors> {
        self.replace_by(policy, || at)
    }

    /// The same as [`Gate::amend`] for a change that came at `at`, as in a recorded trace.
    ///
    /// # Errors
    /// As [`Gate::amend`].
    pub fn amend_at(
        &self,
        domain: &str,
        rule: &str,
        spec: Spec,
        at: Timestamp,
    ) -> Result<(), AmendError> {
        self.amend_by((domain, rule), own_figures(spec), || at)
    }
}
