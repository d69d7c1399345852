//! The world that all nodes of a run share: the plan, the store's limiters and their replica, and the history.
//!
//! The link of each node acts on the limiters here and notes each event. A store that a replica has replaced goes
//! on for a while as the *former* store, with limiters of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use testkit::traffic::Rng;
use tidegate_core::{Limit, Micros, Timestamp, Token};
use tokio::time::Instant;

use super::clock::MachineClocks;
use super::history::{LayersEvent, LayersEventKind, LayersHistory, PermitStep};
use super::plan::{LONG_MS, LayersPlan, PlannedOutage, TIMEOUT_MS, Trouble};
use crate::clock::Clock;
use crate::store::KeyAsk;
use crate::store::fake::{self, FakeLimiters};

/// The time of the store when a run begins: the beginning of a long window.
pub(super) const FIRST: Timestamp = Timestamp::from_micros(300 * LONG_MS * 1_000);

/// The units of a limiter that a node can spend now.
type HeldUnits = Box<dyn Fn(&KeyAsk) -> u64 + Send>;

/// A store that a replica has taken the place of, and the time until which it stands still, in microseconds.
type FormerStore = (FakeLimiters, u64);

pub(super) struct LayersWorld {
    pub(super) plan: LayersPlan,
    began: Instant,
    limiters: Mutex<FakeLimiters>,
    /// The data of the replica that is behind.
    copy: Mutex<FakeLimiters>,
    former: Mutex<Option<FormerStore>>,
    /// The number of times that a replica with all data has taken the place of the store.
    server: AtomicU64,
    /// True while the former store acts.
    is_former: AtomicBool,
    /// By how much the store's clock was set, in microseconds.
    stepped: AtomicI64,
    /// By node, while it lives.
    holders: Mutex<BTreeMap<usize, HeldUnits>>,
    /// The largest token that the resource of jobs has seen.
    largest: Mutex<Option<Token>>,
    history: Mutex<LayersHistory>,
}

impl LayersWorld {
    pub(super) fn new(plan: LayersPlan) -> Self {
        // The judge of permits follows each of them, and so knows no permits that are carried.
        let of_permits = plan.rules.iter().any(|rule| rule.spec.algorithm.holds_permits());
        let limiters = FakeLimiters::of_server(u64::from(!of_permits));
        Self {
            plan,
            began: Instant::now(),
            limiters: Mutex::new(limiters),
            copy: Mutex::default(),
            former: Mutex::default(),
            server: AtomicU64::new(0),
            is_former: AtomicBool::new(false),
            stepped: AtomicI64::new(0),
            holders: Mutex::default(),
            largest: Mutex::default(),
            history: Mutex::default(),
        }
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
        let us = FIRST.as_micros() + self.passed_us();
        Timestamp::from_micros(us.saturating_add_signed(self.stepped.load(Relaxed)))
    }

    pub(super) fn limiters(&self) -> MutexGuard<'_, FakeLimiters> {
        locked(&self.limiters)
    }

    pub(super) fn history(&self) -> MutexGuard<'_, LayersHistory> {
        locked(&self.history)
    }

    pub(super) fn note(&self, ask: &KeyAsk, what: LayersEventKind) {
        self.note_of(limiter_of(ask), what);
    }

    fn note_of(&self, limiter: usize, what: LayersEventKind) {
        let (at, is_former) = (self.passed_us(), self.is_former.load(Relaxed));
        self.history().events.push(LayersEvent { at, limiter, is_former, what });
    }

    fn note_of_all(&self, what: LayersEventKind) {
        (0..self.plan.limiters.len()).for_each(|limiter| self.note_of(limiter, what));
    }

    /// The store that messages are sent to by now.
    pub(super) fn server(&self) -> u64 {
        self.server.load(Relaxed)
    }

    /// Returns how long a store stands still that a replica has taken the place of.
    pub(super) fn stands_still(&self, server: u64) -> Option<Duration> {
        let until = locked(&self.former).as_ref().filter(|_| server < self.server())?.1;
        let left = until.checked_sub(self.passed_us()).filter(|left| *left > 0)?;
        Some(Duration::from_micros(left))
    }

    /// Lets a store act. A store that was replaced knows nothing of its successor.
    pub(super) fn act<T>(
        &self,
        server: u64,
        act: impl FnOnce(&mut FakeLimiters, Timestamp) -> T,
    ) -> T {
        let now = self.store_now();
        let mut former = locked(&self.former);
        let former = former.as_mut().filter(|_| server < self.server());
        let Some((limiters, _)) = former else { return act(&mut self.limiters(), now) };
        // Events that are noted while it acts are marked as the former store's.
        self.is_former.store(true, Relaxed);
        let result = act(limiters, now);
        self.is_former.store(false, Relaxed);
        result
    }

    /// Lets the replica catch up.
    pub(super) fn copy(&self) {
        locked(&self.copy).clone_from(&self.limiters());
        self.note_of_all(LayersEventKind::Copied);
    }

    /// Loses the data that the replica does not have, or all data.
    pub(super) fn lose(&self, to_copy: bool) {
        let mut limiters = self.limiters();
        let server = limiters.server;
        let ms = self.passed_us() / 1_000;
        let slot = (self.plan.has_slots && !to_copy && ms.is_multiple_of(3)).then_some(ms / 3 % 3);
        match slot {
            // One slot comes back empty.
            Some(slot) => limiters.forget_rules(|rule| u64::from(rule) % 3 == slot),
            None if to_copy => limiters.clone_from(&locked(&self.copy)),
            None => *limiters = FakeLimiters::default(),
        }
        // Another server, or a restart; or the same server, which was flushed.
        let is_same = server == 0 || slot.is_some() || !to_copy && ms.is_multiple_of(2);
        limiters.server = if is_same { server } else { server + 1 };
        drop(limiters);
        for (limiter, rule) in self.plan.limiters.iter().enumerate() {
            if slot.is_none_or(|slot| *rule as u64 % 3 == slot) {
                self.note_of(limiter, LayersEventKind::Lost { to_copy });
            }
        }
    }

    /// Puts a replica with all data in the place of a store that stood still for a time. The store goes on when no
    /// request that was sent to it waits.
    pub(super) fn fail_over(&self, stood_ms: u64) {
        // By then every request that was sent to the former store has passed its deadline.
        let until = self.passed_us() + stood_ms.max(TIMEOUT_MS) * 1_000 + 1_000;
        *locked(&self.former) = Some((self.limiters().clone(), until));
        let mut limiters = self.limiters();
        limiters.server += u64::from(limiters.server > 0);
        drop(limiters);
        self.server.fetch_add(1, Relaxed);
    }

    /// Sets the store's clock.
    pub(super) fn step(&self, by: i64) {
        self.stepped.fetch_add(by, Relaxed);
        self.note_of_all(LayersEventKind::Stepped { by });
    }

    /// Notes that nodes hear of the second values of a rule from now on.
    pub(super) fn note_changed(&self) {
        let rule = self.plan.changed.as_ref().map(|changed| changed.0);
        for (limiter, of) in self.plan.limiters.iter().enumerate() {
            if Some(*of) == rule {
                self.note_of(limiter, LayersEventKind::Changed);
            }
        }
    }

    /// Notes which units a node can spend while it lives.
    pub(super) fn holds(&self, node: usize, held: Option<HeldUnits>) {
        let mut holders = locked(&self.holders);
        match held {
            Some(held) => drop(holders.insert(node, held)),
            None => drop(holders.remove(&node)),
        }
    }

    /// Notes the units that the store counts, and the leased units that nodes can spend.
    pub(super) fn note_used(&self, ask: &KeyAsk, limiters: &FakeLimiters, now: Timestamp) {
        let held = locked(&self.holders).values().map(|held| held(ask)).sum();
        self.note(ask, LayersEventKind::Stands { used: limiters.used(ask, now), held });
    }

    /// Returns whether a limiter has permits.
    pub(super) fn has_permits(&self, ask: &KeyAsk) -> bool {
        self.plan.rules[ask.rule].spec.algorithm.holds_permits()
    }

    /// Notes a step on permits. The store may forget the limiter after that, if it is idle.
    pub(super) fn note_permit(
        &self,
        ask: &KeyAsk,
        step: PermitStep,
        limiters: &mut FakeLimiters,
        now: Timestamp,
    ) {
        let note = |limiters: &FakeLimiters, step| {
            let limit = limiters.limit(ask);
            let (now, out) = (now.as_micros(), limiters.used(ask, now));
            self.note(ask, LayersEventKind::Permit { step, now, out, limit });
        };
        note(limiters, step);
        let number = self.history().events.len() as u64;
        let is_swept = Rng::new(self.plan.seed ^ number).chance(self.plan.swept_percent);
        if is_swept && limiters.forget_if_idle(ask, now) {
            note(limiters, PermitStep::Forgotten);
        }
    }

    /// Lets a write of a job come to the resource, which takes it unless it has seen a larger token.
    pub(super) fn write(&self, permit: &KeyAsk) {
        let mut largest = locked(&self.largest);
        let is_taken = permit.taken.token >= *largest;
        if is_taken {
            *largest = permit.taken.token;
        }
        self.note(permit, LayersEventKind::Written { token: permit.taken.token, is_taken });
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
        // Without a time the units may be so old that all of them have drained.
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

/// One of the clocks of a node: it is wrong by hours, and drifts.
#[derive(Clone, Debug)]
pub(super) struct NodeClock {
    pub(super) began: Instant,
    pub(super) clocks: Arc<Mutex<MachineClocks>>,
    pub(super) read: fn(&MachineClocks, u64) -> Micros,
}

impl NodeClock {
    /// The clocks of a machine.
    pub(super) fn machine((off_ms, drift_ppm): (i64, i64)) -> Arc<Mutex<MachineClocks>> {
        let first = FIRST.as_micros().saturating_add_signed(off_ms * 1_000);
        Arc::new(Mutex::new(MachineClocks::new(first, drift_ppm)))
    }
}

impl Clock for NodeClock {
    fn now(&self) -> Timestamp {
        let passed = Micros::from(self.began.elapsed()).as_micros();
        Timestamp::EPOCH.plus((self.read)(&locked(&self.clocks), passed))
    }
}

pub(super) fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
