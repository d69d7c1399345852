//! A limiter for each key.

use tidegate_core::{Decision, Rule, RuleErrors, Spec, Timestamp};

use super::engine::{Call, Source};
use super::key::Key;
use super::plans::{Lookup, Terms, UsualRule};
use crate::clock::{Clock, Reading, SystemClock};
use crate::key::{Fingerprint, Seed};
use crate::rules::{OnFull, RuleSpec};
use crate::step::{One, Step};
use crate::store::memory::{Limiters, Part, Preview};
use crate::wait::{DEFAULT_MAX_WAITERS, Queues};

/// A limiter for each key, in bounded memory.
///
/// Keys are not kept, only fingerprints of them. A limiter that is idle may be dropped at
/// any time, which changes no decision; when all places are taken by others, new keys share one
/// limiter or are refused ([`OnFull`]). Nobody who is being limited is ever forgotten.
///
/// ```
/// use tidegate::{AlgorithmKind, KeyedLimiter, Micros, Spec};
///
/// let per_user = KeyedLimiter::new(Spec::new(AlgorithmKind::FixedWindow, 1, Micros::from_secs(3600)))?;
/// assert!(per_user.admits("alice", 1));
/// assert!(!per_user.admits("alice", 1));
/// assert!(per_user.admits("bob", 1));
/// # Ok::<(), tidegate::RuleErrors>(())
/// ```
///
/// All keys have one rule; [`with_plans`](Self::with_plans) gives each key its own, and [`Under`](crate::Under) lets
/// a call supply one.
///
/// It tells its decisions to who asks, and to nobody else. Where others are to be told of them, or who is
/// refused too often is to be shut out, let a gate of one rule take its place: the same limiter, with an
/// [`Observer`](crate::Observer) and a [`Ban`](crate::Ban). (A `Ban` can also be asked beside a limiter,
/// by hand.)
///
/// ```
/// use std::sync::Arc;
/// use tidegate::{AlgorithmKind, Ban, Gate, Micros, Policy, RuleSpec, Spec};
/// use tidegate::{Answer, Descriptor, Request};
///
/// let (minute, hour) = (Micros::from_secs(60), Micros::from_secs(3_600));
/// let per_user = RuleSpec::new("per-user", Spec::new(AlgorithmKind::FixedWindow, 1, hour)).key(["user"]);
/// let log = |_: &Request<'_>, answer: &Answer<'_>| println!("{:?}", answer.retry_after());
/// let gate = Gate::new(Policy::new(vec![per_user])?)
///     .with_observer(Arc::new(log))
///     .with_ban("default", "per-user", Ban::new(10, minute, hour)?)?;
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
    /// Looks plans up, where each limiter has a rule of its own.
    pub(super) plans: Option<Lookup>,
    pub(super) usual: UsualRule,
    /// The caps, and what becomes of keys beyond them.
    pub(super) caps: RuleSpec,
    /// What packed times count from; `None` where the clock may step back.
    pub(super) base: Option<Timestamp>,
    pub(super) seed: Seed,
    pub(crate) clock: C,
    /// Who waits.
    pub(super) queues: Queues<Fingerprint>,
    /// For each key.
    pub(super) max_waiters: usize,
    /// Whether the clock is read before a key's limiter is held.
    pub(super) early: bool,
}

impl KeyedLimiter {
    /// Limiters by the system's clock, at most a million at once; keys beyond share one.
    ///
    /// # Errors
    /// All that is wrong with the words of the rule.
    pub fn new(spec: Spec) -> Result<Self, RuleErrors> {
        Self::with_clock(spec, SystemClock::new())
    }
}

impl<C: Clock> KeyedLimiter<C> {
    /// Limiters by `clock`.
    ///
    /// # Errors
    /// All that is wrong with the words of the rule.
    pub fn with_clock(spec: Spec, clock: C) -> Result<Self, RuleErrors> {
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
            max_waiters: DEFAULT_MAX_WAITERS,
        })
    }

    /// The limiter with another cap, and empty; one outside of 1 to 10^9 counts as the nearest of the two.
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

    /// Takes `cost` units of the key's limiter if they fit now; works out no figures.
    #[inline]
    pub fn admits<'r>(&self, key: impl Key<'r>, cost: u64) -> bool {
        let admitted = self.admits_at_once(&self.clock, key.bytes(), cost);
        admitted.unwrap_or_else(|| self.one(&key, cost, Step::Decide).verdict.is_allowed())
    }

    /// Takes `cost` units of the key's limiter if they fit now and nobody waits for them, and returns the
    /// decision. Where the key is unlimited it has the largest figures there are.
    pub fn check<'r>(&self, key: impl Key<'r>, cost: u64) -> Decision {
        self.one(&key, cost, Step::Ask).or_unlimited()
    }

    /// What [`KeyedLimiter::check`] would answer, taking nothing.
    pub fn peek<'r>(&self, key: impl Key<'r>, cost: u64) -> Decision {
        self.one(&key, cost, Step::Peek).or_unlimited()
    }

    /// Gives `units` back to the key's limiter, to no fewer than none used.
    pub fn refund<'r>(&self, key: impl Key<'r>, units: u64) -> Decision {
        self.one(&key, units, Step::Refund).or_unlimited()
    }

    /// Makes the key's limiter as good as new, and lets whoever waits for it go on.
    ///
    /// All other keys stay as they are. So does the overflow limiter: a key that
    /// was decided there has none of its own to be made as new.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, KeyedLimiter, Micros, Spec};
    ///
    /// let per_user = KeyedLimiter::new(Spec::new(AlgorithmKind::FixedWindow, 1, Micros::from_secs(3600)))?;
    /// assert!(per_user.admits("alice", 1));
    /// assert!(!per_user.admits("alice", 1));
    /// per_user.reset("alice");
    /// assert!(per_user.admits("alice", 1));
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    pub fn reset(&self, key: impl AsRef<[u8]>) {
        let fingerprint = self.seed.of_bytes(key.as_ref());
        self.limiters.forget(fingerprint);
        self.queues.wake(&fingerprint);
    }

    /// Limiters in existence.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.limiters.keys()
    }

    /// [`KeyedLimiter::admits`] by its own clock as `clock` reads it; `None` where somebody waits, or limiters have
    /// rules of their own.
    #[inline]
    pub(super) fn admits_at_once<T: Clock>(
        &self,
        clock: &T,
        key: &[u8],
        cost: u64,
    ) -> Option<bool> {
        if self.plans.is_some() || !self.queues.are_idle() {
            return None;
        }
        let (early, clock) = self.reading(clock).apart();
        Some(self.limiters.admits(self.seed.of_bytes(key), cost, early, clock))
    }

    /// One step of a verb that does not wait, under the rule that holds for the key at this moment.
    #[inline]
    pub(super) fn one<'r>(&self, key: &impl Key<'r>, cost: u64, step: Step) -> One {
        let fingerprint = self.seed.of_bytes(key.bytes());
        if self.plans.is_none() {
            return self.call(fingerprint, Terms::Table, cost).step(step);
        }
        if let Some(rule) = key.rule() {
            return self.call(fingerprint, Terms::Supplied(rule), cost).step(step);
        }
        let plan = self.plan(key.bytes());
        self.call(fingerprint, Terms::Own(self.usual.of(&plan)), cost).step(step)
    }

    /// The call of a verb about so many units of a key.
    #[inline]
    pub(super) const fn call<'a>(
        &'a self,
        fingerprint: Fingerprint,
        terms: Terms<'a>,
        cost: u64,
    ) -> Call<'a, Fingerprint, OfKey<'a, C>> {
        let source = OfKey { all: self, fingerprint, terms };
        Call::new(&self.queues, fingerprint, self.max_waiters, source, cost)
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
    terms: Terms<'a>,
}

impl<'a, C: Clock> OfKey<'a, C> {
    /// Hands `with` its part in a step, under the rule that holds now.
    #[inline]
    fn part<T>(&self, cost: u64, step: Step, with: impl FnOnce(&Part<'_>) -> T) -> T {
        let part = Part::alone(self.fingerprint, cost, step);
        match &self.terms {
            Terms::Table => with(&part),
            Terms::Own(rule) => with(&part.under(rule, false)),
            Terms::Supplied(rule) => with(&part.under(rule, true)),
            Terms::LookedUp(looked_up) => {
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

impl<C: Clock> Source for OfKey<'_, C> {
    #[inline]
    fn one(&self, cost: u64, step: Step) -> One {
        let Some(mut one) =
            self.part(cost, step, |part| self.all.limiters.one(part, self.reading()))
        else {
            return One::unlimited(self.all.clock.now());
        };
        if let Terms::LookedUp(looked_up) = &self.terms {
            one.figures = looked_up.plan(self.all);
        }
        one
    }

    fn preview(&self) -> Option<Box<dyn Preview>> {
        self.part(1, Step::Peek, |part| self.all.limiters.preview(part, self.reading()))
    }

    fn renew(&self) {
        if let Terms::LookedUp(looked_up) = &self.terms {
            looked_up.renew();
        }
    }
}
