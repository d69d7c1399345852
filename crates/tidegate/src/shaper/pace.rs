//! The room of a `leaky_queue` and its state, asked as a shaper asks them.

use std::fmt;

use tidegate_core::{
    Algorithm, LeakyQueue, Limit, Micros, Room, Rule, RuleErrors, Spec, Timestamp, Verdict,
};

/// Which items are admitted, and when they leave.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    limit: u64,
    window: Micros,
    /// `None` for a limit of 0.
    slots: Option<Slots>,
}

#[derive(Clone, Debug)]
struct Slots {
    room: LeakyQueue,
    state: <LeakyQueue as Room>::State,
}

impl Pace {
    pub(super) fn new(spec: Spec) -> Result<Self, ShaperError> {
        if spec.algorithm != Algorithm::LeakyQueue {
            return Err(ShaperError::NotAQueue(spec.algorithm));
        }
        Rule::new(spec)?;
        match (spec.limit, spec.window) {
            (Limit::Unlimited, _) => Err(ShaperError::Unlimited),
            (Limit::Units(limit @ 1..), Some(window)) => {
                let room = LeakyQueue::build(&spec, limit, window)?;
                let slots = Slots { state: room.fresh(Timestamp::EPOCH), room };
                Ok(Self { limit, window, slots: Some(slots) })
            }
            (Limit::Units(_), _) => Ok(Self { limit: 0, window: Micros::ZERO, slots: None }),
        }
    }

    /// The instant that counts for a clock that reads `now`, and how far the slots were moved back
    /// with it.
    pub(super) fn advance(&mut self, now: Timestamp) -> (Timestamp, Micros) {
        let Some(Slots { room, state }) = &mut self.slots else { return (now, Micros::ZERO) };
        let last = room.last(state);
        let at = room.advance(state, now);
        (at, last.since(at))
    }

    pub(super) fn decide(&self, at: Timestamp, cost: u64) -> Verdict {
        match &self.slots {
            _ if cost == 0 => Verdict::Allow,
            Some(Slots { room, state }) => room.decide(state, at, cost),
            None => Verdict::Never,
        }
    }

    /// Least wait until a cost that was denied fits.
    pub(super) fn retry_after(&self, at: Timestamp, cost: u64) -> Micros {
        let Some(Slots { room, state }) = &self.slots else { return Micros::MAX };
        room.retry_after(state, at, cost)
    }

    /// Takes the slots of a cost that was admitted; answers the wait for the first of them.
    pub(super) fn take(&mut self, at: Timestamp, cost: u64) -> Micros {
        match &mut self.slots {
            Some(Slots { room, state }) if cost > 0 => {
                room.take(state, at, cost);
                room.delay(state, at, cost)
            }
            _ => Micros::ZERO,
        }
    }

    /// Most units held at once, due or not: as many again as fit in line may be overdue.
    pub(super) fn most_held(&self) -> u64 {
        self.slots.as_ref().map_or(1, |slots| 2 * slots.room.limit())
    }

    /// `cost` * W/N, rounded up.
    pub(super) fn spacing(&self, cost: u64) -> Micros {
        let wide = u128::from(cost) * u128::from(self.window.as_micros());
        let us = wide.div_ceil(u128::from(self.limit.max(1)));
        Micros::from_micros(u64::try_from(us).unwrap_or(u64::MAX))
    }
}

/// Why a rule can not shape.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShaperError {
    /// The algorithm of the rule has no queue.
    NotAQueue(Algorithm),
    /// The rule is unlimited: nothing would bound the queue.
    Unlimited,
    /// The rule is wrong in itself.
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
                Algorithm::LeakyQueue
            ),
            Self::Unlimited => f.write_str(
                "`limit` is unlimited, so nothing would bound the queue: expected a whole number \
                 from 0; without a limit there is nothing to shape",
            ),
            Self::Rule(errors) => errors.fmt(f),
        }
    }
}

impl std::error::Error for ShaperError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Rule(errors) => Some(errors),
            Self::NotAQueue(_) | Self::Unlimited => None,
        }
    }
}
