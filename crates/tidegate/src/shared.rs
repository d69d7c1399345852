//! A gate whose limiters live in a shared store: many nodes, one limit.

mod ad_hoc;
mod amend;
mod answers;
mod bans;
mod counted;
mod counts;
mod cross_slot;
mod decide;
mod denials;
mod error;
mod fallback;
mod hold;
mod late;
mod learn;
mod loaded;
mod look;
mod no_room;
mod nodes;
mod parts;
mod plans;
mod replay;
mod revisions;
mod run;
mod settle;
mod share;
mod step;
mod store;
mod validate;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate_core::{Rule, Timestamp};

use crate::answer::Answer;
use crate::clock::SystemClock;
use crate::frontend::{Frontend, GateQueues};
use crate::observe::Observer;
use crate::request::{Origin, Request};
use crate::rules::Policy;
use crate::settings::StoreSettings;
use crate::step::Met;
use crate::store::memory::Newest;
use crate::store::redis::script::{self, Step};
use crate::store::redis::{Client, StoreError, StoreEvent};
use cross_slot::Part;
use decide::Verb;
pub use error::SharedGateError;
use fallback::Fallback;
pub use hold::SharedCharge;
use nodes::Nodes;
pub use replay::SharedReplay;
use share::Share;
pub(crate) use store::Late;
use store::{Asked, Store};

/// A limiter that a request meets, by its key in the store.
pub(crate) type KeyMet = Met<Vec<u8>>;

/// A policy in force, and the limiters of every key in a store that other nodes use as well.
///
/// One decision is one step in the store, by the store's clock: however many nodes ask, and however
/// wrong their own clocks are, no more is admitted than the limit. A request that the store does not decide is
/// decided in this process, and its answer is marked [degraded](Answer::is_degraded): by each rule's own
/// [`OnStoreError`](crate::OnStoreError) where the store does not answer, and never more freely than by this node's
/// share of the limit where it answers and only has [more load](Answer::is_overloaded) than it decides in time.
///
/// What was lost on the way may have been taken, so it is not asked twice; but for a request with an id
/// ([`Request::with_id`]), of which all rules that can refuse it remember the answer for at least the
/// deadline ([`RuleSpec::dedupe`](crate::RuleSpec::dedupe)). What half of the deadline brings no answer
/// to, or a lost connection, is then asked once more within the rest.
///
/// ```no_run
/// use tidegate::{AlgorithmKind, Descriptor, Micros, Policy, Request, RuleSpec, SharedGate, Spec, StoreSettings};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let rule = RuleSpec::new("per-user", Spec::new(AlgorithmKind::TokenBucket, 100, Micros::from_secs(1)));
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
}

impl SharedGate {
    /// A gate over the store of `settings`; connecting begins at once, in the background. `observer` is
    /// told what becomes of the store: once for each outage, not for each request.
    ///
    /// # Errors
    /// What can not be of the settings, or of a rule's part of its limit; or that the password, or the
    /// certificates to trust, can not be read.
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
            nodes: Nodes::begin(&client, &fallback),
            client,
            queues: Arc::clone(&store.queues),
            newest: Newest::new(store),
            fallback,
            degraded: AtomicU64::new(0),
        })
    }

    /// Tells an observer of every decision, those without the store ([`Answer::is_degraded`]) included:
    /// see [`Gate::with_observer`](crate::Gate::with_observer), of which all holds here.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.front.observers.add(observer);
        self
    }

    /// The policy that is in force on this node.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.newest.read().generation.policy)
    }

    /// The store under the policy that is in force: what begins with it is decided under that policy, whatever is put
    /// in force meanwhile.
    fn newest(&self) -> Arc<Store> {
        self.newest.read().share()
    }

    /// How the store is asked.
    #[must_use]
    pub fn settings(&self) -> &StoreSettings {
        self.client.settings()
    }

    /// Requests decided so far without the store.
    #[must_use]
    pub fn degraded(&self) -> u64 {
        self.degraded.load(Relaxed)
    }

    /// Ends when the store was looked at for the first time, and was asked when the first policy was loaded. A gate may
    /// be asked before.
    ///
    /// # Errors
    /// How the store was found then, if it was not fit; it goes on being looked at.
    pub async fn connected(&self) -> Result<(), StoreError> {
        self.client.first_found().await?;
        let (key, deadline) = (self.settings().key_prefix.as_bytes(), self.client.deadline());
        // Else the first request asks.
        let _ = self.newest().know_loaded(key, deadline).await;
        Ok(())
    }

    /// Ends when the store is fit: at once, unless it is unavailable.
    pub async fn recovered(&self) {
        self.client.fit().await;
    }

    /// Ends when the store is degraded: at once, while it is.
    pub(crate) async fn lost(&self) {
        self.client.lost().await;
    }

    /// Decides a request and, when every rule admits it, takes its cost from all of them. Who asks this
    /// way does not wait, and is refused behind those in this process who do
    /// ([`SharedGate::acquire`]).
    pub async fn check(&self, request: &Request<'_>) -> Answer<'_> {
        let store = self.newest();
        let (met, origin) = (self.met(&store, request), request.origin());
        let answer = match self.banned(&store, &met, origin).await {
            Some(answer) => answer,
            None => self.at_once(&store, &met, origin).await,
        };
        self.conclude(request, answer)
    }

    /// Decides and takes like [`SharedGate::check`], and returns only whether the request goes on.
    pub async fn admits(&self, request: &Request<'_>) -> bool {
        self.check(request).await.is_allowed()
    }

    /// The queues of those who wait in this process.
    fn queues(&self) -> &GateQueues {
        &self.queues
    }

    /// The same limiter as it is known in this process.
    fn in_process(&self, met: &KeyMet) -> Met {
        self.fallback.met(met)
    }

    /// The time in this process.
    pub(crate) fn now(&self) -> Timestamp {
        self.fallback.now()
    }

    /// Decides and takes, whoever waits; without the store where that gives no answer.
    async fn ask(&self, store: &Store, met: &[KeyMet], origin: Origin<'_>) -> Answer<'_> {
        let parts = store.parts(met);
        if !parts.is_empty() {
            return Box::pin(self.ask_across(store, met, &parts, origin)).await;
        }
        let late = Late::default();
        match self.take(store, met, origin, &late).await {
            Ok(done) => store.answer_of(met, done),
            Err(error) => {
                let answer = self.without_store(store, met, origin.id, &error);
                // A request that goes on all the same has what a late reply took for it.
                if answer.is_allowed() {
                    late.keep();
                }
                answer
            }
        }
    }

    /// The same over several slots, none of whose rules remembers an answer.
    async fn ask_across(
        &self,
        store: &Store,
        met: &[KeyMet],
        parts: &[Part],
        origin: Origin<'_>,
    ) -> Answer<'_> {
        match store.ask_across(met, parts, origin, None).await {
            Ok(done) => {
                let told = |place: usize| done.decisions.get(place)?.as_ref();
                let own = |place| told(place).filter(|one| !one.overflow).map(|one| one.decision);
                self.learn(&store.generation, met, done.allowed, own);
                store.exact(met, done)
            }
            Err(unanswered) => {
                let answer = self.without_store(store, met, origin.id, &unanswered.error);
                // What goes on all the same keeps what it took, also where a slot answers too late.
                if answer.is_allowed() {
                    unanswered.keep();
                }
                answer
            }
        }
    }

    /// Decides and takes in the store. Where this is dropped before it is decided, what it takes is given back,
    /// unless it has an id and may be asked again.
    async fn take(
        &self,
        store: &Store,
        met: &[KeyMet],
        origin: Origin<'_>,
        late: &Late,
    ) -> Result<script::Decided, StoreError> {
        let asked = Asked { late: Some(late), ..Asked::new(Step::Ask, origin) };
        let done = store.step(met, asked).await;
        self.learnt(&store.generation, met, done)
    }

    /// Decides in process what the store did not decide because of `error`.
    fn without_store(
        &self,
        store: &Store,
        met: &[KeyMet],
        id: Option<&str>,
        error: &StoreError,
    ) -> Answer<'_> {
        self.decided_away(store, met, Verb::Ask, id, error)
    }

    fn decided_away(
        &self,
        store: &Store,
        met: &[KeyMet],
        verb: Verb,
        id: Option<&str>,
        error: &StoreError,
    ) -> Answer<'_> {
        self.degraded.fetch_add(1, Relaxed);
        let settings = self.settings();
        let can_hold = |rule: &Rule| settings.can_hold(rule);
        let (done, standing) =
            self.fallback.decide(&store.generation, met, verb, id, error, can_hold);
        let mut answer = store.answer_as(met, done, standing);
        if answer.is_unavailable() {
            // Nothing was taken: it may be reported again.
            answer.replies.iter_mut().for_each(|one| one.report = false);
        }
        self.count_overloaded(&answer);
        answer
    }

    /// Whoever is to know of a decision is told.
    fn conclude<'g>(&'g self, request: &Request<'_>, answer: Answer<'g>) -> Answer<'g> {
        self.count_refusals(request, &answer);
        self.front.observers.notify(request, &answer);
        answer
    }
}
