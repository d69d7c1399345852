//! Rules beside the one of all keys: a key's plan, which is looked up, or what a call supplies.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use tidegate_core::Rule;

use super::KeyedLimiter;
use crate::clock::Clock;
#[cfg(feature = "tower")]
use crate::step::One;
use crate::store::memory::Limiters;

/// Looks up the plan of a key.
type PlanOf = dyn Fn(&[u8]) -> Plan + Send + Sync;

/// The rule of a key; `None` is the usual one, as long as that was not changed.
pub(crate) type Plan = Option<Arc<Rule>>;

/// Looks up the plans of keys, each of which has a limiter under a rule of its own.
pub(super) struct Lookup(Box<PlanOf>);

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup").finish_non_exhaustive()
    }
}

/// The rule of all keys that have no plan.
#[derive(Debug)]
pub(super) struct UsualRule {
    first: Arc<Rule>,
    /// What it was changed to, once it was.
    changed: OnceLock<RwLock<Arc<Rule>>>,
    /// Held by whoever changes it.
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

    /// The plan of keys that have no other: what it was changed to.
    pub(super) fn plan(&self) -> Plan {
        let changed = self.changed.get()?.read().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(&changed))
    }

    /// Changes it as `put` puts it in force, one change after another. `put` calls its argument once the rule holds.
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

/// The rule that a call is under.
#[derive(Debug)]
pub(super) enum Terms<'a> {
    /// The rule of the table.
    Table,
    /// The key's own.
    Own(&'a Rule),
    /// The one that the call supplies.
    Supplied(&'a Rule),
    /// The key's own whenever the call asks.
    LookedUp(Box<LookedUp>),
}

/// The plan of a key for which a call may wait, looked up once for each time that it asks.
#[derive(Debug)]
pub(crate) struct LookedUp {
    key: Box<[u8]>,
    /// `None` until it is looked up.
    plan: Mutex<Option<Plan>>,
}

impl LookedUp {
    pub(super) fn new(key: &[u8]) -> Self {
        Self { key: key.into(), plan: Mutex::new(None) }
    }

    /// The plan under which the call asked last; looked up where it has not asked yet.
    pub(super) fn plan<C: Clock>(&self, all: &KeyedLimiter<C>) -> Plan {
        let known = self.plan.lock().unwrap_or_else(PoisonError::into_inner).clone();
        known.unwrap_or_else(|| {
            let plan = all.plan(&self.key);
            self.set(Some(plan.clone()));
            plan
        })
    }

    /// Has it looked up again.
    pub(super) fn renew(&self) {
        self.set(None);
    }

    fn set(&self, plan: Option<Plan>) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = plan;
    }
}

impl<C: Clock> KeyedLimiter<C> {
    /// Looks up the plan of a key with `plans` in each call: a checked [`Rule`] of any algorithm; `None` is the
    /// limiter's own rule. Called before the limiter is asked, for its keys start fresh; called again, the last
    /// lookup holds.
    ///
    /// A key whose plan changes keeps what it has used: the call that finds the change settles time under the old
    /// plan, and then puts the new one in force, as [`KeyedLimiter::amend`] does for all keys. So no change is a
    /// credit or a reset by itself. Time that passes under a faster plan does drain at its rate, until another is
    /// in force: two limits that are to hold at once for one caller need two keys, or two limiters. Under an
    /// unlimited plan nothing is counted, and what was used before stays used when a limit comes back; only a
    /// reservation that was taken before still gives back what it did not use. A call can also supply a rule of
    /// its own: see [`Under`](crate::Under).
    ///
    /// Plans are not kept, but for the values of each limiter beside its state, so a caller that brings other
    /// values with each call takes no more memory than any other; a limiter takes a few hundred bytes, where one
    /// rule for all keys takes about 30. Keys for which there is no room share one limiter under the limiter's own
    /// rule, whatever their plans, or are refused ([`OnFull`](crate::OnFull)); also where that rule is unlimited,
    /// and so has nothing to share, and where their own plan would never admit the cost.
    ///
    /// `plans` is called once for each call, and for one that waits again whenever its turn may have come. It must
    /// be quick, and must not ask this limiter: for a call that may wait, it runs while all queues are held.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidegate::{AlgorithmKind, KeyedLimiter, Micros, Rule, Spec, Under};
    ///
    /// let per_hour = |limit| Spec::new(AlgorithmKind::SlidingLog, limit, Micros::from_secs(3_600));
    /// let large = Arc::new(Rule::new(per_hour(100))?);
    /// let limiter = KeyedLimiter::new(per_hour(2))?
    ///     .with_plans(move |key| (key == b"ada").then(|| Arc::clone(&large)));
    ///
    /// assert_eq!(limiter.check("ada", 1).remaining, 99);
    /// assert_eq!(limiter.check("bob", 1).remaining, 1);
    ///
    /// // A rule that the call supplies: what was used stays used.
    /// let medium = Rule::new(per_hour(10))?;
    /// assert_eq!(limiter.check(Under(&medium, "bob"), 1).remaining, 8);
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use]
    pub fn with_plans(
        self,
        plans: impl Fn(&[u8]) -> Option<Arc<Rule>> + Send + Sync + 'static,
    ) -> Self {
        self.with_lookup(Lookup(Box::new(plans)))
    }

    /// Lets calls supply rules of their own ([`Under`](crate::Under)), without a lookup of plans. Called before the
    /// limiter is asked, for its keys start fresh.
    #[must_use]
    pub fn with_limit_from_request(self) -> Self {
        self.with_plans(|_| None)
    }

    /// The limiter with an empty table of limiters that have rules of their own.
    pub(super) fn with_lookup(self, lookup: Lookup) -> Self {
        let plan = self.usual.plan();
        let limiters = Limiters::of_rules(self.usual.of(&plan), &self.caps);
        Self { limiters, plans: Some(lookup), early: false, ..self }
    }

    /// Wakes those who wait for the key, which has another plan: else they ask again only when what they
    /// were told would be over. A caller that does not wait needs no call of it.
    pub fn plan_changed(&self, key: impl AsRef<[u8]>) {
        self.queues.wake(&self.seed.of_bytes(key.as_ref()));
    }

    /// The plan of the key, looked up.
    pub(crate) fn plan(&self, key: &[u8]) -> Plan {
        let plan = self.plans.as_ref().and_then(|plans| (plans.0)(key));
        plan.or_else(|| self.usual.plan())
    }

    /// The rule under which a call of [`KeyedLimiter::call_of`] was decided.
    #[cfg(feature = "tower")]
    pub(crate) fn rule_of(&self, one: &One) -> Arc<Rule> {
        let plan = one.figures.clone().or_else(|| self.usual.plan());
        plan.unwrap_or_else(|| Arc::clone(&self.usual.first))
    }
}
