//! A ban for a time, after so many refusals.

use tidegate_core::{AlgorithmKind, Anchor, Micros, RuleErrors, Spec, Timestamp};

use super::KeyedLimiter;
use crate::clock::{Clock, Reading, SystemClock};
use crate::key::Fingerprint;
use crate::rules::OnFull;
use crate::step::{One, Step};
use crate::store::memory::Part;

/// Most keys whose refusals are counted, and most that are banned, unless it is said otherwise.
const DEFAULT_MAX_KEYS: usize = 1_000_000;

/// Shuts a key out for a time when it was refused too often.
///
/// Refusals are counted from the first one on, for a time; the last of so many begins the ban, and what
/// was counted is forgotten. While a key is banned nothing more is counted: a ban ends when it was to
/// end, however often its key comes back meanwhile.
///
/// Memory is bounded, as in [`KeyedLimiter`]. A key for which there is no room is neither counted nor
/// banned: sharing with others, it would be shut out for what they did.
///
/// By itself it only counts and tells. At a gate, [`Gate::with_ban`](crate::Gate::with_ban) has it refuse, and so
/// does `SharedGate::with_ban` over a store.
///
/// ```
/// use tidegate::{Ban, ManualClock, Micros};
///
/// // Three refusals within a minute: out for an hour.
/// let clock = ManualClock::new();
/// let (within, lasts) = (Micros::from_secs(60), Micros::from_secs(3_600));
/// let ban = Ban::with_clock(3, within, lasts, clock.clone())?;
/// assert_eq!((ban.refused("ada"), ban.refused("ada")), (None, None));
/// assert_eq!(ban.refused("ada"), Some(lasts));
///
/// clock.advance(Micros::from_secs(600));
/// assert_eq!(ban.is_banned("ada"), Some(Micros::from_secs(3_000)));
/// clock.advance(Micros::from_secs(3_000));
/// assert_eq!(ban.is_banned("ada"), None);
/// # Ok::<(), tidegate::RuleErrors>(())
/// ```
#[derive(Debug)]
pub struct Ban<C = SystemClock> {
    refusals: KeyedLimiter<C>,
    bans: KeyedLimiter<C>,
}

impl Ban {
    /// Bans for `lasts` after that many `refusals` `within` a time, by the system's clock; 0 refusals
    /// count as 1.
    ///
    /// # Errors
    /// Refusals or times that can not be the limit and the window of a rule.
    pub fn new(refusals: u64, within: Micros, lasts: Micros) -> Result<Self, RuleErrors> {
        Self::with_clock(refusals, within, lasts, SystemClock::new())
    }

    /// The same, counting the refusals of at most `max_keys` keys, and banning at most as many, where
    /// it is a million else. What lies outside of 1 to 10^9 counts as the nearest of the two.
    ///
    /// # Errors
    /// Refusals or times that can not be the limit and the window of a rule.
    pub fn with_max_keys(
        refusals: u64,
        within: Micros,
        lasts: Micros,
        max_keys: usize,
    ) -> Result<Self, RuleErrors> {
        Self::build(refusals, within, lasts, max_keys, SystemClock::new())
    }
}

impl<C: Clock + Clone> Ban<C> {
    /// Bans by `clock`; for a gate, by a copy of the gate's.
    ///
    /// # Errors
    /// Refusals or times that can not be the limit and the window of a rule.
    pub fn with_clock(
        refusals: u64,
        within: Micros,
        lasts: Micros,
        clock: C,
    ) -> Result<Self, RuleErrors> {
        Self::build(refusals, within, lasts, DEFAULT_MAX_KEYS, clock)
    }

    fn build(
        refusals: u64,
        within: Micros,
        lasts: Micros,
        max_keys: usize,
        clock: C,
    ) -> Result<Self, RuleErrors> {
        let counter = |units, window, clock| {
            let mut spec = Spec::new(AlgorithmKind::FixedWindow, units, window);
            spec.anchor = Some(Anchor::FirstRequest);
            let empty = KeyedLimiter::with_clock(spec, clock);
            empty.map(|counter| counter.with_max_keys(max_keys, OnFull::Refuse))
        };
        let refusals = counter(refusals.max(1), within, clock.clone())?;
        Ok(Self { refusals, bans: counter(1, lasts, clock)? })
    }
}

impl<C: Clock> Ban<C> {
    /// How long the key is banned still; `None` where it is not.
    #[must_use]
    pub fn is_banned(&self, key: impl AsRef<[u8]>) -> Option<Micros> {
        self.left(self.fingerprint(key.as_ref()), self.bans.clock.now())
    }

    /// Counts a refusal of the key, unless it is banned; how long it is banned from now on, if it is.
    pub fn refused(&self, key: impl AsRef<[u8]>) -> Option<Micros> {
        self.count(self.fingerprint(key.as_ref()), self.bans.clock.now())
    }

    /// Ends the key's ban, and forgets the refusals that were counted.
    pub fn lift(&self, key: impl AsRef<[u8]>) {
        self.forget(self.fingerprint(key.as_ref()));
    }

    /// One fingerprint for both tables.
    fn fingerprint(&self, key: &[u8]) -> Fingerprint {
        self.bans.seed.of_bytes(key)
    }

    /// [`Ban::is_banned`] at `now`.
    pub(crate) fn left(&self, fingerprint: Fingerprint, now: Timestamp) -> Option<Micros> {
        let left = step(&self.bans, fingerprint, Step::Peek, now)?.decision?.retry_after()?;
        (!left.is_zero()).then_some(left)
    }

    /// [`Ban::refused`] at `now`.
    pub(crate) fn count(&self, fingerprint: Fingerprint, now: Timestamp) -> Option<Micros> {
        if let Some(left) = self.left(fingerprint, now) {
            return Some(left);
        }
        let counted = step(&self.refusals, fingerprint, Step::Ask, now)?.decision?;
        if counted.remaining == 0 {
            // Of several that come this far at once, all but the first find the ban begun.
            step(&self.bans, fingerprint, Step::Ask, now);
        }
        // Also where another began it meanwhile: what was counted here would outlast the ban.
        self.left(fingerprint, now).inspect(|_| forget(&self.refusals, fingerprint))
    }

    /// [`Ban::lift`] of a fingerprint.
    pub(crate) fn forget(&self, fingerprint: Fingerprint) {
        forget(&self.bans, fingerprint);
        forget(&self.refusals, fingerprint);
    }
}

/// One step of one unit with a key's limiter; `None` where there is no room for it.
fn step<C>(
    all: &KeyedLimiter<C>,
    fingerprint: Fingerprint,
    step: Step,
    now: Timestamp,
) -> Option<One> {
    let part = Part::alone(fingerprint, 1, step);
    let one = all.table.as_ref()?.one(&part, Reading::of(&now));
    (!one.elsewhere).then_some(one)
}

fn forget<C>(all: &KeyedLimiter<C>, fingerprint: Fingerprint) {
    all.table.iter().for_each(|table| table.forget(fingerprint));
}
