//! A limiter for each key: the verbs of [`KeyedLimiter`], over a table of limiters in memory.
//!
//! `plans` says which rule decides about a key; `waiting`, `reservation` and `counted` add verbs.

use tidegate_core::{Decision, Rule, RuleErrors, Spec, Timestamp};

use super::counted::counted;
use super::key::ByKey;
use super::plans::{CallRule, OfKey, PlanLookup, UsualRule};
use crate::clock::{Clock, Reading, SystemClock};
use crate::key::{Fingerprint, Key, Seed};
use crate::rules::{OnFull, RuleSpec};
use crate::stats::Statistics;
use crate::step::{One, Step};
use crate::store::memory::Limiters;
use crate::wait::{LimiterCall, Queues};

/// Number of keys whose memory [`KeyedLimiter::check_many`] prefetches together.
const BATCH: usize = 16;

/// One limiter for each key, in bounded memory.
///
/// A key is any [`Key`]: text, bytes, a number, an address, or a tuple of these. Keys are kept only as fingerprints. An
/// idle limiter may be dropped at any time, which changes no decision. When every slot is taken, new keys share one
/// limiter or are refused ([`OnFull`]). A key that is being limited is never forgotten.
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
/// All keys have one rule; [`with_plans`](Self::with_plans) gives each key its own, and [`Under`](crate::Under) lets a
/// call supply one.
///
/// Only the caller learns of a decision. To notify others, or to ban keys that are refused too often, use a gate with
/// one rule instead: it has the same limiter, with an [`Observer`](crate::Observer) and a [`Ban`](crate::Ban); see
/// [`Setup`](crate::Setup). (A `Ban` can also be used next to a limiter, by hand.)
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
    /// Creates limiters that use the system's clock, of a [`Spec`] or of a rate such as `"50/s"`; at most a million,
    /// more keys share one limiter.
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
        // States are packed only under a clock that never steps back, with times since this reading.
        let base = clock.never_steps_back().then(|| clock.now());
        let rule = Rule::new(spec)?;
        let caps = RuleSpec::new("", spec);
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
                // Under the rule as it was last changed.
                self.limiters = Limiters::new(self.usual.of(&plan), &self.caps, self.base);
                self
            }
            Some(lookup) => self.with_lookup(lookup),
        }
    }

    /// Takes `cost` units of the key's limiter if they fit now. Faster than [`KeyedLimiter::check`], because it
    /// computes no other value of a decision.
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

    /// [`KeyedLimiter::admits`], counted in `statistics` as passed or blocked units; these may belong to all keys or to
    /// some. The time of the decision is reused, so the clock is read once. A cost of 0 is not counted.
    ///
    /// The time comes from this limiter's clock, not from the clock of the statistics: clone a single clock for both.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, KeyedLimiter, Spec, Statistics, SystemClock};
    ///
    /// let clock = SystemClock::new();
    /// let spec = Spec::new(AlgorithmKind::SlidingLog, 1, Duration::from_secs(60));
    /// let per_user = KeyedLimiter::with_clock(spec, clock.clone())?;
    /// let statistics = Statistics::with_clock(clock);
    /// let admitted = ["ada", "ada", "bob"].map(|user| per_user.admits_counted(user, 1, &statistics));
    /// assert_eq!(admitted, [true, false, true]);
    /// let minute = statistics.minute();
    /// assert_eq!((minute.pass, minute.block), (2, 1));
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use = "a request goes on even if it was refused, unless the result is looked at"]
    #[inline]
    pub fn admits_counted<'r, S>(
        &self,
        key: impl ByKey<'r>,
        cost: u64,
        statistics: &Statistics<S>,
    ) -> bool {
        counted(
            statistics,
            cost,
            &self.clock,
            |clock| self.admits_fast(clock, key.key(), cost),
            || self.one(&key, cost, Step::Decide),
        )
    }

    /// Takes `cost` units of the key's limiter if they fit now and no caller waits for them, and returns the decision.
    /// An unlimited key returns the largest possible values.
    ///
    /// ```
    /// let limiter = tidegate::KeyedLimiter::new("2/h")?;
    /// assert_eq!(limiter.check("ada", 1).remaining, 1);
    /// assert!(limiter.check("ada", 2).retry_after().is_some());
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use = "a request goes on even if it was refused, unless the answer is looked at"]
    pub fn check<'r>(&self, key: impl ByKey<'r>, cost: u64) -> Decision {
        self.one(&key, cost, Step::Ask).decided.decision
    }

    /// Returns the decision that [`KeyedLimiter::check`] would return, and takes nothing: see
    /// [`Limiter::peek`](crate::Limiter::peek).
    ///
    /// ```
    /// let limiter = tidegate::KeyedLimiter::new("100/h")?;
    /// assert!(limiter.admits("ada", 60));
    /// assert_eq!(["ada", "bob"].map(|user| limiter.peek(user, 1).remaining), [40, 100]);
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use]
    pub fn peek<'r>(&self, key: impl ByKey<'r>, cost: u64) -> Decision {
        self.one(&key, cost, Step::Peek).decided.decision
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
        self.one(&key, units, Step::Refund).decided.decision
    }

    /// Resets the key's limiter, and wakes its waiters.
    ///
    /// Other keys are not affected, and neither is the overflow limiter: a key that it decided for has no limiter of
    /// its own to reset.
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
        let reset = Step::Reset { remembers: true };
        // A limiter that does not exist would begin with units in use; so it exists first.
        let first = rule.begins_in_use().then_some(Step::Ask);
        for step in first.into_iter().chain([reset]) {
            // A table of one rule takes no rule from a call.
            let terms = if self.plans.is_none() { CallRule::Table } else { CallRule::Own(rule) };
            self.call(fingerprint, terms, 0).step(step);
        }
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

    /// Decides independent requests of one unit each, in order; returns for each whether it goes on.
    ///
    /// This is faster than separate calls if the limiters are not in the processor's caches: the memory of up to 16
    /// keys is prefetched, and then they are decided. A limiter with plans decides its keys one by one, without
    /// prefetching.
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
            // The result is used, or the compiler would leave the reads out.
            std::hint::black_box(self.limiters.touch(fingerprints));
            for fingerprint in fingerprints {
                // Asked for each key, because another thread may have begun to wait since the last key.
                verdicts.push(if self.queues.are_idle() {
                    self.limiters.admits(*fingerprint, 1, early, clock)
                } else {
                    let call = self.call(*fingerprint, CallRule::Table, 1);
                    call.step(Step::Decide).verdict.is_allowed()
                });
            }
        }
        verdicts
    }

    /// [`KeyedLimiter::admits`] with a reading of `clock`; `None` if a caller waits, or limiters have rules of their
    /// own.
    #[inline]
    pub(super) fn admits_fast<T: Clock>(
        &self,
        clock: &T,
        key: &impl Key,
        cost: u64,
    ) -> Option<bool> {
        // This way would overtake callers that wait, and knows no rule but the table's.
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
        // The table has one rule then, and a rule that the call supplies is ignored.
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
