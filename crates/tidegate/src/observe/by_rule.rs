//! Something for each rule of the policies that an observer sees, found without the names of the rules.
//!
//! The observers of metrics and statistics keep their counters in it, because a decision must not look up a name.

use std::collections::HashMap;
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
    /// Locked when a policy is seen for the first time.
    known: Mutex<HashMap<Name, Arc<T>>>,
    make: Box<dyn Fn(&PolicyRule) -> T + Send + Sync>,
}

/// The domain and the name of a rule.
type Name = (Box<str>, Box<str>);

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
        let before = known.len();
        let of_all = rules
            .iter()
            .map(|rule| {
                let name = (rule.domain().into(), rule.name().into());
                Arc::clone(known.entry(name).or_insert_with(|| Arc::new((self.make)(rule))))
            })
            .collect();
        // Only with a new rule, because no other call can make this list longer.
        if known.len() > before {
            // No policy in use was seen with a rule that only this map has.
            known.retain(|_, of_rule| Arc::strong_count(of_rule) > 1);
        }
        of_all
    }
}

impl<T> ByRule<T> {
    fn known(&self) -> MutexGuard<'_, HashMap<Name, Arc<T>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for ByRule<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ByRule").field(&self.known().len()).finish()
    }
}
