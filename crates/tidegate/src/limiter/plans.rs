//! The rules of keys: the rule of all keys, which may change; the plan of a key, looked up; or a rule that a call
//! supplies.
//!
//! Each call of a verb has a [`CallRule`] that names the rule; [`OfKey`] runs the step of the call under it, also
//! for a call that waits and asks several times.

use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError, RwLock};

use tidegate_core::{Rule, RuleErrors, Spec};

use super::KeyedLimiter;
use crate::clock::{Clock, Reading};
use crate::key::{Encoding, Fingerprint, Key};
use crate::step::{One, Step};
use crate::store::memory::{Limiters, Part, Preview};
use crate::wait::LimiterSource;

/// A function that looks up the plan of a key.
type PlanOf = dyn Fn(&[u8]) -> Plan + Send + Sync;

/// The rule of a key; `None` is the usual rule, as long as that was not changed.
pub(crate) type Plan = Option<Rule>;

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
    pub(super) first: Rule,
    /// The changed rule, after the first change.
    changed: OnceLock<RwLock<Rule>>,
    /// Held during a change.
    changing: Mutex<()>,
}

impl UsualRule {
    pub(super) fn new(first: Rule) -> Self {
        Self { first, changed: OnceLock::new(), changing: Mutex::default() }
    }

    /// The rule of a plan.
    pub(super) fn of<'a>(&'a self, plan: &'a Plan) -> &'a Rule {
        plan.as_ref().unwrap_or(&self.first)
    }

    /// The plan of keys that have no other: the changed rule, if there is one.
    pub(super) fn plan(&self) -> Plan {
        let changed = self.changed.get()?.read().unwrap_or_else(PoisonError::into_inner);
        Some(changed.clone())
    }

    /// Changes the rule, one change at a time. `put` puts the new rule in force, and calls its argument when it holds.
    pub(super) fn change<E>(
        &self,
        rule: &Rule,
        put: impl FnOnce(&dyn Fn()) -> Result<(), E>,
    ) -> Result<(), E> {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        // Made before the change, which then only replaces the rule in it.
        let changed = self.changed.get_or_init(|| RwLock::new(self.first.clone()));
        put(&|| {
            *changed.write().unwrap_or_else(PoisonError::into_inner) = rule.clone();
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
            // The function of the caller runs without the lock.
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

impl<C: Clock> KeyedLimiter<C> {
    /// Replaces the rule of all keys, including those that already have limiters: see
    /// [`Limiter::amend`](crate::Limiter::amend). The caps on keys stay; the new rule sets `max_memory`.
    ///
    /// The new rule decides immediately. A limiter is moved when its key is used next, or by this call, which returns
    /// when all are moved; no caller has to wait for that. The first change keeps the memory of packed states, about 30
    /// bytes for the largest number of keys so far, until this `KeyedLimiter` is dropped; later changes keep nothing.
    ///
    /// If keys have plans ([`KeyedLimiter::with_plans`]), this changes the rule of keys without a plan, each when it is
    /// used next; the bounds on memory stay.
    ///
    /// ```
    /// use tidegate::{KeyedLimiter, Spec};
    ///
    /// let limiter = KeyedLimiter::new(Spec::per_hour(10))?;
    /// assert!(limiter.admits("ada", 8));
    /// limiter.amend("20/h")?;
    /// assert_eq!(limiter.peek("ada", 1).remaining, 12);
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    ///
    /// # Errors
    /// Returns every invalid field of the spec, or a `max_memory` that is too small for the existing limiters; the old
    /// rule stays in force, and nothing is lost.
    pub fn amend(
        &self,
        spec: impl TryInto<Spec, Error: Into<RuleErrors>>,
    ) -> Result<(), RuleErrors> {
        let rule = Rule::new(spec)?;
        let changed = self.usual.change(&rule, |holds| match self.plans {
            Some(_) => {
                self.limiters.amend_usual(&rule);
                holds();
                Ok(())
            }
            None => {
                // The caps stay; `max_memory` is a value of the rule.
                let mut caps = self.caps.clone();
                caps.spec = *rule.spec();
                self.limiters.amend(
                    &rule,
                    &caps,
                    || self.clock.now(),
                    || {
                        holds();
                        self.queues.wake_all();
                    },
                )
            }
        });
        // With plans no waiter was woken yet.
        self.queues.wake_all();
        changed
    }

    /// Calls `plans` for each call to look up the plan of its key: a checked [`Rule`] of any algorithm, or `None` for
    /// the limiter's own rule. `plans` receives the [bytes](crate::Encoding::bytes) of the key: text as it is, numbers
    /// and addresses in the form that [`Key`] lists. Call this before the limiter is used, because it drops all
    /// limiters; a second call replaces the first lookup.
    ///
    /// A key whose plan changes keeps its used units: the call that finds the change brings the limiter up to date
    /// under the old plan and then puts the new plan in force, as [`KeyedLimiter::amend`] does for all keys. So a
    /// change by itself is neither a credit nor a reset. But time that passes under a faster plan drains at its rate
    /// until another plan is in force: for two limits on one caller use two keys, or two limiters. An unlimited plan
    /// counts nothing; units used before stay used when a limit comes back, and only a reservation taken before still
    /// gives back its unused units. A call can also supply a rule of its own: see [`Under`](crate::Under). If no key
    /// has a plan, and calls supply all rules, `plans` is `|_| None`.
    ///
    /// Plans are not kept, except the values of each limiter next to its state, so a caller that supplies other values
    /// with each call takes no more memory than any other. A limiter takes a few hundred bytes, compared with about 30
    /// under one rule for all keys. Keys for which there is no room share one limiter under the limiter's own rule,
    /// regardless of their plans, or are refused ([`OnFull`](crate::OnFull)). They are also refused if that rule is
    /// unlimited, which leaves nothing to share, or if their own plan would never admit the cost.
    ///
    /// `plans` is called once for each call, and again for each further attempt of a call that waits. It must be quick
    /// and must not use this limiter: for a call that may wait, it runs while all queues are locked.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, KeyedLimiter, Rule, Spec, Under};
    ///
    /// let per_hour = |limit| Spec::new(AlgorithmKind::SlidingLog, limit, Duration::from_secs(3_600));
    /// let large = Rule::new(per_hour(100))?;
    /// let limiter = KeyedLimiter::new(per_hour(2))?
    ///     .with_plans(move |key| (key == b"ada").then(|| large.clone()));
    ///
    /// assert_eq!(limiter.check("ada", 1).remaining, 99);
    /// assert_eq!(limiter.check("bob", 1).remaining, 1);
    ///
    /// // A rule that the call supplies; the key's usage carries over.
    /// let medium = Rule::new(per_hour(10))?;
    /// assert_eq!(limiter.check(Under(&medium, "bob"), 1).remaining, 8);
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use]
    pub fn with_plans(self, plans: impl Fn(&[u8]) -> Option<Rule> + Send + Sync + 'static) -> Self {
        self.with_lookup(PlanLookup(Box::new(plans)))
    }

    /// The limiter with an empty table of limiters that have rules of their own.
    pub(super) fn with_lookup(self, lookup: PlanLookup) -> Self {
        let plan = self.usual.plan();
        let limiters = Limiters::of_rules(self.usual.of(&plan), &self.caps);
        Self { limiters, plans: Some(lookup), early: false, ..self }
    }

    /// Wakes the waiters of the key after its plan has changed. Without this call they try again only at the time that
    /// was computed under the old plan. Callers that do not wait need no call of it.
    ///
    /// ```
    /// let limiter = tidegate::KeyedLimiter::new("2/h")?;
    /// // After the function of `with_plans` returns another plan for ada:
    /// limiter.plan_changed("ada");
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    pub fn plan_changed(&self, key: impl Key) {
        self.queues.wake(&self.seed.of(&key));
    }

    /// Looks up the plan of the key.
    pub(crate) fn plan(&self, key: &[u8]) -> Plan {
        let plan = self.plans.as_ref().and_then(|plans| (plans.0)(key));
        plan.or_else(|| self.usual.plan())
    }

    /// The rule of keys without a plan, before any change.
    #[cfg(feature = "tower")]
    pub(crate) fn usual_rule(&self) -> &Rule {
        &self.usual.first
    }

    /// The rule under which a call of [`KeyedLimiter::call_of`] was decided, if it is not [`KeyedLimiter::usual_rule`].
    #[cfg(feature = "tower")]
    pub(crate) fn other_rule_of(&self, one: &One) -> Plan {
        one.decided.values.clone().or_else(|| self.usual.plan())
    }
}

/// The limiter of one key.
#[derive(Debug)]
pub(crate) struct OfKey<'a, C> {
    pub(super) all: &'a KeyedLimiter<C>,
    pub(super) fingerprint: Fingerprint,
    pub(super) terms: CallRule<'a>,
}

impl<'a, C: Clock> OfKey<'a, C> {
    /// Passes `with` its part in a step, under the rule that holds now.
    #[inline]
    fn part<T>(&self, cost: u64, step: Step, with: impl FnOnce(&Part<'_>) -> T) -> T {
        let part = Part::alone(self.fingerprint, cost, step);
        match &self.terms {
            CallRule::Table => with(&part),
            CallRule::Own(rule) => with(&part.under(rule, false)),
            CallRule::Supplied(rule) => with(&part.under(rule, true)),
            CallRule::LookedUp(looked_up) => {
                let plan = looked_up.plan(self.all);
                with(&part.under(self.all.usual.of(&plan), false))
            }
        }
    }

    #[inline]
    fn reading(&self) -> Reading<'a> {
        self.all.reading(&self.all.clock)
    }
}

impl<C: Clock> LimiterSource for OfKey<'_, C> {
    #[inline]
    fn one(&self, cost: u64, step: Step) -> One {
        // The usual call is compiled by itself.
        if let CallRule::Table = self.terms {
            return self
                .all
                .limiters
                .one(&Part::alone(self.fingerprint, cost, step), self.reading());
        }
        let mut one = self.part(cost, step, |part| self.all.limiters.one(part, self.reading()));
        if let CallRule::LookedUp(looked_up) = &self.terms {
            // The caller learns which rule decided, because it may have changed during the wait.
            one.decided.values = looked_up.plan(self.all);
        }
        one
    }

    fn preview(&self) -> Option<Box<dyn Preview>> {
        Some(self.part(1, Step::Peek, |part| self.all.limiters.preview(part, self.reading())))
    }

    fn renew(&self) {
        if let CallRule::LookedUp(looked_up) = &self.terms {
            looked_up.renew();
        }
    }
}
