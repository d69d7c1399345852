//! Something for each rule of the policies that an observer sees, found without the names of the rules.
//!
//! The observers of metrics and statistics keep their counters in it, because a decision must not look up a name.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::next_owner;
use crate::answer::{Answer, Matched};
use crate::rules::{PolicyInternals as _, PolicyRule};

/// One `T` for each rule. Rules of the same domain and name share their `T`, so it outlives the replacement of a
/// policy. When a rule is first seen, the `T` of each other rule is dropped, unless an answer was seen of a policy that
/// has the rule and is in use.
pub(super) struct ByRule<T> {
    /// The number of this observer among all of the process.
    number: usize,
    /// Each rule as it was last seen, which is shared with its policy. Locked when a policy is seen for the first time.
    known: Mutex<Vec<(PolicyRule, Arc<T>)>>,
    make: Box<dyn Fn(&PolicyRule) -> T + Send + Sync>,
}

/// The domain and the name of a rule.
fn name_of(rule: &PolicyRule) -> (&str, &str) {
    (rule.domain(), rule.name())
}

impl<T: Send + Sync + 'static> ByRule<T> {
    /// Creates it without rules; `make` is called when a rule is first seen.
    pub(super) fn new(make: impl Fn(&PolicyRule) -> T + Send + Sync + 'static) -> Self {
        Self { number: next_owner(), known: Mutex::default(), make: Box::new(make) }
    }

    /// Calls `count` with each rule of an answer of a gate.
    #[inline]
    pub(super) fn each(&self, answer: &Answer<'_>, count: impl Fn(&Matched<'_>, &T)) {
        let Some(policy) = answer.rules.policy() else { return };
        // The list is kept with the policy, under the number of this observer: the index of a rule finds its
        // counters.
        let of_all = policy.attached(self.number, || self.of_all(policy.rules()));
        // The index of a rule is the same in the list and in the policy that the answer keeps.
        for matched in answer.all() {
            if let Some(of_rule) =
                of_all.and_then(|of_all| of_all.get(matched.reply.number as usize))
            {
                count(&matched, of_rule);
            }
        }
    }

    /// Returns the `T` of each of some rules, in their order.
    pub(super) fn of_all(&self, rules: &[PolicyRule]) -> Vec<Arc<T>> {
        let mut known = self.known();
        let before: HashMap<_, _> = known.iter().map(|(rule, one)| (name_of(rule), one)).collect();
        let mut has_new = false;
        let of_all: Vec<_> = rules
            .iter()
            .map(|rule| match before.get(&name_of(rule)) {
                Some(of_rule) => Arc::clone(of_rule),
                None => {
                    has_new = true;
                    Arc::new((self.make)(rule))
                }
            })
            .collect();
        let named: HashSet<_> = rules.iter().map(name_of).collect();
        known.retain(|(rule, of_rule)| {
            // No policy in use was seen with a rule that only this list has; looked for only if the list grows.
            !named.contains(&name_of(rule)) && (!has_new || Arc::strong_count(of_rule) > 1)
        });
        known.extend(rules.iter().cloned().zip(of_all.iter().cloned()));
        of_all
    }
}

impl<T> ByRule<T> {
    fn known(&self) -> MutexGuard<'_, Vec<(PolicyRule, Arc<T>)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for ByRule<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ByRule").field(&self.known().len()).finish()
    }
}
