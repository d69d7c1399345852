//! A gate whose limiters live in a shared store: many nodes, one limit.

mod ad_hoc;
mod amend;
mod answers;
mod bans;
mod counted;
mod counts;
mod cross_slot;
mod decide;
mod denial_memory;
mod denials;
mod denied_again;
mod error;
mod fallback;
mod give_back_leases;
mod hold;
mod late;
mod learn;
mod leases;
mod left;
mod loaded;
mod look;
mod no_space;
mod nodes;
mod parts;
mod plans;
mod recent;
mod replay;
mod revisions;
mod run;
mod settle;
mod share;
mod spend_leases;
mod step;
mod store;
mod take_leases;
mod validate;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate_core::{Rule, Timestamp};

use crate::answer::Answer;
use crate::clock::{Clock, SystemClock};
use crate::frontend::{Frontend, GateQueues};
use crate::observe::Observer;
use crate::request::{Identity, Origin, Request};
use crate::rules::Policy;
use crate::settings::StoreSettings;
use crate::step::Ask;
use crate::store::memory::Newest;
use crate::store::redis::script::{self, Step};
use crate::store::redis::{Client, StoreError, StoreEvent};
use cross_slot::Part;
use decide::Verb;
pub use error::SharedGateError;
use fallback::Fallback;
pub use hold::SharedCharge;
use leases::UntilDropped;
use nodes::Nodes;
pub use replay::SharedReplay;
use share::Share;
pub(crate) use store::Late;
use store::{StepArgs, Store};

/// A limiter of a request, by its key in the store.
pub(crate) type KeyAsk = Ask<Vec<u8>>;

/// A policy, and its limiters in a store that other nodes use as well.
///
/// One decision is one step in the store, by the store's clock. So no more is admitted than the limit, however
/// many nodes ask and however wrong their own clocks are. If the store does not decide a request, this process
/// does, and marks the answer [degraded](Answer::is_degraded). If the store does not reply, each rule's
/// [`OnStoreError`](crate::OnStoreError) decides. If the store replies but has [more
/// load](Answer::is_overloaded) than it decides in time, this node admits at most its share of the limit.
///
/// A call that was lost may have taken units, so it is not sent twice. A request with an id
/// ([`Request::with_id`]) is the exception, if every rule that can refuse it remembers the answer for at least
/// the deadline ([`RuleSpec::dedupe`](crate::RuleSpec::dedupe)). Its call is sent once more if the connection
/// is lost, or if no reply comes within half of the deadline.
///
/// ```no_run
/// use std::time::Duration;
/// use tidegate::{
///     AlgorithmKind, Descriptor, Policy, Request, RuleSpec, SharedGate, Spec, StoreSettings,
/// };
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let rule = RuleSpec::new("per-user", Spec::new(AlgorithmKind::TokenBucket, 100, Duration::from_secs(1)));
/// let policy = Policy::new(vec![rule.key(["user"])])?;
/// let settings = StoreSettings::new("redis://127.0.0.1:6379".parse()?);
/// let gate = SharedGate::new(policy, settings, |event| eprintln!("{event:?}"))?;
///
/// let entries = [("user", "ada")];
/// let descriptors = [Descriptor::new(&entries)];
/// let answer = gate.check(&Request::new("default", &descriptors)).await;
/// if answer.is_allowed() { /* go on */ }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SharedGate {
    front: Frontend<SystemClock>,
    client: Client,
    /// The queues of requests that wait in this process.
    queues: Arc<GateQueues>,
    /// The store under the policy that is in force.
    newest: Newest<Store>,
    fallback: Arc<Fallback>,
    nodes: Nodes,
    degraded: AtomicU64,
    _until_dropped: UntilDropped,
}

impl SharedGate {
    /// Creates a gate over the store of `settings`, and starts to connect in the background. `observer` is
    /// notified of each outage of the store, not of each request.
    ///
    /// # Errors
    /// The settings are invalid, no share can be made of a rule's limit, or the password or the trusted
    /// certificates cannot be read.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(
        policy: Policy,
        settings: StoreSettings,
        observer: impl Fn(StoreEvent<'_>) + Send + Sync + 'static,
    ) -> Result<Self, SharedGateError> {
        Self::fits(&policy, &settings)?;
        let fallback = Arc::new(Fallback::new(policy, Share::of(settings.nodes)));
        let client =
            Client::begin(settings, Box::new(observer)).map_err(SharedGateError::Unreadable)?;
        let generation = fallback.memory.newest().share();
        let store = Store::new(generation, client.clone(), fallback.clock());
        Ok(Self {
            front: Frontend::new(),
            nodes: Nodes::begin(&client, &fallback, &store.leases),
            _until_dropped: store.leases.until_dropped(),
            client,
            queues: Arc::clone(&store.queues),
            newest: Newest::new(store),
            fallback,
            degraded: AtomicU64::new(0),
        })
    }

    /// Adds an observer of every decision, including those without the store ([`Answer::is_degraded`]). See
    /// [`Gate::with_observer`](crate::Gate::with_observer).
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.front.observers.add(observer);
        self
    }

    /// Returns the policy that is in force on this node.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.newest.read().generation.policy)
    }

    /// Returns the store under the policy that is in force. A request that starts with it is decided under that
    /// policy, even if another one is put in force meanwhile.
    fn newest(&self) -> Arc<Store> {
        self.newest.read().share()
    }

    /// Returns the settings of the store.
    #[must_use]
    pub fn settings(&self) -> &StoreSettings {
        self.client.settings()
    }

    /// Returns how many requests were decided without the store so far.
    #[must_use]
    pub fn degraded(&self) -> u64 {
        self.degraded.load(Relaxed)
    }

    /// Waits until the store was inspected for the first time and has dated the first policy. A gate may be
    /// asked before.
    ///
    /// # Errors
    /// The first inspection found the store unfit. Inspection goes on.
    pub async fn connected(&self) -> Result<(), StoreError> {
        self.client.first_found().await?;
        let (key, deadline) = (self.settings().key_prefix.as_bytes(), self.client.deadline());
        // If this fails, the first request asks.
        let _ = self.newest().know_loaded(key, deadline).await;
        Ok(())
    }

    /// Waits until the store is fit; returns immediately unless it is unavailable.
    pub async fn recovered(&self) {
        self.client.fit().await;
    }

    /// Waits until the store is degraded; returns immediately while it is.
    pub(crate) async fn lost(&self) {
        self.client.lost().await;
    }

    /// Decides a request and, if every rule admits it, takes its cost from all of them. The request does not
    /// wait, and is refused if others wait in this process ([`SharedGate::acquire`]).
    #[must_use = "a request goes on even if it was refused, unless the answer is looked at"]
    pub async fn check<'r>(&self, request: impl Into<Request<'r>>) -> Answer<'_> {
        self.check_request(&request.into()).await
    }

    /// Decides; compiled once, whatever the request is made of.
    async fn check_request(&self, request: &Request<'_>) -> Answer<'_> {
        let store = self.newest();
        let (asks, origin) = (self.asks(&store, request), request.origin());
        let answer = match self.banned(&store, &asks, origin).await {
            Some(answer) => answer,
            None => self.decide_now(&store, &asks, origin).await,
        };
        self.conclude(request, answer)
    }

    /// Decides and takes like [`SharedGate::check`], and returns only whether the request is admitted.
    pub async fn admits<'r>(&self, request: impl Into<Request<'r>>) -> bool {
        self.check_request(&request.into()).await.is_allowed()
    }

    fn queues(&self) -> &GateQueues {
        &self.queues
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.fallback.now()
    }

    /// The runtime of the store's thread, for what is done behind an answer.
    #[cfg(feature = "tower")]
    pub(crate) fn runtime(&self) -> &tokio::runtime::Handle {
        self.client.runtime()
    }

    /// Decides and takes, whether or not others wait; without the store if that does not reply.
    async fn ask(&self, store: &Store, asks: &[KeyAsk], origin: Origin<'_>) -> Answer<'_> {
        let parts = store.parts(asks);
        if !parts.is_empty() {
            return Box::pin(self.ask_across(store, asks, &parts, origin)).await;
        }
        let (late, sent) = (Late::default(), store.clock.now());
        match self.take(store, asks, origin, &late).await {
            Ok(done) => {
                store.note_denial(asks, sent, &done);
                self.counted(store.answer_of(asks, done))
            }
            Err(error) => {
                let answer = self.without_store(store, asks, origin.id, &error);
                // An admitted request owns the units that a late reply took.
                if answer.is_allowed() {
                    late.keep();
                }
                answer
            }
        }
    }

    /// Decides and takes over several slots. None of the rules remembers an answer.
    async fn ask_across(
        &self,
        store: &Store,
        asks: &[KeyAsk],
        parts: &[Part],
        origin: Origin<'_>,
    ) -> Answer<'_> {
        let sent = store.clock.now();
        match store.ask_across(asks, parts, origin, None).await {
            Ok(done) => {
                store.note_denial_across(asks, sent, &done);
                let reply_of = |place: usize| done.decisions.get(place)?.as_ref();
                let own =
                    |place| reply_of(place).filter(|one| !one.overflow).map(|one| one.decision);
                self.learn(&store.generation, asks, done.allowed, own);
                self.counted(store.exact(asks, done))
            }
            Err(unanswered) => {
                let answer = self.without_store(store, asks, origin.id, &unanswered.error);
                // An admitted request keeps the units it took, including those of a slot that replies too late.
                if answer.is_allowed() {
                    unanswered.keep();
                }
                answer
            }
        }
    }

    /// Decides and takes in the store. If this future is dropped early, the units it takes are given back,
    /// unless the request has an id and may be asked again.
    async fn take(
        &self,
        store: &Store,
        asks: &[KeyAsk],
        origin: Origin<'_>,
        late: &Late,
    ) -> Result<script::Decided, StoreError> {
        let args = StepArgs { late: Some(late), ..StepArgs::new(Step::Ask, origin) };
        let done = store.step(asks, args).await;
        self.learnt(&store.generation, asks, done)
    }

    /// Decides in this process, because the store failed with `error`.
    fn without_store(
        &self,
        store: &Store,
        asks: &[KeyAsk],
        id: Option<Identity<'_>>,
        error: &StoreError,
    ) -> Answer<'_> {
        self.decide_degraded(store, asks, Verb::Ask, id, error)
    }

    fn decide_degraded(
        &self,
        store: &Store,
        asks: &[KeyAsk],
        verb: Verb,
        id: Option<Identity<'_>>,
        error: &StoreError,
    ) -> Answer<'_> {
        let answer = self.degraded_answer(store, asks, verb, id, error);
        self.count_degraded(&answer);
        answer
    }

    /// Decides like [`SharedGate::decide_degraded`], for a caller that may not use the answer: it is not counted.
    fn degraded_answer(
        &self,
        store: &Store,
        asks: &[KeyAsk],
        verb: Verb,
        id: Option<Identity<'_>>,
        error: &StoreError,
    ) -> Answer<'_> {
        let settings = self.settings();
        let store_knows = (|rule: &Rule| settings.can_hold(rule), |ask: &KeyAsk| store.lasts(ask));
        let (done, standing) =
            self.fallback.decide(&store.generation, asks, verb, id, error, store_knows);
        let mut answer = store.answer_with(asks, done, standing);
        if answer.is_unavailable() {
            // Nothing was taken, so the usage may be reported again.
            answer.replies.iter_mut().for_each(|one| one.report = false);
        }
        answer
    }

    /// Counts the refusals of a decision and notifies the observers.
    fn conclude<'g>(&'g self, request: &Request<'_>, answer: Answer<'g>) -> Answer<'g> {
        let answer = answer.refused_without_rule(request);
        self.count_refusals(request, &answer);
        self.front.observers.notify(request, &answer);
        answer
    }
}
