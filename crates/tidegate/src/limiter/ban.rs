//! Bans a key for a time after a number of refusals: a limiter counts the refusals of each key, another has its
//! ban.
//!
//! A gate asks before each request if one of its keys is banned, and counts the refusals of its rules here.

use std::time::Duration;

use tidegate_core::{AlgorithmKind, Anchor, Micros, RuleErrors, Spec, Timestamp};

use super::KeyedLimiter;
use crate::clock::{Clock, Reading, SystemClock};
use crate::key::{Fingerprint, Key};
use crate::rules::OnFull;
use crate::step::{One, Step};
use crate::store::memory::{Limiters, Part};

/// The default number of keys whose refusals are counted, and of keys that are banned.
const DEFAULT_MAX_KEYS: usize = 1_000_000;

/// Bans a key for a time after it was refused too often.
///
/// The first refusal starts a period. The last of `refusals` within it starts the ban, and the
/// count is reset. While a key is banned nothing is counted, so requests during a ban do not
/// prolong it.
///
/// Memory is bounded, as in [`KeyedLimiter`]. A key for which there is no room is neither counted
/// nor banned: it would share a limiter with others, and be banned for their refusals.
///
/// A `Ban` alone only counts and reports. [`Setup::ban`](crate::Setup::ban) makes a gate
/// refuse banned keys.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Ban, ManualClock};
///
/// // Three refusals within a minute: out for an hour.
/// let clock = ManualClock::new();
/// let (within, lasts) = (Duration::from_secs(60), Duration::from_secs(3_600));
/// let ban = Ban::with_clock(3, within, lasts, clock.clone())?;
/// assert_eq!((ban.refused("ada"), ban.refused("ada")), (None, None));
/// assert_eq!(ban.refused("ada"), Some(lasts));
///
/// clock.advance(Duration::from_secs(600));
/// assert_eq!(ban.is_banned("ada"), Some(Duration::from_secs(3_000)));
/// clock.advance(Duration::from_secs(3_000));
/// assert_eq!(ban.is_banned("ada"), None);
/// # Ok::<(), tidegate::RuleErrors>(())
/// ```
#[derive(Debug)]
pub struct Ban<C = SystemClock> {
    refusals: KeyedLimiter<C>,
    bans: KeyedLimiter<C>,
}

impl Ban {
    /// Bans a key for `lasts` after `refusals` `within` a period, by the system's clock; 0 refusals
    /// count as 1.
    ///
    /// # Errors
    /// Returns the errors of refusals or times that cannot be the limit and window of a rule.
    pub fn new(refusals: u64, within: Duration, lasts: Duration) -> Result<Self, RuleErrors> {
        Self::with_clock(refusals, within, lasts, SystemClock::new())
    }

    /// Like [`Ban::new`], but counts the refusals of at most `max_keys` keys and bans at most as
    /// many; the default is a million. Values outside 1 to 10^9 are clamped.
    ///
    /// # Errors
    /// Returns the errors of refusals or times that cannot be the limit and window of a rule.
    pub fn with_max_keys(
        refusals: u64,
        within: Duration,
        lasts: Duration,
        max_keys: usize,
    ) -> Result<Self, RuleErrors> {
        Self::build(refusals, within, lasts, max_keys, SystemClock::new())
    }
}

impl<C: Clock + Clone> Ban<C> {
    /// Like [`Ban::new`] with another clock; for a gate, pass a copy of the gate's clock.
    ///
    /// # Errors
    /// Returns the errors of refusals or times that cannot be the limit and window of a rule.
    pub fn with_clock(
        refusals: u64,
        within: Duration,
        lasts: Duration,
        clock: C,
    ) -> Result<Self, RuleErrors> {
        Self::build(refusals, within, lasts, DEFAULT_MAX_KEYS, clock)
    }

    fn build(
        refusals: u64,
        within: Duration,
        lasts: Duration,
        max_keys: usize,
        clock: C,
    ) -> Result<Self, RuleErrors> {
        Ok(Self {
            refusals: counter(refusals.max(1), within, max_keys, clock.clone())?,
            // A ban is one unit, which is in use as long as the ban lasts.
            bans: counter(1, lasts, max_keys, clock)?,
        })
    }
}

impl<C: Clock> Ban<C> {
    /// Returns how long the key stays banned; `None` if it is not banned.
    #[must_use]
    pub fn is_banned(&self, key: impl Key) -> Option<Duration> {
        self.left(self.fingerprint(&key), self.bans.clock.now()).map(Duration::from)
    }

    /// Counts a refusal of the key unless it is banned; returns how long it is banned from now on,
    /// if it is.
    pub fn refused(&self, key: impl Key) -> Option<Duration> {
        self.count(self.fingerprint(&key), self.bans.clock.now()).map(Duration::from)
    }

    /// Ends the ban of the key and resets its count of refusals.
    pub fn lift(&self, key: impl Key) {
        self.forget(self.fingerprint(&key));
    }

    /// Returns one fingerprint for both tables.
    fn fingerprint(&self, key: &impl Key) -> Fingerprint {
        self.bans.seed.of(key)
    }

    /// [`Ban::is_banned`] at `now`.
    pub(crate) fn left(&self, fingerprint: Fingerprint, now: Timestamp) -> Option<Micros> {
        // A ban has the only unit of its limiter, so the wait for that unit is the rest of the ban.
        let left = step(&self.bans, fingerprint, Step::Peek, now)?
            .decided
            .decision
            .retry_after_micros()?;
        (!left.is_zero()).then_some(left)
    }

    /// [`Ban::refused`] at `now`.
    pub(crate) fn count(&self, fingerprint: Fingerprint, now: Timestamp) -> Option<Micros> {
        if let Some(left) = self.left(fingerprint, now) {
            return Some(left);
        }
        let counted = step(&self.refusals, fingerprint, Step::Ask, now)?.decided.decision;
        if counted.remaining == 0 {
            // Of several threads that reach this point together, all but the first find the key
            // banned.
            step(&self.bans, fingerprint, Step::Ask, now);
        }
        // This also runs if another thread started the ban: refusals counted here would outlast it.
        self.left(fingerprint, now).inspect(|_| forget(&self.refusals, fingerprint))
    }

    /// The limiters that count refusals, and the limiters that ban.
    pub(crate) const fn limiters(&self) -> [&Limiters; 2] {
        [&self.refusals.limiters, &self.bans.limiters]
    }

    /// [`Ban::lift`] of a fingerprint.
    pub(crate) fn forget(&self, fingerprint: Fingerprint) {
        forget(&self.bans, fingerprint);
        forget(&self.refusals, fingerprint);
    }
}

/// Runs one step of one unit with a key's limiter; `None` if there is no room for it.
fn step<C>(
    all: &KeyedLimiter<C>,
    fingerprint: Fingerprint,
    step: Step,
    now: Timestamp,
) -> Option<One> {
    let part = Part::alone(fingerprint, 1, step);
    let one = all.limiters.one(&part, Reading::of(&now));
    (!one.decided.elsewhere).then_some(one)
}

fn forget<C>(all: &KeyedLimiter<C>, fingerprint: Fingerprint) {
    // No unit is ever given back here, so the limiter need not remember its reset.
    let part = Part::alone(fingerprint, 0, Step::Reset { remembers: false });
    // A dropped entry needs no time.
    all.limiters.one(&part, Reading::of(&Timestamp::EPOCH));
}

/// Counts `units` of each key from the first, for `window`.
fn counter<C: Clock>(
    units: u64,
    window: Duration,
    max_keys: usize,
    clock: C,
) -> Result<KeyedLimiter<C>, RuleErrors> {
    let mut spec = Spec::new(AlgorithmKind::FixedWindow, units, window);
    // A period begins with the first refusal, and a ban with the refusal that causes it.
    spec.anchor = Some(Anchor::FirstRequest);
    // Refused, because keys that share a limiter would be banned for each other.
    Ok(KeyedLimiter::with_clock(spec, clock)?.with_max_keys(max_keys, OnFull::Refuse))
}
