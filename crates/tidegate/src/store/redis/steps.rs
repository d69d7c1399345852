//! The store inside Redis as gates use it: each verb is one script over the limiters of one slot.

mod call_args;
mod key_count;
mod late;
mod leases;
mod loaded;
mod no_space;
mod record;
mod reply;
mod revisions;
mod run;
mod step;
mod units;

use std::sync::{Arc, OnceLock};

use tidegate_core::{Rule, Timestamp};

use super::nodes::Listed;
use super::script::NewerValues;
use super::{Client, slot_of};
use crate::clock::Clock;
use crate::lease::{GivenBack, LimiterReport, Unspent};
use crate::rules::{Policy, PolicyErrors};
use crate::settings::StoreSettings;
use crate::store::memory::Generation;
use crate::store::{
    GaveUp, Hooks, Host, KeyAsk, LeaseAsk, LeaseReply, RecordReply, RecordVerb, StepArgs,
    StepReply, Store, StoreCounts, StoreError, Verb,
};
use key_count::KeyCount;
use loaded::Loaded;
use record::run_on_record;

/// The store inside Redis or Valkey, under one policy: the store of a [`SharedGate`](crate::SharedGate) unless it is made
/// over another.
#[derive(Clone)]
pub struct RedisStore {
    generation: Arc<Generation>,
    client: Client,
    host: Host,
    loaded: Arc<Loaded>,
    /// The counting of keys, by rule.
    counted: Arc<Vec<Option<KeyCount>>>,
    hooks: Arc<OnceLock<Hooks>>,
    /// This node in the list of nodes; empty if the number of nodes is configured.
    listed: Arc<OnceLock<Arc<Listed>>>,
}

/// The number of times that other values may decide while units are given back.
const MOST_CHANGES: u32 = 16;

/// A request that waits for the store: its limiters, and the other parts of its step.
#[derive(Clone, Copy, Debug)]
struct PendingStep<'a> {
    asks: &'a [KeyAsk],
    args: StepArgs<'a>,
    /// The values that decide in place of the node's own.
    newer: Option<&'a NewerValues>,
    /// True if the units of a late reply are given back, to the limiters in `asks` only.
    undoes: bool,
}

impl RedisStore {
    pub(crate) fn new(generation: Arc<Generation>, client: Client, host: Host) -> Self {
        let store = Self {
            generation: Arc::clone(&generation),
            client,
            loaded: Arc::new(Loaded::now(&host)),
            host,
            counted: Arc::default(),
            hooks: Arc::default(),
            listed: Arc::default(),
        };
        store.under(&generation)
    }

    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    fn units_back(&self, asks: &[KeyAsk]) {
        if let Some(hooks) = self.hooks.get() {
            hooks.units_back(asks);
        }
    }

    fn policy(&self) -> &Policy {
        &self.generation.policy
    }
}

impl Store for RedisStore {
    async fn step(&self, asks: &[KeyAsk], args: StepArgs<'_>) -> Result<StepReply, GaveUp> {
        match args.verb {
            Verb::Settle => self.settle(asks, args).await.map_err(GaveUp::from),
            Verb::Reset => {
                self.reset_limiters(asks, args.deadline).await?;
                Ok(self.nothing(asks, args.at))
            }
            Verb::Ask | Verb::Peek | Verb::Renew => self.ask(asks, args).await,
        }
    }

    async fn undo(&self, asks: &[KeyAsk], args: StepArgs<'_>, reply: &StepReply) -> StepReply {
        match self.took(asks, reply, args.leased, args.at) {
            Some(took) => self.give_back(asks, &took).await,
            None => StepReply::nothing(asks.len(), Timestamp::EPOCH),
        }
    }

    async fn lease(&self, ask: &KeyAsk, lease: LeaseAsk<'_>) -> LeaseReply {
        leases::take_lease(self, ask, lease).await
    }

    async fn give_back_lease(
        &self,
        rest: &Unspent<KeyAsk>,
        node: u64,
    ) -> Result<Option<(GivenBack, LimiterReport)>, StoreError> {
        leases::return_lease(self, rest, node).await
    }

    async fn record(&self, name: &[u8], verb: RecordVerb<'_>) -> Result<RecordReply, StoreError> {
        run_on_record(&self.client, name, verb).await
    }

    fn under(&self, generation: &Arc<Generation>) -> Self {
        let prefix = &self.client.settings().key_prefix;
        let counted = generation.policy.rules().iter().map(|rule| KeyCount::of(prefix, rule));
        let counted = Arc::new(counted.collect());
        Self { counted, generation: Arc::clone(generation), ..self.clone() }
    }

    fn host(&self) -> &Host {
        &self.host
    }

    async fn fit(&self) {
        self.client.fit().await;
    }

    async fn lost(&self) {
        self.client.lost().await;
    }

    fn slot(&self, ask: &KeyAsk) -> Option<u16> {
        self.client.settings().url.is_cluster().then(|| slot_of(&ask.fingerprint))
    }

    fn can_hold(&self, rule: &Rule) -> bool {
        self.client.settings().can_hold(rule)
    }

    fn fits(&self, policy: &Policy) -> Result<(), PolicyErrors> {
        policy.fits(self.client.settings())
    }

    fn attach(&self, hooks: Hooks) {
        if self.client.settings().nodes.is_none() {
            let nodes = Arc::clone(&hooks.nodes);
            self.listed.get_or_init(|| {
                Listed::begin(&self.client, move |seen| nodes(seen.nodes, seen.rank))
            });
        }
        self.hooks.get_or_init(|| hooks);
    }

    fn counts(&self) -> StoreCounts {
        self.client.counts().read()
    }

    async fn leave(&self) -> Result<(), StoreError> {
        match self.listed.get() {
            Some(listed) => listed.leave(&self.client).await,
            None => Ok(()),
        }
    }
}

impl RedisStore {
    /// The reply to a step over no limiter.
    fn nothing(&self, asks: &[KeyAsk], at: Option<Timestamp>) -> StepReply {
        StepReply::nothing(asks.len(), at.unwrap_or_else(|| self.host.now()))
    }

    /// Returns the settings that it was made with.
    #[must_use]
    pub fn settings(&self) -> &StoreSettings {
        self.client.settings()
    }

    /// Waits until the store was inspected for the first time and has dated the first policy. A gate may be
    /// asked before.
    ///
    /// ```no_run
    /// # async fn example(gate: &tidegate::SharedGate) -> Result<(), tidegate::StoreError> {
    /// gate.store().connected().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The first inspection found the store unfit. Inspection goes on.
    pub async fn connected(&self) -> Result<(), StoreError> {
        self.client.first_found().await?;
        // By the shard of the key of that name. If this fails, the first request asks.
        let key = self.client.settings().key_prefix.as_bytes();
        let _ = revisions::know_loaded(self, key, self.client.deadline()).await;
        Ok(())
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
