//! A policy: rules that were checked together, found by domain.
//!
//! Programs and configurations build it, and both gates ask it for the rules of each request.

use std::any::Any;
use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;

use super::attached::Attached;
use super::check::check;
use super::choices::{OnNoRule, OnNoRules};
use super::error::PolicyErrors;
use super::index::Index;
use super::no_such_rule::{NoSuchRule, no_such_rule};
use super::rule::{PolicyRule, RuleInternals as _};
use super::spec::{Mode, RuleSpec};
use crate::key::canonical_text;
use crate::request::{Descriptor, Request};
use crate::settings::StoreSettings;

/// The content of the header field `X-RateLimit-Reset`.
///
/// ```
/// use tidegate::{Policy, ResetField, RuleSpec};
///
/// let policy = Policy::new(vec![RuleSpec::new("all", "10/s")])?.with_reset_field(ResetField::Unix);
/// assert_eq!(policy.reset_field(), ResetField::Unix);
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResetField {
    /// The seconds until the limiter is idle, rounded up, as Envoy writes it.
    #[default]
    Seconds,
    /// The time when it is idle, in seconds since 1970, rounded up, as GitHub writes it.
    Unix,
}

/// Rules in file order, found by domain. Never changed once built.
///
/// ```
/// use tidegate::{Policy, RuleSpec};
///
/// let policy = Policy::new(vec![RuleSpec::new("per-user", "10/s").key(["user"])])?;
/// assert_eq!(policy.rules()[0].name(), "per-user");
///
/// // Every mistake is reported, with the rule and the field.
/// let wrong = Policy::new(vec![RuleSpec::new("per user", "10/s"), RuleSpec::new("all", "10 a second")]);
/// assert_eq!(wrong.unwrap_err().iter().count(), 2);
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Policy {
    pub(super) rules: Vec<PolicyRule>,
    by_domain: BTreeMap<String, Arc<Domain>>,
    max_keys: Option<NonZeroUsize>,
    revision: Option<NonZeroU32>,
    store: Option<StoreSettings>,
    reset_field: ResetField,
    on_no_rule: OnNoRules,
    /// The data of observers for the rules.
    attached: Attached,
}

/// The rules of one domain, shared by the copies of a policy.
#[derive(Debug)]
struct Domain {
    /// Their numbers, in the order they were written.
    rules: Vec<usize>,
    /// The same numbers, in the order of the rules' names.
    by_name: Vec<usize>,
    index: Index,
}

impl Policy {
    /// Checks every rule, alone and next to the others.
    ///
    /// # Errors
    /// Returns every mistake in the rules.
    pub fn new(specs: Vec<RuleSpec>) -> Result<Self, PolicyErrors> {
        let rules = check(specs)?;
        let mut by_domain: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for (number, rule) in rules.iter().enumerate() {
            by_domain.entry(rule.domain()).or_default().push((number, rule.required().collect()));
        }
        let by_domain = by_domain
            .into_iter()
            .map(|(name, all)| {
                let index = Index::new(&all);
                let numbers: Vec<_> = all.into_iter().map(|(number, _)| number).collect();
                let mut by_name = numbers.clone();
                by_name.sort_by_key(|number| rules.get(*number).map(PolicyRule::name));
                (name.to_owned(), Arc::new(Domain { rules: numbers, by_name, index }))
            })
            .collect();
        Ok(Self { rules, by_domain, ..Self::default() })
    }

    /// Lets all rules together keep at most `max_keys` limiters, in addition to the cap of each. The `on_full` of the
    /// rule decides what happens to a key for which there is no room.
    #[must_use]
    pub const fn with_max_keys(mut self, max_keys: NonZeroUsize) -> Self {
        self.max_keys = Some(max_keys);
        self
    }

    /// The maximum number of limiters that all rules together keep; `None` if only the cap of each rule applies.
    #[must_use]
    pub const fn max_keys(&self) -> Option<NonZeroUsize> {
        self.max_keys
    }

    /// Sets the revision of the policy: a larger number is newer. It matters if nodes with different values share a
    /// [store](Policy::with_store), as in a rolling change: the values of the newest revision that has taken from a
    /// key decide for it, whichever node asks. Among policies with the same revision, or without, the newer values took
    /// effect later on their node: with the first policy that it loaded, or with a later policy that changed them. A
    /// policy without a revision is older than every policy with a revision. So if nodes with the old policy may
    /// restart during a change, set a larger revision with each change.
    #[must_use]
    pub const fn with_revision(mut self, revision: NonZeroU32) -> Self {
        self.revision = Some(revision);
        self
    }

    /// The revision of the policy, if it has one.
    #[must_use]
    pub const fn revision(&self) -> Option<NonZeroU32> {
        self.revision
    }

    /// Names the store for the limiters. A `Gate` ignores it and keeps limiters in process; a gate
    /// over a store is a type of its own, built from these settings.
    #[must_use]
    pub fn with_store(mut self, store: StoreSettings) -> Self {
        self.store = Some(store);
        self
    }

    /// Names the store that another policy names, or none if that names none: for a policy that replaces the other in
    /// a gate, which goes on in its store.
    #[must_use]
    pub fn with_store_of(mut self, other: &Self) -> Self {
        self.store.clone_from(&other.store);
        self
    }

    /// The store for the limiters; `None` for this process.
    #[must_use]
    pub const fn store(&self) -> Option<&StoreSettings> {
        self.store.as_ref()
    }

    /// Chooses what the header field `X-RateLimit-Reset` contains, wherever an answer is written as header fields.
    ///
    /// ```
    /// use tidegate::{Policy, ResetField, RuleSpec, Spec};
    ///
    /// let rule = RuleSpec::new("all", Spec::per_second(50));
    /// let policy = Policy::new(vec![rule])?.with_reset_field(ResetField::Unix);
    /// assert_eq!(policy.reset_field(), ResetField::Unix);
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    #[must_use]
    pub const fn with_reset_field(mut self, reset_field: ResetField) -> Self {
        self.reset_field = reset_field;
        self
    }

    /// The content of `X-RateLimit-Reset`: seconds, unless it was chosen.
    #[must_use]
    pub const fn reset_field(&self) -> ResetField {
        self.reset_field
    }

    /// Sets the decision on requests that no rule matches, in every domain that has no setting of its own, including
    /// unknown domains.
    #[must_use]
    pub const fn with_on_no_rule(mut self, on_no_rule: OnNoRule) -> Self {
        self.on_no_rule.elsewhere = on_no_rule;
        self
    }

    /// Sets the decision on requests of one domain that no rule matches.
    #[must_use]
    pub fn with_on_no_rule_in(mut self, domain: &str, on_no_rule: OnNoRule) -> Self {
        self.on_no_rule.by_domain.insert(canonical_text(domain).into_owned(), on_no_rule);
        self
    }

    /// The decision on a request of this domain that no rule matches; admitted, unless the policy says otherwise.
    #[must_use]
    pub fn on_no_rule(&self, domain: &str) -> OnNoRule {
        self.on_no_rule.of(domain)
    }

    /// The domains with a decision of their own on requests that no rule matches, in the order of their names; then `*`
    /// for all other domains, unless their requests are admitted.
    pub fn on_no_rules(&self) -> impl Iterator<Item = (&str, OnNoRule)> {
        let elsewhere = Some(("*", self.on_no_rule.elsewhere));
        let elsewhere = elsewhere.filter(|(_, on_no_rule)| *on_no_rule != OnNoRule::Admit);
        let own = self.on_no_rule.by_domain.iter();
        own.map(|(domain, on_no_rule)| (domain.as_str(), *on_no_rule)).chain(elsewhere)
    }

    /// Returns whether a rule matches one of the descriptors of a request, in whatever mode.
    ///
    /// ```
    /// use tidegate::{Policy, RuleSpec};
    ///
    /// let policy = Policy::new(vec![RuleSpec::new("per-user", "10/s").key(["user"])])?;
    /// assert!(policy.matches(&[("user", "ada")]));
    /// assert!(!policy.matches(&[("usr", "ada")]));
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    #[must_use]
    pub fn matches<'r>(&self, request: impl Into<Request<'r>>) -> bool {
        let request = &request.into();
        let mut matches = false;
        for descriptor in request.descriptors() {
            self.visit_candidates(request.domain(), descriptor, |_, rule| {
                matches = matches || rule.matches(descriptor);
            });
        }
        matches
    }

    /// Its rules, in the order they were written.
    #[must_use]
    #[inline]
    pub fn rules(&self) -> &[PolicyRule] {
        &self.rules
    }

    /// The rules of a domain that match a descriptor and are not off, in no order.
    #[must_use]
    pub fn matching<'a>(
        &'a self,
        domain: &str,
        descriptor: &Descriptor<'_>,
    ) -> Vec<&'a PolicyRule> {
        let mut all = Vec::new();
        self.visit_candidates(domain, descriptor, |_, rule| {
            if rule.mode() != Mode::Off && rule.matches(descriptor) {
                all.push(rule);
            }
        });
        all
    }
}

/// The questions of a gate to a policy, for the crates of Tidegate alone.
pub trait PolicyInternals {
    /// Returns whether a request without a limiter is refused, because no rule matches it.
    fn refuses_without_rule(&self, request: &Request<'_>) -> bool;

    /// The rule of this name, and its number.
    fn named(&self, domain: &str, name: &str) -> Result<(usize, &PolicyRule), NoSuchRule>;

    /// Returns the data that `owner` keeps for the rules of this policy, which is made the first time; `None` if it is
    /// of another type.
    fn attached<T: Any + Send + Sync>(&self, owner: usize, make: impl Fn() -> T) -> Option<&T>;

    /// The rules of a domain with their numbers, in the order they were written.
    fn in_domain(&self, domain: &str) -> impl Iterator<Item = (usize, &PolicyRule)>;

    /// Returns whether an enforced rule of the domain matches by an entry of this name.
    fn looks_at(&self, domain: &str, name: &str) -> bool;

    /// Calls `visit` with the rules of a domain that a descriptor may match and their numbers, in no order; all
    /// others do not match it.
    fn visit_candidates<'a>(
        &'a self,
        domain: &str,
        descriptor: &Descriptor<'_>,
        visit: impl FnMut(usize, &'a PolicyRule),
    );
}

impl PolicyInternals for Policy {
    #[inline]
    fn refuses_without_rule(&self, request: &Request<'_>) -> bool {
        // In this order, because matching once more is the slowest of the three.
        !self.on_no_rule.admit_all()
            && self.on_no_rule(request.domain()) == OnNoRule::Refuse
            && !self.matches(request)
    }

    fn named(&self, domain: &str, name: &str) -> Result<(usize, &PolicyRule), NoSuchRule> {
        let by_name = self.by_domain.get(domain).map_or(&[][..], |domain| &domain.by_name);
        let found = by_name
            .binary_search_by_key(&Some(name), |number| {
                self.rules.get(*number).map(PolicyRule::name)
            })
            .ok()
            .and_then(|place| by_name.get(place))
            .and_then(|number| Some((*number, self.rules.get(*number)?)));
        found.ok_or_else(|| no_such_rule(domain, name, &self.rules))
    }

    #[inline]
    fn attached<T: Any + Send + Sync>(&self, owner: usize, make: impl Fn() -> T) -> Option<&T> {
        self.attached.of(owner, make)
    }

    fn in_domain(&self, domain: &str) -> impl Iterator<Item = (usize, &PolicyRule)> {
        let numbers = self.by_domain.get(domain).map_or(&[][..], |domain| &domain.rules);
        numbers.iter().filter_map(|number| Some((*number, self.rules.get(*number)?)))
    }

    fn looks_at(&self, domain: &str, name: &str) -> bool {
        self.in_domain(domain).any(|(_, rule)| rule.mode() == Mode::Enforce && rule.looks_at(name))
    }

    #[inline]
    fn visit_candidates<'a>(
        &'a self,
        domain: &str,
        descriptor: &Descriptor<'_>,
        mut visit: impl FnMut(usize, &'a PolicyRule),
    ) {
        let Some(domain) = self.by_domain.get(domain) else { return };
        domain.index.visit(descriptor, |number| {
            self.rules.get(number).into_iter().for_each(|rule| visit(number, rule));
        });
    }
}
