//! A limit and a window that a request supplies, as values of the rules that match it.
//!
//! The gRPC service makes a `RequestLimit` here from the limit that a descriptor of a request names.

use std::time::Duration;

use tidegate_core::{Algorithm, Visitor};
use tidegate_core::{Limit, Rule};

use super::amend::refused;
use super::error::PolicyErrors;
use super::policy::{Policy, PolicyInternals as _};
use super::rule::{PolicyRule, RuleInternals as _};
use super::spec::Mode;
use crate::request::{Descriptor, RequestLimit, limit_of_rules};

/// Returns the maximum units that a limiter of a rule can hold.
pub fn limit_of(rule: &Rule) -> Option<u64> {
    struct LimitOf;
    impl Visitor for LimitOf {
        type Out = u64;
        fn visit<R: Algorithm>(self, algorithm: &R) -> u64 {
            algorithm.limit()
        }
    }
    rule.visit(LimitOf)
}

impl Policy {
    /// Returns whether a rule of the domain matches the descriptor and uses values that it supplies.
    #[must_use]
    pub fn looks_at_own_limit(&self, domain: &str, descriptor: &Descriptor<'_>) -> bool {
        self.of_own_limits(domain, descriptor).next().is_some()
    }

    fn of_own_limits<'a>(
        &'a self,
        domain: &str,
        descriptor: &'a Descriptor<'_>,
    ) -> impl Iterator<Item = (usize, &'a PolicyRule)> {
        self.in_domain(domain).filter(move |(_, rule)| {
            rule.spec().limit_from_request && rule.mode() != Mode::Off && rule.matches(descriptor)
        })
    }

    /// Returns the values for a descriptor that supplies `limit` units per `window`. For each rule of the domain that
    /// matches the descriptor and lets requests supply values ([`RuleSpec::limit_from_request`](super::RuleSpec)),
    /// these are the values for its key with this limit and this window, as with an override. Everything else, such
    /// as `capacity`, stays as in the loaded policy, without later changes of the rule
    /// (`Gate::amend`). Rules that are off, and rules that do not let requests supply values,
    /// are left out.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Descriptor, Gate, Limit, Policy, Request, RuleSpec, Spec};
    ///
    /// let spec = Spec::new(AlgorithmKind::TokenBucket, 2, Duration::from_secs(1));
    /// let gate = Gate::new(Policy::new(vec![RuleSpec::new("all", spec).limit_from_request()])?);
    /// let descriptor = Descriptor::new(&[]);
    /// let minute = Duration::from_secs(60);
    /// let own = gate.policy().own_limit("default", &descriptor, Limit::Units(30), minute)?;
    /// let asked = [descriptor.limit(&own)];
    /// let answer = gate.check(&Request::new("default", &asked));
    /// assert_eq!(answer.matched()[0].values().spec().limit, Limit::Units(30));
    /// assert_eq!(answer.matched()[0].decision().remaining, 29);
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    ///
    /// # Errors
    /// Returns every error of the values for those rules: a limit above 10^9, or a window that the rule's `buckets`
    /// do not divide.
    pub fn own_limit(
        &self,
        domain: &str,
        descriptor: &Descriptor<'_>,
        limit: Limit,
        window: Duration,
    ) -> Result<RequestLimit, PolicyErrors> {
        let mut values = Vec::new();
        let mut errors = Vec::new();
        for (number, rule) in self.of_own_limits(domain, descriptor) {
            // Other values, such as `capacity`, come from the override that matches.
            let mut spec = *rule.variant(rule.variant_for(descriptor)).spec();
            (spec.limit, spec.window) = (limit, Some(window));
            match Rule::new(spec) {
                Ok(own) => values.push((rule.name().into(), own)),
                Err(mistakes) => errors.extend(refused(number, rule, &mistakes).0),
            }
        }
        if errors.is_empty() {
            Ok(limit_of_rules(values.into_iter()))
        } else {
            Err(PolicyErrors(errors))
        }
    }
}
