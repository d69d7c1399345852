//! The algorithm of a `leaky_queue` and its state, with the verbs that a shaper needs.
//!
//! The queue asks it about each item. It runs the verbs of the core on one state, so that a shaper and a limiter
//! decide alike.

use std::fmt;

use tidegate_core::{
    AlgorithmKind, Decide, Held, LeakyQueue, Limit, MAX_WINDOW, Micros, Rule, RuleErrors, Spec,
    Timestamp, Verdict,
};

/// The decisions about items: which are admitted, and when they leave.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    limit: u64,
    window: Micros,
    algorithm: LeakyQueue,
    state: <LeakyQueue as Decide>::State,
    /// The time of the last change. A clock can read less even if no unit was taken since.
    since: Timestamp,
}

impl Pace {
    pub(super) fn new(spec: Spec) -> Result<Self, ShaperError> {
        if spec.algorithm != AlgorithmKind::LeakyQueue {
            return Err(ShaperError::NotAQueue(spec.algorithm));
        }
        Rule::new(spec)?;
        let Limit::Units(limit) = spec.limit else { return Err(ShaperError::Unlimited) };
        // A spec without a window has a limit of 0, under which no window passes.
        let window = Micros::from(spec.window.unwrap_or(MAX_WINDOW));
        let algorithm = LeakyQueue::build(&spec, limit, window)?;
        let state = algorithm.fresh(Timestamp::EPOCH);
        Ok(Self { limit, window, algorithm, state, since: Timestamp::EPOCH })
    }

    /// Keeps the units under the values of `other`, and drains them at its rate from now on. Time
    /// has passed ([`Pace::advance`]), and `at` is the instant that counts.
    pub(super) fn amend(&mut self, other: Self, at: Timestamp) {
        let mut slot = Some(self.state.clone());
        // Not eased as the state of a limiter is: promised slots keep their order.
        Held::new(&other.algorithm, &mut slot, 0).refit(at, &self.algorithm);
        let state = slot.unwrap_or(other.state);
        *self = Self { state, since: at, ..other };
    }

    /// Returns the instant that counts for a clock that reads `now`, and how far the slots were
    /// moved back.
    pub(super) fn advance(&mut self, now: Timestamp) -> (Timestamp, Micros) {
        let last = self.algorithm.last(&self.state);
        let at = self.algorithm.advance(&mut self.state, now);
        // The state notices a step back of the clock only if units were taken. Else the last change shows it.
        if last > Timestamp::EPOCH || self.since.since(now) <= self.window {
            return (at, last.since(at));
        }
        let back = self.since.since(now);
        self.since = now;
        (at, back)
    }

    pub(super) fn decide(&self, at: Timestamp, cost: u64) -> Verdict {
        if cost == 0 { Verdict::Allow } else { self.algorithm.decide(&self.state, at, cost) }
    }

    /// Least wait until a cost that was denied fits.
    pub(super) fn retry_after(&self, at: Timestamp, cost: u64) -> Micros {
        self.algorithm.retry_after(&self.state, at, cost)
    }

    /// Takes the slots of a cost that was admitted; returns the wait for the first of them.
    pub(super) fn take(&mut self, at: Timestamp, cost: u64) -> Micros {
        if cost == 0 {
            return Micros::ZERO;
        }
        self.algorithm.take(&mut self.state, at, cost);
        self.wait_before(at, cost)
    }

    /// The wait until all units but the last `units` have left.
    pub(super) fn wait_before(&self, at: Timestamp, units: u64) -> Micros {
        self.algorithm.delay(&self.state, at, units)
    }

    /// The maximum number of units held at a time, due or not: as many again as fit into the queue may be overdue.
    pub(super) fn most_held(&self) -> u64 {
        (2 * self.algorithm.limit()).max(1)
    }

    /// `cost` * W/N, rounded up.
    pub(super) fn spacing(&self, cost: u64) -> Micros {
        let wide = u128::from(cost) * u128::from(self.window.as_micros());
        // Rounded up, so that two items are never closer together than the pace allows.
        let us = wide.div_ceil(u128::from(self.limit.max(1)));
        Micros::from_micros(u64::try_from(us).unwrap_or(u64::MAX))
    }
}

/// Why a rule cannot pace a queue.
///
/// ```
/// use tidegate::{AlgorithmKind, ShaperError, ShapingQueue, Spec};
///
/// let error = ShapingQueue::<()>::new(Spec::per_second(5)).unwrap_err();
/// assert_eq!(error, ShaperError::NotAQueue(AlgorithmKind::TokenBucket));
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShaperError {
    /// The algorithm of the rule has no queue.
    NotAQueue(AlgorithmKind),
    /// The rule is unlimited, so nothing would bound the queue.
    Unlimited,
    /// The rule is invalid.
    Rule(RuleErrors),
}

impl From<RuleErrors> for ShaperError {
    fn from(errors: RuleErrors) -> Self {
        Self::Rule(errors)
    }
}

impl fmt::Display for ShaperError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAQueue(given) => write!(
                f,
                "`algorithm` is `{given}`, which has no queue: expected `{}` for a shaper",
                AlgorithmKind::LeakyQueue
            ),
            Self::Unlimited => f.write_str(
                "`limit` is unlimited, so nothing would bound the queue: expected a whole number \
                 from 0; without a limit there is nothing to shape",
            ),
            Self::Rule(errors) => errors.fmt(f),
        }
    }
}

tidegate_core::debug_as_display!(ShaperError);

impl std::error::Error for ShaperError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Rule(errors) => Some(errors),
            Self::NotAQueue(_) | Self::Unlimited => None,
        }
    }
}
