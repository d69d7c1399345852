//! The store inside Redis as gates use it: each verb is one script over the limiters of one slot.

mod counted;
mod late;
mod leases;
mod loaded;
mod no_space;
mod reply;
mod revisions;
mod run;
mod step;
mod units;

use std::sync::Arc;

use tidegate_core::{Micros, Rule, Timestamp};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::script::NewerValues;
use super::{Client, slot_of};
use crate::clock::{BootClock, Clock, SystemClock};
use crate::lease::{GivenBack, Report, Unspent};
use crate::rules::Policy;
use crate::store::memory::Generation;
use crate::store::{
    GaveUp, KeyAsk, LeaseAsk, LeaseReply, OnUnitsBack, StepArgs, StepReply, Store, StoreError, Verb,
};
use counted::Counted;
use loaded::Loaded;

/// The store inside Redis, under one policy. It is kept until the request is decided, its late reply is undone and
/// it has asked again.
#[derive(Clone)]
pub(crate) struct RedisStore {
    generation: Arc<Generation>,
    client: Client,
    clock: SystemClock,
    boot_clock: BootClock,
    loaded: Arc<Loaded>,
    /// By rule, how its keys are counted.
    counted: Arc<Vec<Option<Counted>>>,
    on_units_back: OnUnitsBack,
}

/// How often other values may decide while units are given back.
const MOST_CHANGES: u32 = 16;

/// A request that waits for the store: its limiters, and the other parts of its step.
#[derive(Clone, Copy, Debug)]
struct PendingStep<'a> {
    asks: &'a [KeyAsk],
    args: StepArgs<'a>,
    /// The values that decide in place of the node's own.
    newer: Option<&'a NewerValues>,
    /// Whether the units of a late reply are given back, to the limiters in `asks` only.
    undoes: bool,
}

impl RedisStore {
    pub(crate) fn new(
        generation: Arc<Generation>,
        client: Client,
        clock: SystemClock,
        on_units_back: OnUnitsBack,
    ) -> Self {
        let (loaded, counted) = (Arc::new(Loaded::now(&clock)), Arc::default());
        let first = Arc::clone(&generation);
        let boot_clock = BootClock::new();
        Self { generation, client, clock, boot_clock, loaded, counted, on_units_back }.under(&first)
    }

    fn policy(&self) -> &Policy {
        &self.generation.policy
    }
}

impl Store for RedisStore {
    async fn step(&self, asks: &[KeyAsk], args: StepArgs<'_>) -> Result<StepReply, GaveUp> {
        match args.verb {
            Verb::Settle => self.settle(asks, args).await.map_err(GaveUp::from),
            Verb::Ask | Verb::Peek | Verb::Renew => self.ask(asks, args).await,
        }
    }

    async fn undo(&self, asks: &[KeyAsk], args: StepArgs<'_>, reply: &StepReply) -> StepReply {
        match self.took(asks, reply, args.leased, args.at) {
            Some(took) => self.give_back(asks, &took).await,
            None => StepReply::nothing(asks.len(), Timestamp::EPOCH),
        }
    }

    async fn reset(&self, asks: &[KeyAsk], deadline: Instant) -> Result<(), StoreError> {
        self.reset_limiters(asks, deadline).await
    }

    async fn lease(&self, ask: &KeyAsk, lease: LeaseAsk<'_>) -> LeaseReply {
        self.take_lease(ask, lease).await
    }

    async fn give_back_lease(
        &self,
        rest: &Unspent<KeyAsk>,
        node: u64,
    ) -> Result<Option<(GivenBack, Report)>, StoreError> {
        self.return_lease(rest, node).await
    }

    fn under(&self, generation: &Arc<Generation>) -> Self {
        let prefix = &self.client.settings().key_prefix;
        let counted = generation.policy.rules().iter().map(|rule| Counted::of(prefix, rule));
        let counted = Arc::new(counted.collect());
        Self { counted, generation: Arc::clone(generation), ..self.clone() }
    }

    fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.client.runtime().spawn(work)
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn uptime(&self) -> Micros {
        self.boot_clock.now()
    }

    fn deadline(&self) -> Instant {
        self.client.deadline()
    }

    async fn fit(&self) {
        self.client.fit().await;
    }

    fn slot(&self, ask: &KeyAsk) -> Option<u16> {
        self.client.settings().url.is_cluster().then(|| slot_of(&ask.fingerprint))
    }

    fn can_hold(&self, rule: &Rule) -> bool {
        self.client.settings().can_hold(rule)
    }
}

impl RedisStore {
    /// The reply to a step over no limiter.
    fn nothing(&self, asks: &[KeyAsk], at: Option<Timestamp>) -> StepReply {
        StepReply::nothing(asks.len(), at.unwrap_or_else(|| self.clock.now()))
    }

    /// Waits until the store has dated the first policy, by the shard of the key of that name.
    ///
    /// # Errors
    /// The store did not reply.
    pub(crate) async fn connected(&self) -> Result<(), StoreError> {
        let key = self.client.settings().key_prefix.as_bytes();
        self.know_loaded(key, self.client.deadline()).await
    }
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { generation, client, .. } = self;
        f.debug_struct("RedisStore")
            .field("generation", generation)
            .field("client", client)
            .finish_non_exhaustive()
    }
}
