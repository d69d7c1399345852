//! A limit and a window that a request brings along, as figures of the rules it meets.

use std::sync::Arc;

use tidegate_core::{Limit, Micros, Rule};

use super::error::{Place, PolicyError, PolicyErrors, Problem};
use super::policy::Policy;
use super::rule::PolicyRule;
use super::spec::Mode;
use crate::request::{Descriptor, OwnLimit};

impl PolicyRule {
    /// The limit that a descriptor brings along for this rule; `None` where the rule does not let requests do so.
    pub(crate) fn own_limit_of<'d>(&self, descriptor: &Descriptor<'d>) -> Option<&'d Arc<Rule>> {
        let own = descriptor.own_limit().filter(|_| self.spec().limit_from_request);
        own?.of_rule(self.name())
    }
}

impl Policy {
    /// Whether some rule of the domain that matches the descriptor looks at figures it brings.
    #[must_use]
    pub fn looks_at_own_limit(&self, domain: &str, descriptor: &Descriptor<'_>) -> bool {
        self.of_own_limits(domain, descriptor).next().is_some()
    }

    fn of_own_limits<'a>(
        &'a self,
        domain: &str,
        descriptor: &'a Descriptor<'_>,
    ) -> impl Iterator<Item = (usize, &'a PolicyRule)> {
        let looks = |rule: &PolicyRule| rule.spec().limit_from_request && rule.mode() != Mode::Off;
        self.in_domain(domain).filter(move |(_, rule)| looks(rule) && rule.matches(descriptor))
    }

    /// The figures that a descriptor brings which is to have `limit` units per `window`: for each rule of the
    /// domain that matches it and lets requests bring figures
    /// ([`RuleSpec::limit_from_request`](crate::RuleSpec)), those that hold for its key with another limit and
    /// another window, as an override would have it. All other words stay, a `capacity` among them, as the
    /// policy was loaded: not as a rule was changed since ([`Gate::amend`](crate::Gate::amend)). Rules that
    /// are off, and those that do not let requests bring figures, are left out.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, Descriptor, Gate, Limit, Micros, Policy, Request, RuleSpec, Spec};
    ///
    /// let spec = Spec::new(AlgorithmKind::TokenBucket, 2, Micros::from_secs(1));
    /// let gate = Gate::new(Policy::new(vec![RuleSpec::new("all", spec).limit_from_request()])?);
    /// let descriptor = Descriptor::new(&[]);
    /// let minute = Micros::from_secs(60);
    /// let own = gate.policy().own_limit("default", &descriptor, Limit::Units(30), minute)?;
    /// let asked = [descriptor.limit(&own)];
    /// let answer = gate.check(&Request::new("default", &asked));
    /// assert_eq!(answer.matched()[0].figures().spec().limit, Limit::Units(30));
    /// assert_eq!(answer.matched()[0].decision().remaining, 29);
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    ///
    /// # Errors
    /// What can not be of the figures of each of those rules: a limit above 10^9, a window that the rule's
    /// `buckets` do not divide.
    pub fn own_limit(
        &self,
        domain: &str,
        descriptor: &Descriptor<'_>,
        limit: Limit,
        window: Micros,
    ) -> Result<OwnLimit, PolicyErrors> {
        let (mut figures, mut errors) = (Vec::new(), Vec::new());
        for (number, rule) in self.of_own_limits(domain, descriptor) {
            let mut spec = *rule.variant(rule.variant_for(descriptor)).spec();
            (spec.limit, spec.window) = (limit, Some(window));
            match Rule::new(spec) {
                Ok(own) => figures.push((rule.name().into(), own)),
                Err(mistakes) => errors.extend(mistakes.iter().map(|mistake| PolicyError {
                    rule: number,
                    name: rule.name().to_owned(),
                    place: Place::Rule,
                    problem: Problem::Figure(mistake.clone()),
                })),
            }
        }
        if errors.is_empty() {
            Ok(OwnLimit::of_rules(figures.into_iter()))
        } else {
            Err(PolicyErrors(errors))
        }
    }
}
