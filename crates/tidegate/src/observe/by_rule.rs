//! Something for each rule of the policies that an observer sees, found without the names of the rules.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use crate::answer::{Answer, Matched};
use crate::rules::{Identity, PolicyRule};

/// One `T` for each rule. Rules of the same domain and name share theirs, so it lasts when a policy is replaced. That of
/// a rule is dropped when no policy or answer has the rule any more and another rule is added.
pub(super) struct ByRule<T> {
    /// In the order of their tokens.
    known: ArcSwap<Vec<Known<T>>>,
    /// Locked while rules are added.
    adding: Mutex<()>,
    make: Box<dyn Fn(&PolicyRule) -> T + Send + Sync>,
}

struct Known<T> {
    identity: Identity,
    domain: Box<str>,
    name: Box<str>,
    of_rule: Arc<T>,
}

impl<T> Clone for Known<T> {
    fn clone(&self) -> Self {
        let Self { identity, domain, name, of_rule } = self;
        let (identity, of_rule) = (identity.clone(), Arc::clone(of_rule));
        Self { identity, domain: domain.clone(), name: name.clone(), of_rule }
    }
}

impl<T> ByRule<T> {
    /// Creates it without rules; `make` is called when a rule is first seen.
    pub(super) fn new(make: impl Fn(&PolicyRule) -> T + Send + Sync + 'static) -> Self {
        Self { known: ArcSwap::default(), adding: Mutex::default(), make: Box::new(make) }
    }

    /// Calls `count` with each rule of an answer.
    #[inline]
    pub(super) fn each(&self, answer: &Answer<'_>, count: impl Fn(&Matched<'_>, &T)) {
        let mut known = self.known.load();
        for matched in answer.all() {
            let identity = matched.rule().identity();
            let mut found = find(&known, identity);
            if found.is_none() {
                self.add(answer.rules.all());
                known = self.known.load();
                found = find(&known, identity);
            }
            if let Some(found) = found {
                count(&matched, &found.of_rule);
            }
        }
    }

    /// Returns what there is for each of some rules, in their order.
    pub(super) fn of_all(&self, rules: &[PolicyRule]) -> Vec<Arc<T>> {
        let of_all = |known: &[Known<T>]| -> Option<Vec<_>> {
            let of_rule = |rule: &PolicyRule| {
                find(known, rule.identity()).map(|one| Arc::clone(&one.of_rule))
            };
            rules.iter().map(of_rule).collect()
        };
        of_all(&self.known.load()).unwrap_or_else(|| {
            self.add(rules);
            of_all(&self.known.load()).unwrap_or_default()
        })
    }

    /// Adds the rules of a policy.
    #[cold]
    fn add(&self, rules: &[PolicyRule]) {
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.known.load();
        let by_name: HashMap<_, _> =
            known.iter().map(|one| ((&*one.domain, &*one.name), &one.of_rule)).collect();
        let is_new = |rule: &&PolicyRule| {
            rule.identity().is_some() && find(&known, rule.identity()).is_none()
        };
        let added = rules.iter().filter(is_new).map(|rule| {
            let of_rule = by_name.get(&(rule.domain(), rule.name())).map(|known| Arc::clone(known));
            let of_rule = of_rule.unwrap_or_else(|| Arc::new((self.make)(rule)));
            let (identity, domain) = (rule.identity().clone(), rule.domain().into());
            Known { identity, domain, name: rule.name().into(), of_rule }
        });
        let in_use = known.iter().filter(|one| one.identity.is_shared()).cloned();
        let mut all: Vec<_> = in_use.chain(added).collect();
        all.sort_unstable_by_key(|one| one.identity.address());
        self.known.store(Arc::new(all));
    }
}

#[inline]
fn find<'a, T>(known: &'a [Known<T>], identity: &Identity) -> Option<&'a Known<T>> {
    let found = known.binary_search_by_key(&identity.address(), |one| one.identity.address());
    known.get(found.ok()?)
}

impl<T> fmt::Debug for ByRule<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ByRule").field(&self.known.load().len()).finish()
    }
}
