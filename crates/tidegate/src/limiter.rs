//! Limiters used by themselves: one for all, or one for each key.

use tidegate_core::{Decision, Micros, Rule, RuleErrors, Spec};

use crate::clock::{Clock, Reading, SystemClock};
use crate::key::Seed;
use crate::rules::RuleSpec;
use crate::store::OnFull;
use crate::store::memory::{Cell, One, Step, Table, cell_of, table_of};

/// One limiter, without any key. Share it by reference; every verb is exact under any concurrency.
///
/// ```
/// use tidegate::{Algorithm, Limiter, Micros, Spec};
///
/// let limiter = Limiter::new(Spec::new(Algorithm::TokenBucket, 100, Micros::from_secs(1)))?;
/// assert!(limiter.admits(60));
/// assert!(limiter.admits(40));
/// let refused = limiter.check(50);
/// assert!(!refused.is_allowed());
/// assert!(refused.retry_after().is_some_and(|wait| wait <= Micros::from_millis(500)));
/// # Ok::<(), tidegate::RuleErrors>(())
/// ```
#[derive(Debug)]
pub struct Limiter<C = SystemClock> {
    /// `None` when unlimited.
    cell: Option<Box<dyn Cell>>,
    clock: C,
}

impl Limiter {
    /// A limiter as new, by the system's clock.
    ///
    /// # Errors
    /// All that is wrong with the words of the rule.
    pub fn new(spec: Spec) -> Result<Self, RuleErrors> {
        Self::with_clock(spec, SystemClock::new())
    }
}

impl<C: Clock> Limiter<C> {
    /// A limiter as new, by `clock`.
    ///
    /// # Errors
    /// All that is wrong with the words of the rule.
    pub fn with_clock(spec: Spec, clock: C) -> Result<Self, RuleErrors> {
        let base = clock.never_steps_back().then(|| clock.now());
        Ok(Self { cell: Rule::new(spec)?.visit(cell_of(base)), clock })
    }

    /// Takes `cost` units if they fit now; works out no figures.
    #[inline]
    pub fn admits(&self, cost: u64) -> bool {
        self.cell.as_ref().is_none_or(|cell| cell.admits(cost, Reading::of(&self.clock)))
    }

    /// Takes `cost` units if they fit now, and tells the figures. An unlimited limiter tells the
    /// largest there are.
    pub fn check(&self, cost: u64) -> Decision {
        self.step(cost, Step::Ask)
    }

    /// What [`Limiter::check`] would answer, taking nothing.
    pub fn peek(&self, cost: u64) -> Decision {
        self.step(cost, Step::Peek)
    }

    /// Gives `units` back, to no fewer than none used; tells how the limiter stands then.
    pub fn refund(&self, units: u64) -> Decision {
        self.step(units, Step::Refund)
    }

    /// Makes it as good as new.
    pub fn reset(&self) {
        if let Some(cell) = &self.cell {
            cell.forget();
        }
    }

    fn step(&self, cost: u64, step: Step) -> Decision {
        let one = self.cell.as_ref().map(|cell| cell.step(cost, step, Reading::of(&self.clock)));
        one.and_then(|one| one.decision).unwrap_or(UNLIMITED)
    }
}

const UNLIMITED: Decision = Decision {
    outcome: tidegate_core::Outcome::Allow { delay: Micros::ZERO },
    limit: u64::MAX,
    remaining: u64::MAX,
    reset_after: Micros::ZERO,
};

/// A limiter for each key, in bounded memory.
///
/// Keys are not kept, only fingerprints of them. A limiter that is as good as new may be dropped at
/// any time, which changes no decision; when all places are taken by others, new keys share one
/// limiter or are refused ([`OnFull`]). Nobody who is being limited is ever forgotten.
///
/// ```
/// use tidegate::{Algorithm, KeyedLimiter, Micros, Spec};
///
/// let per_user = KeyedLimiter::new(Spec::new(Algorithm::FixedWindow, 1, Micros::from_secs(3600)))?;
/// assert!(per_user.admits("alice", 1));
/// assert!(!per_user.admits("alice", 1));
/// assert!(per_user.admits("bob", 1));
/// # Ok::<(), tidegate::RuleErrors>(())
/// ```
#[derive(Debug)]
pub struct KeyedLimiter<C = SystemClock> {
    /// `None` when unlimited.
    table: Option<Box<dyn Table>>,
    seed: Seed,
    clock: C,
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

    fn build(spec: RuleSpec, clock: C) -> Result<Self, RuleErrors> {
        let table = table_of(&Rule::new(spec.spec)?, &spec, &clock);
        Ok(Self { table, seed: Seed::random(), clock })
    }

    /// Takes `cost` units of the key's limiter if they fit now; works out no figures.
    #[inline]
    pub fn admits(&self, key: impl AsRef<[u8]>, cost: u64) -> bool {
        self.table.as_ref().is_none_or(|table| {
            let reading = Reading::of(&self.clock);
            table.admits(self.seed.of_bytes(key.as_ref()), cost, reading)
        })
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
        let Some(table) = &self.table else { return vec![true; keys.len()] };
        let mut verdicts = Vec::with_capacity(keys.len());
        for batch in keys.chunks(BATCH) {
            let reading = Reading::of(&self.clock);
            let prints: Vec<_> = batch.iter().map(|key| self.seed.of_bytes(key.as_ref())).collect();
            let touched = prints.iter().fold(0, |all, print| all ^ table.touch(*print));
            std::hint::black_box(touched);
            verdicts.extend(prints.into_iter().map(|print| table.admits(print, 1, reading)));
        }
        verdicts
    }

    /// Limiters in existence.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.table.as_ref().map_or(0, |table| table.keys())
    }

    fn step(&self, key: &[u8], cost: u64, step: Step) -> Decision {
        let one = self.table.as_ref().map(|table| self.one(&**table, key, cost, step));
        one.and_then(|one| one.decision).unwrap_or(UNLIMITED)
    }

    fn one(&self, table: &dyn Table, key: &[u8], cost: u64, step: Step) -> One {
        table.one(self.seed.of_bytes(key), cost, step, Reading::of(&self.clock))
    }
}
