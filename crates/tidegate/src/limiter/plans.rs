//! Rules that differ from the rule of all keys: the plan of a key, looked up, or a rule that a call supplies.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use tidegate_core::Rule;

use super::KeyedLimiter;
use crate::clock::Clock;
use crate::key::Encoding;

/// A function that looks up the plan of a key.
type PlanOf = dyn Fn(&[u8]) -> Plan + Send + Sync;

/// The rule of a key; `None` is the usual rule, as long as that was not changed.
pub(crate) type Plan = Option<Arc<Rule>>;

/// Looks up the plans of keys; each key has a limiter under a rule of its own.
pub(super) struct PlanLookup(pub(super) Box<PlanOf>);

impl fmt::Debug for PlanLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlanLookup").finish_non_exhaustive()
    }
}

/// The rule of all keys that have no plan.
#[derive(Debug)]
pub(super) struct UsualRule {
    pub(super) first: Arc<Rule>,
    /// The changed rule, after the first change.
    changed: OnceLock<RwLock<Arc<Rule>>>,
    /// Held during a change.
    changing: Mutex<()>,
}

impl UsualRule {
    pub(super) fn new(first: Rule) -> Self {
        Self { first: Arc::new(first), changed: OnceLock::new(), changing: Mutex::default() }
    }

    /// The rule of a plan.
    pub(super) fn of<'a>(&'a self, plan: &'a Plan) -> &'a Rule {
        plan.as_ref().unwrap_or(&self.first)
    }

    /// The plan of keys that have no other: the changed rule, if there is one.
    pub(super) fn plan(&self) -> Plan {
        let changed = self.changed.get()?.read().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(&changed))
    }

    /// Changes the rule, one change at a time. `put` puts the new rule in force, and calls its
    /// argument when it holds.
    pub(super) fn change<E>(
        &self,
        rule: &Rule,
        put: impl FnOnce(&dyn Fn()) -> Result<(), E>,
    ) -> Result<(), E> {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = self.changed.get_or_init(|| RwLock::new(Arc::clone(&self.first)));
        put(&|| {
            *changed.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rule.clone());
        })
    }
}

/// The rule that decides about a call.
#[derive(Debug)]
pub(super) enum CallRule<'a> {
    /// The rule of the table.
    Table,
    /// The key's own rule.
    Own(&'a Rule),
    /// The rule that the call supplies.
    Supplied(&'a Rule),
    /// The key's own rule, looked up for each attempt.
    LookedUp(Box<LookedUp>),
}

/// The plan of a key for which a call may wait, looked up once for each attempt.
#[derive(Debug)]
pub(crate) struct LookedUp {
    key: Box<[u8]>,
    /// `None` until it is looked up.
    plan: Mutex<Option<Plan>>,
}

impl LookedUp {
    pub(super) fn new(key: Encoding<'_>) -> Self {
        Self { key: key.bytes().into(), plan: Mutex::new(None) }
    }

    /// Returns the plan of the current attempt, and looks it up if necessary.
    pub(super) fn plan<C: Clock>(&self, all: &KeyedLimiter<C>) -> Plan {
        let known = self.plan.lock().unwrap_or_else(PoisonError::into_inner).clone();
        known.unwrap_or_else(|| {
            let plan = all.plan(&self.key);
            self.set(Some(plan.clone()));
            plan
        })
    }

    /// Makes the next attempt look the plan up again.
    pub(super) fn renew(&self) {
        self.set(None);
    }

    fn set(&self, plan: Option<Plan>) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = plan;
    }
}
