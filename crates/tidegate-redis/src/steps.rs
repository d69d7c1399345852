//! The store inside Redis as gates use it: each verb is one script over the limiters of one slot.

mod decide;
mod late;
mod leases;
mod limiters;
mod no_space;
mod record;
mod units;

use std::sync::{Arc, OnceLock};

use tidegate_core::{Decision, Rule, Timestamp};

use super::nodes::Listed;
use super::script::{Call, DecidedStep, NewerValues, ScriptLimiter, ScriptStep};
use crate::client::Client;
use crate::clock::Clock;
use crate::keys::{key_in, slot_of};
use crate::request::Origin;
use crate::route::Route;
use crate::rules::{Policy, PolicyErrors};
use crate::settings::StoreSettings;
use crate::step::Standing;
use crate::store::{
    GaveUp, Generation, Hooks, Host, KeyAsk, LeaseAsk, LeaseReply, Receipt, RecordReply,
    RecordVerb, ReturnReply, StepArgs, StepReply, Store, StoreCounts, StoreError, StoredData,
    Unspent, Verb, is_report,
};
use decide::{Remembered, by_key};
use late::took;
use limiters::{KeyCount, Loaded, know_loaded_exactly, know_revision, part, script_limiters};
use record::run_on_record;

/// The store inside Redis or Valkey, under one policy: the store of a `tidegate::SharedGate`, unless it is made over
/// another store.
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

/// The maximum number of keys forgotten in one call, so that no call occupies the store for long.
const KEYS_PER_CALL: usize = 512;

/// A request that waits for the store: its limiters, and the other parts of its step.
#[derive(Clone, Copy, Debug)]
struct PendingStep<'a> {
    asks: &'a [KeyAsk],
    args: StepArgs<'a>,
    step: ScriptStep,
    remembered: Option<Remembered<'a>>,
    /// True if the units of a late reply are given back, to the limiters in `asks` only.
    undoes: bool,
}

/// The result of a step, and the connection that the reply came over if the store was asked.
type RoutedReply = (DecidedStep, Option<Route>);

/// The data for undoing a step.
#[derive(Clone, Debug, Default)]
struct OfStep {
    /// The connection that the reply came over, where its units can be given back.
    route: Option<Route>,
    /// The values that decided in place of the node's own, for each limiter.
    newer: NewerValues,
}

impl RedisStore {
    #[doc(hidden)]
    pub fn new(generation: Arc<Generation>, client: Client, host: Host) -> Self {
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

    /// Removes these keys, with all of their data.
    ///
    /// # Errors
    /// The store did not reply, and some of the data is still there.
    #[doc(hidden)]
    pub async fn remove(&self, keys: &[Vec<u8>]) -> Result<(), StoreError> {
        // In a cluster keys live in different slots.
        let keys_per_call = if self.settings().url.is_cluster() { 1 } else { KEYS_PER_CALL };
        for keys in keys.chunks(keys_per_call) {
            let (script, keys) = Call::remove(keys.to_vec());
            let call = Call::of_script(&script.into(), keys, Vec::new());
            self.client.run(&call, self.client.deadline()).await?;
        }
        Ok(())
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
            Verb::Reset => {
                self.reset_limiters(asks, args).await?;
                return Ok(self.nothing(asks, args.at));
            }
            Verb::Settle if asks.iter().any(|ask| ask.is_unlimited(self.policy())) => {
                return Ok(self.settle_with_unlimited(asks, args).await?);
            }
            Verb::Ask | Verb::Peek | Verb::Renew | Verb::Settle => {}
        }
        if !self.can_hold_all(asks) {
            let error = StoreError::Refused("no store can hold these values".to_owned());
            self.note_undecided(&error, asks);
            return Err(error.into());
        }
        // Values without a date cannot be compared with the values of other nodes. A replay has no other nodes.
        if args.at.is_none() {
            let known = know_revision(self, asks, args.deadline).await;
            known.inspect_err(|error| self.note_undecided(error, asks))?;
        }
        let (step, costs) = part(self.policy(), asks, args);
        let settled = (args.actual, args.under);
        let limiters = script_limiters(self, asks, &costs, args.leased, settled, args.known);
        if limiters.is_empty() {
            return Ok(self.nothing(asks, args.at));
        }
        // A look returns the current state of a limiter, not a remembered report.
        let id = args.origin.id.filter(|_| step != ScriptStep::Peek || !is_report(asks));
        let remembered = self.remembered(asks, id);
        let pending = PendingStep { asks, args, step, remembered, undoes: true };
        if remembered.is_some() {
            let (places, limiters) = by_key(limiters);
            let (done, route) = self.decide(&limiters, pending).await?;
            return Ok(step_reply((done.put_back(&places), route)));
        }
        let mut reply = step_reply(self.decide(&limiters, pending).await?);
        if args.verb == Verb::Settle && !reply.data.is_lost {
            units::note_kept(asks, args, &mut reply);
        }
        Ok(reply)
    }

    async fn undo(&self, asks: &[KeyAsk], args: StepArgs<'_>, reply: &StepReply) -> StepReply {
        match took(asks, reply, args.leased, args.at) {
            Some(took) => self.give_back(asks.len(), &took).await,
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
    ) -> Result<Option<ReturnReply>, StoreError> {
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

    fn note_undecided(&self, error: &StoreError, asks: &[KeyAsk]) {
        if let Some(first) = asks.first() {
            self.client.note_undecided(error, &first.fingerprint);
        }
    }

    /// Returns whether the store can hold the values from plans and from the request.
    fn can_hold_all(&self, asks: &[KeyAsk]) -> bool {
        let settings = self.client.settings();
        asks.iter().filter_map(|ask| ask.values.own.as_ref()).all(|rule| settings.can_hold(rule))
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
        let _ = know_loaded_exactly(self, key).await;
        Ok(())
    }

    /// Decides for one key under `rule`, and takes `cost` if the rule admits it. The keys of a `namespace` are
    /// separate from the keys of other namespaces and of the policy's rules.
    ///
    /// A key that was asked under another rule before moves to this rule with its usage when something is taken. A
    /// denied call leaves the key as it is; its `retry_after` is at the earliest when the other rule has freed enough.
    /// Time that passes under a faster rule drains at its rate. An unlimited rule admits everything and does not ask
    /// the store.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Rule, SharedGate, Spec, StoreError};
    ///
    /// # async fn example(gate: &SharedGate) -> Result<(), Box<dyn std::error::Error>> {
    /// let per_minute = Rule::new(Spec::new(AlgorithmKind::TokenBucket, 30, Duration::from_secs(60)))?;
    /// let decision = gate.store().check_under("plans", b"ada", &per_minute, 1).await?;
    /// if decision.is_allowed() { /* go on */ }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The store did not reply, and no rule of the policy says how to decide without it. The units may have been taken,
    /// unless nothing was sent.
    pub async fn check_under(
        &self,
        namespace: &str,
        key: &[u8],
        rule: &Rule,
        cost: u64,
    ) -> Result<Decision, StoreError> {
        let key = key_in(&self.client.settings().key_prefix, namespace, key);
        let Some(limiter) = ScriptLimiter::new(&key, rule, cost).map(ScriptLimiter::from_request)
        else {
            return Ok(Decision::UNLIMITED);
        };
        let args = StepArgs::new(Verb::Ask, Origin::default(), self.client.deadline());
        let step = ScriptStep::Ask;
        // No limiter of the policy gets back the units of a late reply.
        let pending = PendingStep { asks: &[], args, step, remembered: None, undoes: false };
        let done = self.decide(&[limiter], pending).await;
        let (done, _) = done.map_err(|gave_up| gave_up.error)?;
        let decision = done.decisions.into_iter().next();
        decision.ok_or_else(|| StoreError::Answer("no values".to_owned()))
    }
}

/// Returns the result of a step as the reply of the store.
fn step_reply((done, route): RoutedReply) -> StepReply {
    let DecidedStep { allowed, now, repeated, first, replies, newer, is_lost, carried, .. } = done;
    let server = route.as_ref().map_or(0, Route::server);
    let mut reply = StepReply {
        allowed,
        now,
        repeated,
        first,
        standing: Standing::Exact,
        replies: replies.into_iter().map(Some).collect(),
        receipt: Some(Receipt::new(OfStep { route, newer })),
        data: StoredData { server, is_lost, carried },
    };
    reply.standing = reply.standing_by_replies();
    reply
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
