//! A policy in force, whose rules may be given other figures.

use std::fmt;
#[cfg(feature = "redis")]
use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release},
    sync::{Arc, Mutex, PoisonError, RwLock},
};

#[cfg(feature = "redis")]
use tidegate_core::{Micros, Rule, Timestamp};
use tidegate_core::{RuleErrors, Spec};

use super::check::check;
use super::error::{Place, PolicyError, PolicyErrors, Problem};
use super::no_such_rule::NoSuchRule;
use super::policy::Policy;
use super::rule::PolicyRule;
use super::spec::{OverrideSpec, RuleSpec};

/// A policy as it was loaded, and the rules that were changed since.
#[cfg(feature = "redis")]
#[derive(Debug)]
pub(crate) struct ActivePolicy {
    pub(crate) loaded: Arc<Policy>,
    /// Held by who changes a rule.
    changing: Mutex<()>,
    /// Whether any rule was changed.
    any: AtomicBool,
    /// The rules that were changed, by their numbers.
    rules: RwLock<HashMap<usize, Changed>>,
}

#[cfg(feature = "redis")]
#[derive(Debug)]
struct Changed {
    rule: PolicyRule,
    /// By variant.
    figures: Vec<Arc<Rule>>,
    at: Timestamp,
}

#[cfg(feature = "redis")]
impl ActivePolicy {
    pub(crate) fn new(loaded: Policy) -> Self {
        let (changing, any, rules) = (Mutex::default(), AtomicBool::default(), RwLock::default());
        Self { loaded: Arc::new(loaded), changing, any, rules }
    }

    /// Changes the words of the named rule as `words` says when the clock reads `at`, and has them
    /// put in force by `put`, which is told the number of the rule; one change at a time.
    ///
    /// # Errors
    /// There is no such rule or override, the words are wrong, or `put` refuses them: the old ones stay.
    pub(crate) fn change(
        &self,
        (domain, name): (&str, &str),
        at: Timestamp,
        words: impl FnOnce(&mut RuleSpec) -> Result<(), AmendError>,
        put: impl FnOnce(usize, &PolicyRule) -> Result<(), AmendError>,
    ) -> Result<usize, AmendError> {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, mut spec) = self.in_force(domain, name)?;
        words(&mut spec)?;
        let mut rule = PolicyRule::checked(number, spec)?;
        rule.token.clone_from(&self.loaded.named(domain, name)?.1.token);
        put(number, &rule)?;
        let figures = (0..rule.variants()).map(|number| Arc::new(rule.variant(number).clone()));
        let mut rules = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        // No two changes of a rule at one time: the second is the later one.
        let least = |before: &Changed| before.at.plus(Micros::from_micros(1));
        let at = rules.get(&number).map(least).map_or(at, |least| least.max(at));
        rules.insert(number, Changed { figures: figures.collect(), rule, at });
        drop(rules);
        self.any.store(true, Release);
        Ok(number)
    }

    /// The number of the named rule, and its words as they are in force.
    pub(crate) fn in_force(
        &self,
        domain: &str,
        name: &str,
    ) -> Result<(usize, RuleSpec), NoSuchRule> {
        let (number, rule) = self.loaded.named(domain, name)?;
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        let rule = rules.get(&number).map_or(rule, |changed| &changed.rule);
        Ok((number, rule.spec().clone()))
    }

    /// Whether any rule was changed.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Acquire)
    }

    /// The figures of a variant of a rule, where that was changed.
    pub(crate) fn figures(&self, rule: usize, variant: usize) -> Option<Arc<Rule>> {
        if !self.any() {
            return None;
        }
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        rules.get(&rule)?.figures.get(variant).cloned()
    }

    /// When a variant of a rule was given these figures, if they are still in force.
    pub(crate) fn changed_at(
        &self,
        rule: usize,
        variant: usize,
        figures: &Arc<Rule>,
    ) -> Option<Timestamp> {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        let changed = rules.get(&rule)?;
        changed.figures.get(variant).filter(|now| Arc::ptr_eq(now, figures)).map(|_| changed.at)
    }

    /// The same, and those of the rule as it was loaded, `own`, where they are unlimited.
    pub(crate) fn figures_or_unlimited(
        &self,
        rule: usize,
        variant: usize,
        own: &Rule,
    ) -> Option<Arc<Rule>> {
        let unlimited = || own.is_unlimited().then(|| Arc::new(own.clone()));
        self.figures(rule, variant).or_else(unlimited)
    }

    /// The policy as it is in force.
    pub(crate) fn current(&self) -> Policy {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        let changed = rules.iter().map(|(number, changed)| (*number, changed.rule.clone()));
        self.loaded.with_rules(changed)
    }
}

/// Puts other figures in place of those that a rule has for all keys without an override.
pub(crate) fn own_figures(spec: Spec) -> impl FnOnce(&mut RuleSpec) -> Result<(), AmendError> {
    move |words| {
        words.spec = spec;
        Ok(())
    }
}

/// Puts an override in place of the one with the same entries.
pub(crate) fn override_figures(
    other: OverrideSpec,
) -> impl FnOnce(&mut RuleSpec) -> Result<(), AmendError> {
    move |words| {
        let same = |known: &&mut OverrideSpec| {
            known.entries.len() == other.entries.len()
                && known.entries.iter().all(|entry| other.entries.contains(entry))
        };
        match words.overrides.iter_mut().find(same) {
            Some(known) => {
                *known = OverrideSpec { entries: known.entries.clone(), ..other };
                Ok(())
            }
            None => {
                let rule = words.name.clone();
                Err(AmendError::NoSuchOverride { rule, entries: other.entries })
            }
        }
    }
}

impl Policy {
    /// The same policy with the words of the named rule changed as `words` says.
    ///
    /// # Errors
    /// There is no such rule or override, or the words are wrong.
    pub(crate) fn with_words(
        &self,
        (domain, name): (&str, &str),
        words: impl FnOnce(&mut RuleSpec) -> Result<(), AmendError>,
    ) -> Result<Self, AmendError> {
        let (number, known) = self.named(domain, name)?;
        let mut spec = known.spec().clone();
        words(&mut spec)?;
        let mut rule = PolicyRule::checked(number, spec)?;
        rule.token.clone_from(&known.token);
        Ok(self.with_rules([(number, rule)].into_iter()))
    }
}

impl PolicyRule {
    /// The rule with this number by itself, or all that is wrong with its words.
    pub(crate) fn checked(number: usize, spec: RuleSpec) -> Result<Self, AmendError> {
        let rules = check(vec![spec]).map_err(|errors| AmendError::Rule(errors.of_rule(number)))?;
        // As many as there were.
        rules.into_iter().next().ok_or(AmendError::Rule(PolicyErrors(Vec::new())))
    }
}

/// What a limiter's figures were refused for, told of a rule of a policy.
pub(crate) fn refused(number: usize, rule: &PolicyRule, errors: &RuleErrors) -> PolicyErrors {
    let error = |error: &tidegate_core::RuleError| PolicyError {
        rule: number,
        name: rule.name().to_owned(),
        place: Place::Rule,
        problem: Problem::Figure(error.clone()),
    };
    PolicyErrors(errors.iter().map(error).collect())
}

/// Why the figures of a rule were not changed; those in force stay.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AmendError {
    /// There is no rule of this name.
    NoSuchRule(NoSuchRule),
    /// The rule has no override of just these entries.
    NoSuchOverride {
        /// The rule's name.
        rule: String,
        /// The entries that were named.
        entries: Vec<(String, String)>,
    },
    /// All that is wrong with the figures: in themselves, in an override's, for the memory that the
    /// limiters there are would take, or for the store that they are in.
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

impl std::error::Error for AmendError {}
