//! A policy: rules that were checked together, found by domain.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};

use super::check::check;
use super::error::PolicyErrors;
use super::index::Index;
use super::no_such_rule::NoSuchRule;
use super::rule::PolicyRule;
use super::spec::RuleSpec;
use crate::request::Descriptor;
use crate::settings::StoreSettings;

/// Rules in the order they were written, found by domain. Never changed once built.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    pub(super) rules: Vec<PolicyRule>,
    by_domain: BTreeMap<String, Domain>,
    max_keys: Option<NonZeroUsize>,
    revision: Option<NonZeroU32>,
    store: Option<StoreSettings>,
}

/// The rules of one domain.
#[derive(Clone, Debug)]
struct Domain {
    /// Their numbers, in the order they were written.
    rules: Vec<usize>,
    index: Index,
}

impl Policy {
    /// Checks every rule, alone and beside the others.
    ///
    /// # Errors
    /// All that is wrong with any of them.
    pub fn new(specs: Vec<RuleSpec>) -> Result<Self, PolicyErrors> {
        let rules = check(specs)?;
        let mut by_domain: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for (number, rule) in rules.iter().enumerate() {
            by_domain.entry(rule.domain()).or_default().push((number, rule.required().collect()));
        }
        let domain = |(name, rules): (&str, Vec<(usize, Vec<_>)>)| {
            let index = Index::new(&rules);
            let rules = rules.into_iter().map(|(number, _)| number).collect();
            (name.to_owned(), Domain { rules, index })
        };
        let by_domain = by_domain.into_iter().map(domain).collect();
        Ok(Self { rules, by_domain, ..Self::default() })
    }

    /// Lets all rules together keep at most `max_keys` limiters, whatever the cap of each. What
    /// becomes of a key for which there is no room is told by the `on_full` of its rule.
    #[must_use]
    pub const fn with_max_keys(mut self, max_keys: NonZeroUsize) -> Self {
        self.max_keys = Some(max_keys);
        self
    }

    /// Most limiters that all rules together keep; `None` where only the cap of each rule holds.
    #[must_use]
    pub const fn max_keys(&self) -> Option<NonZeroUsize> {
        self.max_keys
    }

    /// Says which of several policies in turn this is: a larger number is a newer one. It matters where nodes with
    /// different values share a [store](Policy::with_store), as in a rolling change: a key is decided by the values
    /// of the newest revision that has taken from it, whichever node asks. Of policies with the same revision, or
    /// with none, those values are the newer that came in force later on their node: with the first policy that it
    /// loaded, or with one that was put in force since and changed them. One without is older than all that have one. So
    /// where nodes of the old policy may restart meanwhile, give a larger number with each change.
    #[must_use]
    pub const fn with_revision(mut self, revision: NonZeroU32) -> Self {
        self.revision = Some(revision);
        self
    }

    /// Which of several policies in turn this is, if it says so.
    #[must_use]
    pub const fn revision(&self) -> Option<NonZeroU32> {
        self.revision
    }

    /// Names the store that the limiters are to live in. A [`Gate`](crate::Gate) keeps them in process
    /// all the same: a gate over a store is asked in another way, and made of these settings.
    #[must_use]
    pub fn with_store(mut self, store: StoreSettings) -> Self {
        self.store = Some(store);
        self
    }

    /// The store that the limiters are to live in; `None` for this process.
    #[must_use]
    pub const fn store(&self) -> Option<&StoreSettings> {
        self.store.as_ref()
    }

    /// Its rules, in the order they were written.
    #[must_use]
    pub fn rules(&self) -> &[PolicyRule] {
        &self.rules
    }

    /// The rule of this name, and its number.
    pub(crate) fn named(
        &self,
        domain: &str,
        name: &str,
    ) -> Result<(usize, &PolicyRule), NoSuchRule> {
        let none = || NoSuchRule::new(domain, name, &self.rules);
        self.in_domain(domain).find(|(_, rule)| rule.name() == name).ok_or_else(none)
    }

    /// The same policy, whose rules are known by what those of the same names in another policy are known by.
    pub(crate) fn known_as(mut self, other: &Self) -> Self {
        for rule in &mut self.rules {
            if let Ok((_, known)) = other.named(rule.domain(), rule.name()) {
                rule.token.clone_from(&known.token);
            }
        }
        self
    }

    /// The rules of a domain with their numbers, in the order they were written.
    pub(crate) fn in_domain(&self, domain: &str) -> impl Iterator<Item = (usize, &PolicyRule)> {
        let numbers = self.by_domain.get(domain).map_or(&[][..], |domain| &domain.rules);
        numbers.iter().filter_map(|number| Some((*number, self.rules.get(*number)?)))
    }

    /// Calls `visit` with the rules of a domain that a descriptor may match and their numbers, in no order; all
    /// others do not match it.
    #[inline]
    pub(crate) fn visit_candidates<'a>(
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
