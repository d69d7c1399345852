//! The world that all nodes of a run share: the plan, the store's limiters, and the history.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::{Limit, Micros, Timestamp};
use tokio::time::Instant;

use super::history::{LayersEvent, LayersEventKind, LayersHistory};
use super::plan::{LONG_MS, LayersPlan, PlannedOutage, Trouble};
use crate::clock::Clock;
use crate::store::KeyAsk;
use crate::store::fake::{self, FakeLimiters};

/// The time of the store when a run begins: the beginning of a long window.
const FIRST: Timestamp = Timestamp::from_micros(300 * LONG_MS * 1_000);

#[derive(Debug)]
pub(super) struct LayersWorld {
    pub(super) plan: LayersPlan,
    began: Instant,
    limiters: Mutex<FakeLimiters>,
    history: Mutex<LayersHistory>,
}

impl LayersWorld {
    pub(super) fn new(plan: LayersPlan) -> Self {
        let (limiters, history) = (Mutex::default(), Mutex::default());
        Self { plan, began: Instant::now(), limiters, history }
    }

    /// Microseconds since the run began.
    pub(super) fn passed_us(&self) -> u64 {
        Micros::from(self.began.elapsed()).as_micros()
    }

    pub(super) fn began(&self) -> Instant {
        self.began
    }

    /// The reading of the store's clock.
    pub(super) fn store_now(&self) -> Timestamp {
        FIRST.plus(Micros::from_micros(self.passed_us()))
    }

    pub(super) fn limiters(&self) -> MutexGuard<'_, FakeLimiters> {
        self.limiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn history(&self) -> MutexGuard<'_, LayersHistory> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, ask: &KeyAsk, what: LayersEventKind) {
        let event = LayersEvent { at: self.passed_us(), limiter: limiter_of(ask), what };
        self.history().events.push(event);
    }

    /// Returns a trouble of this kind that is on now, for messages of a node about a slot.
    pub(super) fn trouble(
        &self,
        kind: Trouble,
        node: usize,
        slot: Option<u16>,
    ) -> Option<&PlannedOutage> {
        let now = self.passed_us() / 1_000;
        let is_on = |one: &&PlannedOutage| one.trouble == kind && one.hits(now, node, slot);
        self.plan.outages.iter().find(is_on)
    }

    /// Returns the units of a limiter that drained since a time, in thousandths; none of a window.
    pub(super) fn drained(&self, ask: &KeyAsk, units: u64, since: Option<Timestamp>) -> u64 {
        let limiter = limiter_of(ask);
        let spec = &self.plan.rules[ask.rule].spec;
        let (true, Limit::Units(limit)) = (self.plan.is_level(limiter), spec.limit) else {
            return 0;
        };
        let passed = since.map_or(u64::MAX, |since| self.store_now().since(since).as_micros());
        let window_us = spec.window.unwrap_or_default().as_micros();
        let drained = u128::from(limit) * u128::from(passed) * 1_000 / window_us;
        u64::try_from(drained).unwrap_or(u64::MAX).min(units * 1_000)
    }

    /// A request's part of a limiter.
    pub(super) fn ask(&self, limiter: usize, cost: u64) -> KeyAsk {
        let rule = self.plan.limiters[limiter];
        let enforced = self.plan.rules[rule].mode == crate::rules::Mode::Enforce;
        KeyAsk { enforced, ..fake::ask(rule, &limiter.to_string(), cost) }
    }
}

/// Returns the number of the limiter of an ask.
pub(super) fn limiter_of(ask: &KeyAsk) -> usize {
    let text = std::str::from_utf8(&ask.fingerprint).unwrap_or_default();
    text.parse().expect("a key is the number of a limiter")
}

/// The clock of a node: it is wrong by hours, and drifts.
#[derive(Clone, Debug)]
pub(super) struct NodeClock {
    began: Instant,
    first: Timestamp,
    drift_ppm: i64,
}

impl NodeClock {
    pub(super) fn new(began: Instant, (off_ms, drift_ppm): (i64, i64)) -> Self {
        let first = FIRST.as_micros().saturating_add_signed(off_ms * 1_000);
        Self { began, first: Timestamp::from_micros(first), drift_ppm }
    }
}

impl Clock for NodeClock {
    fn now(&self) -> Timestamp {
        let passed = Micros::from(self.began.elapsed()).as_micros();
        let drifted = passed.cast_signed() * self.drift_ppm / 1_000_000;
        self.first.plus(Micros::from_micros(passed.saturating_add_signed(drifted)))
    }

    fn never_steps_back(&self) -> bool {
        true
    }
}
