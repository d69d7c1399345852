//! A limiter for each key.

use std::sync::Arc;

use tidegate_core::{Decision, Rule, RuleErrors, Spec, Timestamp};

use super::engine::{LimiterCall, LimiterSource};
use super::key::ByKey;
use super::plans::{CallRule, Plan, PlanLookup, UsualRule};
use crate::clock::{Clock, Reading, SystemClock};
use crate::key::{Fingerprint, Key, Seed};
use crate::rules::{OnFull, RuleSpec};
use crate::step::{One, Step};
use crate::store::memory::{Limiters, Part, Preview};
use crate::wait::Queues;

/// Number of keys whose memory [`KeyedLimiter::check_many`] prefetches together.
const BATCH: usize = 16;

/// One limiter for each key, in bounded memory.
///
/// A key is any [`Key`]: text, bytes, a number, an address, or a tuple of these. Keys are kept only as fingerprints. An idle limiter may be dropped at any time, which changes no
/// decision. When every slot is taken, new keys share one limiter or are refused ([`OnFull`]). A
/// key that is being limited is never forgotten.
///
/// ```
/// use tidegate::{AlgorithmKind, KeyedLimiter, Spec};
///
/// let per_user = KeyedLimiter::new(Spec::per_hour(1).algorithm(AlgorithmKind::FixedWindow))?;
/// assert!(per_user.admits("alice", 1));
/// assert!(!per_user.admits("alice", 1));
/// assert!(per_user.admits("bob", 1));
/// # Ok::<(), tidegate::RuleErrors>(())
/// ```
///
/// All keys have one rule; [`with_plans`](Self::with_plans) gives each key its own, and
/// [`Under`](crate::Under) lets a call supply one.
///
/// Only the caller learns of a decision. To notify others, or to ban keys that are refused too
/// often, use a gate with one rule instead: it has the same limiter, with an
/// [`Observer`](crate::Observer) and a [`Ban`](crate::Ban). (A `Ban` can also be used next to a
/// limiter, by hand.)
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tidegate::{AlgorithmKind, Ban, Gate, Policy, RuleSpec, Setup, Spec};
/// use tidegate::{Answer, Descriptor, Request};
///
/// let (minute, hour) = (Duration::from_secs(60), Duration::from_secs(3_600));
/// let per_user = RuleSpec::new("per-user", Spec::new(AlgorithmKind::FixedWindow, 1, hour)).key(["user"]);
/// let log = |_: &Request<'_>, answer: &Answer<'_>| println!("{:?}", answer.retry_after());
/// let setup = Setup::new(Policy::new(vec![per_user])?)
///     .observer(Arc::new(log))
///     .ban("default", "per-user", Ban::new(10, minute, hour)?)?;
/// let gate = Gate::new(setup);
///
/// let entries = [("user", "alice")];
/// let alice = [Descriptor::new(&entries)];
/// assert!(gate.check(&Request::new("default", &alice)).is_allowed());
/// assert!(!gate.check(&Request::new("default", &alice)).is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct KeyedLimiter<C = SystemClock> {
    pub(super) limiters: Limiters,
    /// Looks up plans, if each limiter has a rule of its own.
    pub(super) plans: Option<PlanLookup>,
    pub(super) usual: UsualRule,
    /// The caps, and the treatment of keys beyond them.
    pub(super) caps: RuleSpec,
    /// The base of packed times; `None` if the clock may step back.
    pub(super) base: Option<Timestamp>,
    pub(super) seed: Seed,
    pub(crate) clock: C,
    /// The waiters.
    pub(super) queues: Queues<Fingerprint>,
    /// True if the clock is read before a key's limiter is locked.
    pub(super) early: bool,
}

impl KeyedLimiter {
    /// Creates limiters that use the system's clock, of a [`Spec`] or of a rate such as `"50/s"`; at most a million, more
    /// keys share one limiter.
    ///
    /// ```
    /// let limiter = tidegate::KeyedLimiter::new("2/h")?;
    /// assert!(limiter.admits("ada", 2) && limiter.admits(42, 2));
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    ///
    /// # Errors
    /// Returns the error of a text that is no rate, or every invalid field of the spec.
    pub fn new(spec: impl TryInto<Spec, Error: Into<RuleErrors>>) -> Result<Self, RuleErrors> {
        Self::with_clock(spec, SystemClock::new())
    }
}

impl<C: Clock> KeyedLimiter<C> {
    /// Creates limiters that use `clock`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{KeyedLimiter, ManualClock};
    ///
    /// let clock = ManualClock::new();
    /// let limiter = KeyedLimiter::with_clock("1/s", clock.clone())?;
    /// assert!(limiter.admits("ada", 1) && !limiter.admits("ada", 1));
    /// clock.advance(Duration::from_secs(1));
    /// assert!(limiter.admits("ada", 1));
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    ///
    /// # Errors
    /// Returns the error of a text that is no rate, or every invalid field of the spec.
    pub fn with_clock(
        spec: impl TryInto<Spec, Error: Into<RuleErrors>>,
        clock: C,
    ) -> Result<Self, RuleErrors> {
        let spec = spec.try_into().map_err(Into::into)?;
        let base = clock.never_steps_back().then(|| clock.now());
        let (rule, caps) = (Rule::new(spec)?, RuleSpec::new("", spec));
        let limiters = Limiters::new(&rule, &caps, base);
        Ok(Self {
            early: limiters.reads_early(),
            limiters,
            plans: None,
            usual: UsualRule::new(rule),
            caps,
            base,
            seed: Seed::random(),
            clock,
            queues: Queues::new(),
        })
    }

    /// Sets another cap and drops all limiters. Values outside 1 to 10^9 are clamped.
    ///
    /// ```
    /// use tidegate::{KeyedLimiter, OnFull};
    ///
    /// let limiter = KeyedLimiter::new("2/h")?.with_max_keys(1, OnFull::Refuse);
    /// assert!(limiter.admits("ada", 1));
    /// assert!(!limiter.admits("bob", 1), "there is no room for another key");
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use]
    pub fn with_max_keys(mut self, max_keys: usize, on_full: OnFull) -> Self {
        self.caps = self.caps.max_keys(max_keys, on_full);
        match self.plans.take() {
            None => {
                let plan = self.usual.plan();
                self.limiters = Limiters::new(self.usual.of(&plan), &self.caps, self.base);
                self
            }
            Some(lookup) => self.with_lookup(lookup),
        }
    }

    /// Takes `cost` units of the key's limiter if they fit now. Faster than
    /// [`KeyedLimiter::check`], because it computes no other value of a decision.
    ///
    /// ```
    /// let limiter = tidegate::KeyedLimiter::new("2/h")?;
    /// let admitted = ["ada", "ada", "ada", "bob"].map(|user| limiter.admits(user, 1));
    /// assert_eq!(admitted, [true, true, false, true]);
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use = "a request goes on even if it was refused, unless the result is looked at"]
    #[inline]
    pub fn admits<'r>(&self, key: impl ByKey<'r>, cost: u64) -> bool {
        let admitted = self.admits_fast(&self.clock, key.key(), cost);
        admitted.unwrap_or_else(|| self.one(&key, cost, Step::Decide).verdict.is_allowed())
    }

    /// Takes `cost` units of the key's limiter if they fit now and no caller waits for them, and
    /// returns the decision. An unlimited key returns the largest possible values.
    ///
    /// ```
    /// let limiter = tidegate::KeyedLimiter::new("2/h")?;
    /// assert_eq!(limiter.check("ada", 1).remaining, 1);
    /// assert!(limiter.check("ada", 2).retry_after().is_some());
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use = "a request goes on even if it was refused, unless the answer is looked at"]
    pub fn check<'r>(&self, key: impl ByKey<'r>, cost: u64) -> Decision {
        self.one(&key, cost, Step::Ask).decision
    }

    /// Returns the decision that [`KeyedLimiter::check`] would return, and takes nothing: see [`Limiter::peek`](crate::Limiter::peek).
    ///
    /// ```
    /// let limiter = tidegate::KeyedLimiter::new("100/h")?;
    /// assert!(limiter.admits("ada", 60));
    /// assert_eq!(["ada", "bob"].map(|user| limiter.peek(user, 1).remaining), [40, 100]);
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use]
    pub fn peek<'r>(&self, key: impl ByKey<'r>, cost: u64) -> Decision {
        self.one(&key, cost, Step::Peek).decision
    }

    /// Gives `units` back to the key's limiter, at most as many as are used.
    ///
    /// ```
    /// let limiter = tidegate::KeyedLimiter::new("2/h")?;
    /// assert!(limiter.admits("ada", 2));
    /// assert_eq!(limiter.refund("ada", 1).remaining, 1);
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    pub fn refund<'r>(&self, key: impl ByKey<'r>, units: u64) -> Decision {
        self.one(&key, units, Step::Refund).decision
    }

    /// Resets the key's limiter, and wakes its waiters.
    ///
    /// Other keys are not affected, and neither is the overflow limiter: a key that it decided for
    /// has no limiter of its own to reset.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, KeyedLimiter, Spec};
    ///
    /// let per_user = KeyedLimiter::new(Spec::per_hour(1).algorithm(AlgorithmKind::FixedWindow))?;
    /// assert!(per_user.admits("alice", 1));
    /// assert!(!per_user.admits("alice", 1));
    /// per_user.reset("alice");
    /// assert!(per_user.admits("alice", 1));
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    pub fn reset(&self, key: impl Key) {
        let fingerprint = self.seed.of(&key);
        let plan = key.encode(|key| self.plan(key.bytes()));
        let rule = self.usual.of(&plan);
        let terms = || if self.plans.is_none() { CallRule::Table } else { CallRule::Own(rule) };
        if rule.begins_in_use() {
            // A limiter that does not exist would begin with units in use; so it exists first.
            self.call(fingerprint, terms(), 0).step(Step::Ask);
        }
        self.call(fingerprint, terms(), 0).step(Step::Reset { remembers: true });
    }

    /// The number of limiters.
    ///
    /// ```
    /// let limiter = tidegate::KeyedLimiter::new("2/h")?;
    /// assert!(limiter.admits("ada", 1) && limiter.admits("bob", 1));
    /// assert_eq!(limiter.keys(), 2);
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use]
    pub fn keys(&self) -> usize {
        self.limiters.keys()
    }

    /// Replaces the rule of all keys, including those that already have limiters: see
    /// [`Limiter::amend`](crate::Limiter::amend). The caps on keys stay; the new rule sets `max_memory`.
    ///
    /// The new rule decides immediately. A limiter is moved when its key is used next, or by this
    /// call, which returns when all are moved; no caller has to wait for that. The first change
    /// keeps the memory of packed states, about 30 bytes for the largest number of keys so far,
    /// until this `KeyedLimiter` is dropped; later changes keep nothing.
    ///
    /// If keys have plans ([`KeyedLimiter::with_plans`]), this changes the rule of keys without a
    /// plan, each when it is used next; the bounds on memory stay.
    ///
    /// ```
    /// use tidegate::{KeyedLimiter, Spec};
    ///
    /// let limiter = KeyedLimiter::new(Spec::per_hour(10))?;
    /// assert!(limiter.admits("ada", 8));
    /// limiter.amend(Spec::per_hour(20))?;
    /// assert_eq!(limiter.peek("ada", 1).remaining, 12);
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    ///
    /// # Errors
    /// Returns every invalid field of the spec, or a `max_memory` that is too small for the
    /// existing limiters; the old rule stays in force, and nothing is lost.
    pub fn amend(&self, spec: Spec) -> Result<(), RuleErrors> {
        let rule = Rule::new(spec)?;
        let changed = self.usual.change(&rule, |holds| match self.plans {
            Some(_) => {
                self.limiters.amend_usual(&rule);
                holds();
                Ok(())
            }
            None => {
                let caps = RuleSpec { spec, ..self.caps.clone() };
                let published = || {
                    holds();
                    self.queues.wake_all();
                };
                self.limiters.amend(&rule, &caps, || self.clock.now(), published)
            }
        });
        self.queues.wake_all();
        changed
    }

    /// Decides independent requests of one unit each, in order; returns for each whether it goes on.
    ///
    /// This is faster than separate calls if the limiters are not in the processor's caches: the
    /// memory of up to 16 keys is prefetched, and then they are decided. A limiter with plans decides its keys one by
    /// one, without prefetching.
    ///
    /// ```
    /// let limiter = tidegate::KeyedLimiter::new("2/h")?;
    /// let admitted = limiter.check_many(&["ada", "ada", "bob", "ada"]);
    /// assert_eq!(admitted, [true, true, true, false]);
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use = "the result says which requests were refused"]
    pub fn check_many<K: Key>(&self, keys: &[K]) -> Vec<bool> {
        if self.plans.is_some() {
            return keys.iter().map(|key| self.admits(key, 1)).collect();
        }
        let mut verdicts = Vec::with_capacity(keys.len());
        for batch in keys.chunks(BATCH) {
            let (early, clock) = self.reading(&self.clock).apart();
            let mut fingerprints = [Fingerprint::FIRST; BATCH];
            for (fingerprint, key) in fingerprints.iter_mut().zip(batch) {
                *fingerprint = self.seed.of(&key);
            }
            let fingerprints = &fingerprints[..batch.len()];
            std::hint::black_box(self.limiters.touch(fingerprints));
            let admits = |fingerprint| match self.queues.are_idle() {
                true => self.limiters.admits(fingerprint, 1, early, clock),
                false => {
                    let one = self.call(fingerprint, CallRule::Table, 1).step(Step::Decide);
                    one.verdict.is_allowed()
                }
            };
            verdicts.extend(fingerprints.iter().copied().map(admits));
        }
        verdicts
    }

    /// Calls `plans` for each call to look up the plan of its key: a checked [`Rule`] of any
    /// algorithm, or `None` for the limiter's own rule. `plans` receives the [bytes](crate::Encoding::bytes)
    /// of the key: text as it is, numbers and addresses in the form that [`Key`] lists. Call this before the limiter is used,
    /// because it drops all limiters; a second call replaces the first lookup.
    ///
    /// A key whose plan changes keeps its used units: the call that finds the change brings the
    /// limiter up to date under the old plan and then puts the new plan in force, as [`KeyedLimiter::amend`] does for
    /// all keys. So a change by itself is neither a credit nor a reset. But time that passes under a faster plan drains
    /// at its rate until another plan is in force: for two limits on one caller use two keys, or two limiters. An
    /// unlimited plan counts nothing; units used before stay used when a limit comes back, and only a reservation taken
    /// before still gives back its unused units. A call can also supply a rule of its own: see
    /// [`Under`](crate::Under). If no key has a plan, and calls supply all rules, `plans` is `|_| None`.
    ///
    /// Plans are not kept, except the values of each limiter next to its state, so a caller that
    /// supplies other values with each call takes no more memory than any other. A limiter takes a
    /// few hundred bytes, compared with about 30 under one rule for all keys. Keys for which there
    /// is no room share one limiter under the limiter's own rule, regardless of their plans, or are refused
    /// ([`OnFull`](crate::OnFull)). They are also refused if that rule is unlimited, which leaves nothing to share, or
    /// if their own plan would never admit the cost.
    ///
    /// `plans` is called once for each call, and again for each further attempt of a call that
    /// waits. It must be quick and must not use this limiter: for a call that may wait, it runs
    /// while all queues are locked.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, KeyedLimiter, Rule, Spec, Under};
    ///
    /// let per_hour = |limit| Spec::new(AlgorithmKind::SlidingLog, limit, Duration::from_secs(3_600));
    /// let large = Arc::new(Rule::new(per_hour(100))?);
    /// let limiter = KeyedLimiter::new(per_hour(2))?
    ///     .with_plans(move |key| (key == b"ada").then(|| Arc::clone(&large)));
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
    pub fn with_plans(
        self,
        plans: impl Fn(&[u8]) -> Option<Arc<Rule>> + Send + Sync + 'static,
    ) -> Self {
        self.with_lookup(PlanLookup(Box::new(plans)))
    }

    /// The limiter with an empty table of limiters that have rules of their own.
    pub(super) fn with_lookup(self, lookup: PlanLookup) -> Self {
        let plan = self.usual.plan();
        let limiters = Limiters::of_rules(self.usual.of(&plan), &self.caps);
        Self { limiters, plans: Some(lookup), early: false, ..self }
    }

    /// Wakes the waiters of the key after its plan has changed. Without this call they try again
    /// only at the time that was computed under the old plan. Callers that do not wait need no call
    /// of it.
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

    /// The rule under which a call of [`KeyedLimiter::call_of`] was decided, if it is not
    /// [`KeyedLimiter::usual_rule`].
    #[cfg(feature = "tower")]
    pub(crate) fn other_rule_of(&self, one: &One) -> Plan {
        one.values.clone().or_else(|| self.usual.plan())
    }

    /// [`KeyedLimiter::admits`] with a reading of `clock`; `None` if a caller waits, or limiters
    /// have rules of their own.
    #[inline]
    pub(super) fn admits_fast<T: Clock>(
        &self,
        clock: &T,
        key: &impl Key,
        cost: u64,
    ) -> Option<bool> {
        if self.plans.is_some() || !self.queues.are_idle() {
            return None;
        }
        let (early, clock) = self.reading(clock).apart();
        Some(self.limiters.admits(self.seed.of(key), cost, early, clock))
    }

    /// Runs one step of a verb that does not wait, under the rule that holds for the key now.
    #[inline]
    pub(super) fn one<'r>(&self, key: &impl ByKey<'r>, cost: u64, step: Step) -> One {
        let fingerprint = self.seed.of(key.key());
        if self.plans.is_none() {
            return self.call(fingerprint, CallRule::Table, cost).step(step);
        }
        if let Some(rule) = key.rule() {
            return self.call(fingerprint, CallRule::Supplied(rule), cost).step(step);
        }
        let plan = key.key().encode(|key| self.plan(key.bytes()));
        self.call(fingerprint, CallRule::Own(self.usual.of(&plan)), cost).step(step)
    }

    /// A call that takes or returns `cost` units of a key.
    #[inline]
    pub(super) const fn call<'a>(
        &'a self,
        fingerprint: Fingerprint,
        terms: CallRule<'a>,
        cost: u64,
    ) -> LimiterCall<'a, Fingerprint, OfKey<'a, C>> {
        let source = OfKey { all: self, fingerprint, terms };
        LimiterCall::new(&self.queues, fingerprint, source, cost)
    }

    #[inline]
    pub(super) fn reading<'a, T: Clock>(&self, clock: &'a T) -> Reading<'a> {
        Reading::if_wanted(self.early, clock)
    }
}

/// The limiter of one key.
#[derive(Debug)]
pub(crate) struct OfKey<'a, C> {
    all: &'a KeyedLimiter<C>,
    fingerprint: Fingerprint,
    terms: CallRule<'a>,
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
            one.values = looked_up.plan(self.all);
        }
        one
    }

    fn preview(&self) -> Box<dyn Preview> {
        self.part(1, Step::Peek, |part| self.all.limiters.preview(part, self.reading()))
    }

    fn renew(&self) {
        if let CallRule::LookedUp(looked_up) = &self.terms {
            looked_up.renew();
        }
    }
}
