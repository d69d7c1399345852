//! A limiter for each key.

use tidegate_core::{Decision, Rule, RuleErrors, Spec};

use crate::clock::{Clock, Reading, SystemClock};
use crate::key::{Fingerprint, Seed};
use crate::rules::{OnFull, RuleSpec};
use crate::step::{One, Step, UNLIMITED};
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
    /// The caps, and what becomes of keys beyond them.
    pub(super) caps: RuleSpec,
    pub(crate) seed: Seed,
    pub(crate) clock: C,
    /// Who waits.
    pub(crate) queues: Queues<Fingerprint>,
    /// For each key.
    pub(crate) max_waiters: usize,
    /// Whether the clock is read before a key's limiter is held.
    early: bool,
}

impl KeyedLimiter {
    /// Limiters by the system's clock, at most a million at once; keys beyond share one.
    ///
    /// # Errors
    /// All that is wrong with the words of the rule.
    pub fn new(spec: Spec) -> Result<Self, RuleErrors> {
        Self::with_clock(spec, SystemClock::new())
    }

    /// The same with another cap; one outside of 1 to 10^9 counts as the nearest of the two.
    ///
    /// # Errors
    /// All that is wrong with the words of the rule.
    pub fn with_max_keys(spec: Spec, max_keys: usize, on_full: OnFull) -> Result<Self, RuleErrors> {
        Self::build(RuleSpec::new("", spec).max_keys(max_keys, on_full), SystemClock::new())
    }
}

/// Keys decided between two looks at memory in [`KeyedLimiter::check_many`].
const BATCH: usize = 16;

impl<C: Clock> KeyedLimiter<C> {
    /// Limiters by `clock`.
    ///
    /// # Errors
    /// All that is wrong with the words of the rule.
    pub fn with_clock(spec: Spec, clock: C) -> Result<Self, RuleErrors> {
        Self::build(RuleSpec::new("", spec), clock)
    }

    pub(super) fn build(spec: RuleSpec, clock: C) -> Result<Self, RuleErrors> {
        let base = clock.never_steps_back().then(|| clock.now());
        let limiters = Limiters::new(&Rule::new(spec.spec)?, &spec, base);
        let early = limiters.reads_early();
        let (seed, queues) = (Seed::random(), Queues::new());
        Ok(Self {
            limiters,
            caps: spec,
            seed,
            clock,
            queues,
            max_waiters: DEFAULT_MAX_WAITERS,
            early,
        })
    }

    /// Takes `cost` units of the key's limiter if they fit now; works out no figures.
    #[inline]
    pub fn admits(&self, key: impl AsRef<[u8]>, cost: u64) -> bool {
        self.admits_by(&self.clock, key.as_ref(), cost)
    }

    /// Takes `cost` units of the key's limiter if they fit now, and tells the figures.
    pub fn check(&self, key: impl AsRef<[u8]>, cost: u64) -> Decision {
        self.step(key.as_ref(), cost, Step::Ask)
    }

    /// What [`KeyedLimiter::check`] would answer, taking nothing.
    pub fn peek(&self, key: impl AsRef<[u8]>, cost: u64) -> Decision {
        self.step(key.as_ref(), cost, Step::Peek)
    }

    /// Gives `units` back to the key's limiter, to no fewer than none used.
    pub fn refund(&self, key: impl AsRef<[u8]>, units: u64) -> Decision {
        self.step(key.as_ref(), units, Step::Refund)
    }

    /// Decides independent requests of one unit each, in order; tells of each whether it goes on.
    ///
    /// Faster than one after another where the limiters do not lie in the processor's caches: the
    /// memory of the next few is on its way while one is decided.
    pub fn check_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<bool> {
        let mut verdicts = Vec::with_capacity(keys.len());
        for batch in keys.chunks(BATCH) {
            let (early, clock) = self.reading(&self.clock).apart();
            let fingerprints: Vec<_> =
                batch.iter().map(|key| self.seed.of_bytes(key.as_ref())).collect();
            let touch = |all, fingerprint: &Fingerprint| all ^ self.limiters.touch(*fingerprint);
            let touched = fingerprints.iter().fold(0, touch);
            std::hint::black_box(touched);
            let admits = |fingerprint| match self.queues.are_idle() {
                true => self.limiters.admits(fingerprint, 1, early, clock),
                false => self.admits_behind(fingerprint, 1),
            };
            verdicts.extend(fingerprints.into_iter().map(admits));
        }
        verdicts
    }

    /// Limiters in existence.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.limiters.keys()
    }

    /// [`KeyedLimiter::admits`], by its own clock as `clock` reads it.
    #[inline]
    pub(super) fn admits_by<T: Clock>(&self, clock: &T, key: &[u8], cost: u64) -> bool {
        let (early, clock) = self.reading(clock).apart();
        let fingerprint = self.seed.of_bytes(key);
        match self.queues.are_idle() {
            true => self.limiters.admits(fingerprint, cost, early, clock),
            false => self.admits_behind(fingerprint, cost),
        }
    }

    pub(super) fn step(&self, key: &[u8], cost: u64, step: Step) -> Decision {
        self.step_by(&self.clock, key, cost, step)
    }

    pub(super) fn step_by<T: Clock>(
        &self,
        clock: &T,
        key: &[u8],
        cost: u64,
        step: Step,
    ) -> Decision {
        let fingerprint = self.seed.of_bytes(key);
        if !self.queues.are_idle() && !step.gives_back() {
            return self.step_behind(fingerprint, cost, step);
        }
        let one = self.step_now_by(clock, fingerprint, cost, step);
        if step.gives_back() {
            self.queues.wake(&fingerprint);
        }
        one.and_then(|one| one.decision).unwrap_or(UNLIMITED)
    }

    /// One step, whoever waits; `None` when unlimited.
    pub(crate) fn step_now(&self, fingerprint: Fingerprint, cost: u64, step: Step) -> Option<One> {
        self.step_now_by(&self.clock, fingerprint, cost, step)
    }

    fn step_now_by<T: Clock>(
        &self,
        clock: &T,
        fingerprint: Fingerprint,
        cost: u64,
        step: Step,
    ) -> Option<One> {
        self.limiters.one(&Part::alone(fingerprint, cost, step), self.reading(clock))
    }

    /// A preview; `None` when unlimited.
    pub(crate) fn preview_now(&self, fingerprint: Fingerprint) -> Option<Box<dyn Preview>> {
        let part = Part::alone(fingerprint, 1, Step::Peek);
        self.limiters.preview(&part, self.reading(&self.clock))
    }

    #[inline]
    fn reading<'a, T: Clock>(&self, clock: &'a T) -> Reading<'a> {
        Reading::if_wanted(self.early, clock)
    }
}
