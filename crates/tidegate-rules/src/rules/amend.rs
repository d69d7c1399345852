//! Policies in which one rule has other values, and the errors of such a change.
//!
//! Both gates change values with them while they decide.

use std::fmt;

use tidegate_core::{RuleErrors, Spec};

use super::check::check;
use super::error::{Place, PolicyError, PolicyErrors, Problem};
use super::no_such_rule::NoSuchRule;
use super::override_spec::OverrideSpec;
use super::policy::{Policy, PolicyInternals as _};
use super::rule::PolicyRule;
use super::spec::RuleSpec;

/// New values of a rule. A [`Spec`] replaces the values of the rule itself; an [`OverrideSpec`] replaces the values of
/// the override with the same entries, in any order.
///
/// ```
/// use tidegate::{Gate, Limit, OverrideSpec, Policy, RuleSpec, Spec};
///
/// let mut vip = OverrideSpec::new("user", "vip");
/// vip.limit = Some(Limit::Units(50));
/// let rule = RuleSpec::new("per-user", Spec::per_hour(10)).key(["user"]).with_override(vip.clone());
/// let gate = Gate::new(Policy::new(vec![rule])?);
/// vip.limit = Some(Limit::Units(70));
/// gate.amend("default", "per-user", vip)?;
/// gate.amend("default", "per-user", Spec::per_hour(20))?;
/// let available = |user| gate.peek(&[("user", user)]).remaining();
/// assert_eq!((available("vip"), available("ada")), (Some(70), Some(20)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Amendment {
    /// The values for all keys without an override.
    Rule(Spec),
    /// The values of one override.
    Override(OverrideSpec),
}

impl From<Spec> for Amendment {
    fn from(spec: Spec) -> Self {
        Self::Rule(spec)
    }
}

impl From<OverrideSpec> for Amendment {
    fn from(other: OverrideSpec) -> Self {
        Self::Override(other)
    }
}

impl Amendment {
    /// Puts the values into the spec of a rule.
    fn apply(self, rule: &mut RuleSpec) -> Result<(), AmendError> {
        let other = match self {
            Self::Rule(spec) => {
                rule.spec = spec;
                return Ok(());
            }
            Self::Override(other) => other,
        };
        let known = rule.overrides.iter_mut().find(|known| {
            known.entries.len() == other.entries.len()
                && known.entries.iter().all(|entry| other.entries.contains(entry))
        });
        let Some(known) = known else {
            let entries = other.entries;
            return Err(AmendError::NoSuchOverride { rule: rule.name.clone(), entries });
        };
        // The entries keep the order in which the rule has them.
        *known = OverrideSpec { entries: known.entries.clone(), ..other };
        Ok(())
    }
}

/// Returns this policy with other values of the named rule.
///
/// The domain, the name, the key and all conditions of the rule must stay as they are: the index of rules is not made
/// again, and rules are not checked against each other. The rule keeps its name, and so its limiters.
///
/// # Errors
/// Returns an error if there is no such rule or override, or if the changed spec is invalid.
pub fn with_values(
    policy: &Policy,
    (domain, name): (&str, &str),
    values: Amendment,
) -> Result<Policy, AmendError> {
    let (number, known) = policy.named(domain, name)?;
    let mut spec = known.spec().clone();
    values.apply(&mut spec)?;
    let rule = PolicyRule::checked(number, spec)?;
    let mut next = policy.clone();
    if let Some(known) = next.rules.get_mut(number) {
        *known = rule;
    }
    Ok(next)
}

impl PolicyRule {
    /// Checks one rule by itself, and returns every error of its spec.
    fn checked(number: usize, spec: RuleSpec) -> Result<Self, AmendError> {
        let rules = check(vec![spec]).map_err(|errors| AmendError::Rule(errors.of_rule(number)))?;
        // The list has as many rules as it was given.
        rules.into_iter().next().ok_or(AmendError::Rule(PolicyErrors(Vec::new())))
    }
}

/// Turns the errors of a limiter's values into errors of a rule of a policy.
pub fn refused(number: usize, rule: &PolicyRule, errors: &RuleErrors) -> PolicyErrors {
    let errors = errors.iter().map(|error| PolicyError {
        rule: number,
        name: rule.name().to_owned(),
        place: Place::Rule,
        problem: Problem::Values(error.clone()),
    });
    PolicyErrors(errors.collect())
}

/// Why the values of a rule were not changed; the old values stay in force.
///
/// ```
/// use tidegate::{AmendError, Gate, Policy, RuleSpec, Spec};
///
/// let gate = Gate::new(Policy::new(vec![RuleSpec::new("all", Spec::per_second(10))])?);
/// let error = gate.amend("default", "al", Spec::per_second(20)).unwrap_err();
/// assert!(matches!(error, AmendError::NoSuchRule(_)));
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AmendError {
    /// There is no rule of this name.
    NoSuchRule(NoSuchRule),
    /// The rule has no override with exactly these entries.
    NoSuchOverride {
        /// The rule's name.
        rule: String,
        /// The given entries.
        entries: Vec<(String, String)>,
    },
    /// Every error of the values: of the rule's own, of an override's, of the memory that the existing limiters would
    /// take, or of the store that holds them.
    Rule(PolicyErrors),
}

impl From<PolicyErrors> for AmendError {
    fn from(errors: PolicyErrors) -> Self {
        Self::Rule(errors)
    }
}

impl From<NoSuchRule> for AmendError {
    fn from(error: NoSuchRule) -> Self {
        Self::NoSuchRule(error)
    }
}

impl fmt::Display for AmendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchRule(error) => error.fmt(f),
            Self::NoSuchOverride { rule, entries } => {
                write!(
                    f,
                    "no override of rule {rule:?} is for {entries:?}: expected the entries of one"
                )
            }
            Self::Rule(errors) => errors.fmt(f),
        }
    }
}

tidegate_core::debug_as_display!(AmendError);

impl std::error::Error for AmendError {}
