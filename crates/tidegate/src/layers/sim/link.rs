//! The store as a node reaches it: messages take their time, come late or are lost, as the seed says.
//!
//! [`StoreLink::carry`] takes one message there and its reply back; `sent` and `store` make the verbs of a store of
//! it.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use testkit::traffic::Rng;
use tidegate_core::Timestamp;
use tokio::time::sleep;

use super::history::LayersLossCause;
use super::plan::{PlannedOutage, TIMEOUT_MS, Trouble};
use super::world::{LayersWorld, limiter_of};
use crate::rules::Policy;
use crate::store::fake::FakeLimiters;
use crate::store::{Generation, Host, KeyAsk, OnUnitsBack};

/// A node notices that the store is away when this time has passed; until then it sends, and hears nothing.
const NOTICED_MS: u64 = 3 * TIMEOUT_MS;
/// No reply comes after this time.
const SILENCE: Duration = Duration::from_millis(1_000);
/// The slots of a store that has some.
const SLOTS: u16 = 3;

/// A node's connection to the store.
#[derive(Clone)]
pub(super) struct StoreLink {
    generation: Arc<Generation>,
    pub(super) wire: Arc<NodeWire>,
}

pub(super) struct NodeWire {
    world: Arc<LayersWorld>,
    pub(super) node: usize,
    pub(super) host: Host,
    /// The node crashed.
    is_cut: AtomicBool,
    /// The number of messages about each limiter.
    calls: Mutex<BTreeMap<Vec<u8>, u64>>,
    on_units_back: OnUnitsBack,
}

/// Returns the revision of a policy.
pub(super) fn revision_of(policy: &Policy) -> u32 {
    policy.revision().map_or(0, NonZeroU32::get)
}

/// The fate of a message and its reply.
#[derive(Clone, Copy)]
struct Fate {
    there: Duration,
    back: Duration,
    is_lost_there: bool,
    is_lost_back: bool,
    /// The sender does not notice the loss.
    is_silent: bool,
}

/// The result of a message.
pub(super) enum Carried<T> {
    Came(T),
    /// The store acted, and its reply was lost.
    Unheard(T),
    NotThere,
}

impl StoreLink {
    pub(super) fn new(
        world: Arc<LayersWorld>,
        node: usize,
        host: Host,
        generation: Arc<Generation>,
        on_units_back: OnUnitsBack,
    ) -> Self {
        let (is_cut, calls) = (AtomicBool::new(false), Mutex::default());
        let wire = NodeWire { world, node, host, is_cut, calls, on_units_back };
        Self { generation, wire: Arc::new(wire) }
    }

    /// The same connection, for a node with another policy.
    pub(super) fn with(&self, generation: &Arc<Generation>) -> Self {
        Self { generation: Arc::clone(generation), wire: Arc::clone(&self.wire) }
    }

    pub(super) fn policy(&self) -> &Policy {
        &self.generation.policy
    }

    pub(super) fn world(&self) -> &LayersWorld {
        &self.wire.world
    }

    /// Lets no message through any more, because the node has crashed.
    pub(super) fn cut(&self) {
        self.wire.is_cut.store(true, Relaxed);
    }

    pub(super) fn is_cut(&self) -> bool {
        self.wire.is_cut.load(Relaxed)
    }

    /// The cause of a loss on the way.
    pub(super) fn lost_by(&self, why: LayersLossCause) -> LayersLossCause {
        if self.is_cut() { LayersLossCause::Crashed } else { why }
    }

    pub(super) fn units_are_back(&self, asks: &[KeyAsk]) {
        (self.wire.on_units_back)(asks);
    }

    pub(super) fn slot_of(&self, ask: &KeyAsk) -> Option<u16> {
        let number = u16::try_from(ask.rule).unwrap_or_default() % SLOTS;
        self.world().plan.has_slots.then_some(number)
    }

    /// Returns the trouble of this kind that messages about a limiter have now.
    pub(super) fn trouble(&self, kind: Trouble, ask: &KeyAsk) -> Option<&PlannedOutage> {
        self.world().trouble(kind, self.wire.node, self.slot_of(ask))
    }

    fn reaches(&self, ask: &KeyAsk) -> bool {
        !self.is_cut() && self.trouble(Trouble::Away, ask).is_none()
    }

    /// Returns whether the node knows that the store does not answer about a limiter.
    pub(super) fn knows_away(&self, ask: &KeyAsk) -> bool {
        let now = self.world().passed_us() / 1_000;
        let kinds = [Trouble::Away, Trouble::Frozen].into_iter();
        let mut troubles = kinds.filter_map(|kind| self.trouble(kind, ask));
        troubles.any(|trouble| now >= trouble.from + NOTICED_MS)
    }

    /// The fate of the next message about a limiter. It is the same in every run, regardless of other messages at that
    /// time.
    fn fate(&self, ask: &KeyAsk) -> Fate {
        let number = {
            let mut calls = self.wire.calls.lock().unwrap_or_else(PoisonError::into_inner);
            let calls = calls.entry(ask.fingerprint.clone()).or_default();
            *calls += 1;
            *calls
        };
        let (plan, node) = (&self.world().plan, self.wire.node as u64);
        // The node, the limiter and the number of the message, each in bits of its own.
        let of = (node << 8 | limiter_of(ask) as u64) << 32 | number;
        let rng = &mut Rng::new(Rng::new(plan.seed).next_u64() ^ of);
        let quick = |rng: &mut Rng| Duration::from_millis(rng.pick([0, 0, 1, 1, 2]));
        let (mut there, mut back) = (quick(rng), quick(rng));
        let is_slow = self.trouble(Trouble::Slow, ask).is_some();
        if rng.chance(plan.late_percent) || is_slow && rng.chance(80) {
            let late = Duration::from_millis(rng.between(TIMEOUT_MS, 6 * TIMEOUT_MS));
            if rng.chance(50) { there = late } else { back = late }
        }
        let is_lost = rng.chance(plan.lost_percent);
        let is_lost_there = is_lost && rng.chance(50);
        let is_lost_back = is_lost && !is_lost_there;
        Fate { there, back, is_lost_there, is_lost_back, is_silent: rng.chance(50) }
    }

    /// Carries a message to the store that it is for, where it acts, and the reply back.
    pub(super) async fn carry<T>(
        &self,
        ask: &KeyAsk,
        server: u64,
        act: impl FnOnce(&mut FakeLimiters, Timestamp) -> T,
    ) -> Carried<T> {
        let fate = self.fate(ask);
        sleep(fate.there).await;
        if fate.is_lost_there || !self.reaches(ask) {
            self.wait_in_vain(fate).await;
            return Carried::NotThere;
        }
        while let Some(frozen) = self.trouble(Trouble::Frozen, ask) {
            let left_ms = frozen.to - self.world().passed_us() / 1_000;
            sleep(Duration::from_millis(left_ms)).await;
        }
        // A store that was replaced acts on the messages that were sent to it when it goes on.
        while let Some(left) = self.world().stands_still(server) {
            sleep(left).await;
        }
        let result = self.world().act(server, act);
        sleep(fate.back).await;
        if fate.is_lost_back || !self.reaches(ask) {
            self.wait_in_vain(fate).await;
            return Carried::Unheard(result);
        }
        Carried::Came(result)
    }

    async fn wait_in_vain(&self, fate: Fate) {
        // Otherwise the connection breaks, and the node hears of the loss at once.
        if fate.is_silent {
            sleep(SILENCE).await;
        }
    }
}
