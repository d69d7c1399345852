//! Changing the figures of a gate's rules while it decides.

use tidegate_core::{Spec, Timestamp};

use super::Gate;
use crate::clock::{Clock, Reading};
use crate::rules::{
    AmendError, NoSuchRule, OverrideSpec, PolicyRule, RuleSpec, override_figures, own_figures,
    refused,
};
use crate::step::{Decided, Met};

impl<C: Clock> Gate<C> {
    /// Puts other figures in force for the named rule, of any algorithm, from one instant to the next: no
    /// decision mixes both, none is lost between them, and a request that several rules decide is charged
    /// to all of them or to none.
    ///
    /// It means what [`Limiter::amend`](crate::Limiter::amend) means, for the limiter of every key:
    /// what was used stays used, so no change is a credit or a reset. Only from an unlimited rule on
    /// limiters begin as new; under an unlimited plan ([`Gate::with_plans`]) they stay as they were.
    /// All other words of the rule stay: what it matches, its mode, its caps on keys, for how long it
    /// remembers answers. Its overrides stay as well, and go on changing what they changed: `spec`
    /// takes the place of the figures that the rule was written with, as though it had been so in the
    /// policy. [`Gate::amend_override`] changes one of them.
    ///
    /// Each answer tells the figures that decided ([`Matched::figures`](crate::Matched::figures)).
    /// [`Gate::policy`] stays as it was loaded. A request that was answered under an id is answered the
    /// same only while the figures are those of then. Who waits for a limiter of the rule asks again.
    ///
    /// All limiters of the rule are carried over before any of them decides again; how long that takes,
    /// and what memory, is told at [`KeyedLimiter::amend`](crate::KeyedLimiter::amend). Other rules go on
    /// meanwhile. A gate whose rules are never changed pays nothing for this; the limiters of one that was
    /// changed are asked under a reader's lock.
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
        self.amend_by((domain, rule), own_figures(spec), Reading::of(&self.clock))
    }

    /// Puts other figures in force for the keys of one override, the one with the same entries, in
    /// whatever order they are: what [`Gate::amend`] is for the rule. What `other` does not say is as the
    /// rule has it. Overrides are not added or taken away while a gate runs.
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
        self.amend_by((domain, rule), override_figures(other), Reading::of(&self.clock))
    }

    /// The words of the named rule as they are in force: those it was loaded with, and what was changed
    /// since by [`Gate::amend`] and [`Gate::amend_override`].
    ///
    /// # Errors
    /// The policy has no such rule.
    pub fn in_force(&self, domain: &str, rule: &str) -> Result<RuleSpec, NoSuchRule> {
        self.front.in_force(domain, rule)
    }

    fn amend_by(
        &self,
        named: (&str, &str),
        words: impl FnOnce(&mut RuleSpec) -> Result<(), AmendError>,
        reading: Reading<'_>,
    ) -> Result<(), AmendError> {
        let put = |number: usize, rule: &PolicyRule| {
            let told = self.memory.amend(number, rule, reading);
            told.map_err(|errors| refused(number, rule, &errors))
        };
        let number = self.front.policy.change(named, reading.anew(), words, put)?;
        self.queues.wake_those(|queue| queue.is_of(number));
        Ok(())
    }

    /// Whether a limiter that a request meets limits anything, by the figures in force.
    pub(super) fn is_limited(&self, met: &Met) -> bool {
        if self.memory.is_figured(met.rule) {
            return !met.is_unlimited();
        }
        let own = || self.policy().rules().get(met.rule).map(|rule| rule.variant(met.variant));
        match self.memory.figures(met) {
            Some(figures) => !figures.is_unlimited(),
            None => own().is_some_and(|figures| !figures.is_unlimited()),
        }
    }

    /// Whether a limiter is still under the figures that decided.
    pub(super) fn is_still(&self, met: &Met, decided: &Decided) -> bool {
        self.memory.is_still(self.policy(), met, decided)
    }
}

/// A gate whose requests bring their own time, as in a recorded trace.
impl Gate<Timestamp> {
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
        self.amend_by((domain, rule), own_figures(spec), Reading::of(&at))
    }
}
