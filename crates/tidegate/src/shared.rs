//! A gate whose limiters live in a shared store: many nodes, one limit.

mod ad_hoc;
mod amend;
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
use tokio::time::Instant;

use crate::answer::{Answer, Rules, Standing};
use crate::clock::SystemClock;
use crate::frontend::{self, Frontend, GateQueues};
use crate::observe::Observer;
use crate::request::{Origin, Request};
use crate::rules::{ActivePolicy, Policy};
use crate::settings::StoreSettings;
use crate::step::{Decided, Done, Lineage, Met};
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
    policy: Arc<ActivePolicy>,
    store: Store,
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
        let policy = Arc::new(ActivePolicy::new(policy));
        let fallback = Arc::new(Fallback::new(Arc::clone(&policy), Share::of(settings.nodes))?);
        let client =
            Client::begin(settings, Box::new(observer)).map_err(SharedGateError::Unreadable)?;
        Ok(Self {
            front: Frontend::new(),
            policy: Arc::clone(&policy),
            nodes: Nodes::begin(&client, &fallback),
            store: Store::new(policy, client, fallback.clock()),
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

    /// The policy as it was loaded. Figures that were changed since are told by [`SharedGate::in_force`],
    /// and by each answer.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.loaded)
    }

    /// The policy as it was loaded.
    pub(crate) fn loaded(&self) -> &Policy {
        &self.policy.loaded
    }

    /// How the store is asked.
    #[must_use]
    pub fn settings(&self) -> &StoreSettings {
        self.store.client.settings()
    }

    /// Requests decided so far without the store.
    #[must_use]
    pub fn degraded(&self) -> u64 {
        self.degraded.load(Relaxed)
    }

    /// Ends when the store was looked at for the first time, and was asked when the policy was loaded. A gate may be
    /// asked before.
    ///
    /// # Errors
    /// How the store was found then, if it was not fit; it goes on being looked at.
    pub async fn connected(&self) -> Result<(), StoreError> {
        self.store.client.first_found().await?;
        let (key, deadline) = (self.settings().key_prefix.as_bytes(), self.store.client.deadline());
        // Else the first request asks.
        let _ = self.store.know_loaded(key, deadline).await;
        Ok(())
    }

    /// Ends when the store is fit: at once, unless it is unavailable.
    pub async fn recovered(&self) {
        self.store.client.fit().await;
    }

    /// Ends when the store is degraded: at once, while it is.
    pub(crate) async fn lost(&self) {
        self.store.client.lost().await;
    }

    /// Decides a request and, when every rule admits it, takes its cost from all of them. Who asks this
    /// way does not wait, and is refused behind those in this process who do
    /// ([`SharedGate::acquire`]).
    pub async fn check(&self, request: &Request<'_>) -> Answer<'_> {
        let (met, origin) = (self.met(request), request.origin());
        let answer = match self.banned(&met, origin).await {
            Some(answer) => answer,
            None => self.at_once(&met, origin).await,
        };
        self.conclude(request, answer)
    }

    /// Decides and takes like [`SharedGate::check`], and returns only whether the request goes on.
    pub async fn admits(&self, request: &Request<'_>) -> bool {
        self.check(request).await.is_allowed()
    }

    /// The queues of those who wait in this process.
    pub(crate) fn queues(&self) -> &GateQueues {
        &self.store.queues
    }

    /// The same limiter as it is known in this process.
    pub(crate) fn in_process(&self, met: &KeyMet) -> Met {
        self.fallback.met(met)
    }

    /// The time in this process.
    pub(crate) fn now(&self) -> Timestamp {
        self.fallback.now()
    }

    /// Decides and takes, whoever waits; without the store where that gives no answer.
    pub(crate) async fn ask(&self, met: &[KeyMet], origin: Origin<'_>) -> Answer<'_> {
        let parts = self.store.parts(met);
        if !parts.is_empty() {
            return Box::pin(self.ask_across(met, &parts, origin)).await;
        }
        let late = Late::default();
        let asked = Asked { late: Some(&late), ..Asked::new(Step::Ask, origin) };
        let done = self.store.step(met, asked).await;
        match self.learnt(met, done) {
            Ok(done) => self.answer(met, done),
            Err(error) => {
                let answer = self.without_store(met, origin.id, &error);
                // A request that goes on all the same has what a late reply took for it.
                if answer.is_allowed() {
                    late.keep();
                }
                answer
            }
        }
    }

    /// The same over several slots, none of whose rules remembers an answer.
    async fn ask_across(&self, met: &[KeyMet], parts: &[Part], origin: Origin<'_>) -> Answer<'_> {
        match self.store.ask_across(met, parts, origin, None).await {
            Ok(done) => {
                let told = |place: usize| done.decisions.get(place)?.as_ref();
                let own = |place| told(place).filter(|one| !one.overflow).map(|one| one.decision);
                self.learn(met, done.allowed, own);
                self.exact(met, done)
            }
            Err(unanswered) => {
                let answer = self.without_store(met, origin.id, &unanswered.error);
                // What goes on all the same keeps what it took, also where a slot answers too late.
                if answer.is_allowed() {
                    unanswered.keep();
                }
                answer
            }
        }
    }

    /// A look, or a settlement: in several slots, each slot for itself.
    async fn step(&self, met: &[KeyMet], asked: Asked<'_>) -> Result<Answer<'_>, StoreError> {
        self.step_until(met, asked, self.store.client.deadline()).await
    }

    /// The same by a deadline.
    async fn step_until(
        &self,
        met: &[KeyMet],
        asked: Asked<'_>,
        deadline: Instant,
    ) -> Result<Answer<'_>, StoreError> {
        let parts = self.store.parts(met);
        if !parts.is_empty() {
            let done = self.store.each_slot(met, &parts, asked, deadline).await?;
            return Ok(self.exact(met, done));
        }
        Ok(self.answer(met, self.store.step_until(met, asked, deadline).await?))
    }

    /// Decides and takes in the store. Where this is dropped before it is decided, what it takes is given back,
    /// unless it has an id and may be asked again.
    pub(crate) async fn take(
        &self,
        met: &[KeyMet],
        origin: Origin<'_>,
        late: &Late,
    ) -> Result<script::Decided, StoreError> {
        let asked = Asked { late: Some(late), ..Asked::new(Step::Ask, origin) };
        let done = self.store.step(met, asked).await;
        self.learnt(met, done)
    }

    /// Looks at limiters, each for its cost, or for that of `costs`.
    pub(crate) async fn look(
        &self,
        met: &[KeyMet],
        costs: &[u64],
        origin: Origin<'_>,
    ) -> Result<script::Decided, StoreError> {
        self.store.step(met, Asked { costs, ..Asked::new(Step::Peek, origin) }).await
    }

    pub(crate) fn answer(&self, met: &[KeyMet], done: script::Decided) -> Answer<'_> {
        self.exact(met, done_of(done))
    }

    /// What the limiters themselves replied, as an answer.
    pub(crate) fn exact<D: Into<Option<Decided>>>(
        &self,
        met: &[KeyMet],
        done: Done<D>,
    ) -> Answer<'_> {
        frontend::answer(self.rules(), met, done, Standing::Exact)
    }

    /// What answers borrow of it.
    fn rules(&self) -> Rules<'_> {
        Rules::Borrowed(self.loaded().rules())
    }

    /// Decides in process what the store did not decide because of `error`.
    pub(crate) fn without_store(
        &self,
        met: &[KeyMet],
        id: Option<&str>,
        error: &StoreError,
    ) -> Answer<'_> {
        self.decided_away(met, Verb::Ask, id, error)
    }

    fn decided_away(
        &self,
        met: &[KeyMet],
        verb: Verb,
        id: Option<&str>,
        error: &StoreError,
    ) -> Answer<'_> {
        self.degraded.fetch_add(1, Relaxed);
        let settings = self.settings();
        let can_hold = |rule: &Rule| settings.can_hold(rule);
        let (done, standing) = self.fallback.decide(met, verb, id, error, can_hold);
        let mut answer = frontend::answer(self.rules(), met, done, standing);
        if answer.is_unavailable() {
            // Nothing was taken: it may be reported again.
            answer.replies.iter_mut().for_each(|one| one.report = false);
        }
        self.count_overloaded(&answer);
        answer
    }

    /// Whoever is to know of a decision is told.
    pub(crate) fn conclude<'g>(&'g self, request: &Request<'_>, answer: Answer<'g>) -> Answer<'g> {
        self.count_refusals(request, &answer);
        self.front.observers.tell(request, &answer);
        answer
    }
}

/// What a rule is known by: its number, for the policy that was loaded stays.
fn lineage_of(rule: usize) -> Lineage {
    Lineage::try_from(rule).unwrap_or(Lineage::MAX)
}

/// What the store replied, in the words of all stores.
fn done_of(done: script::Decided) -> Done {
    let decided =
        done.decisions.into_iter().zip(&done.seen).map(|(decision, seen)| seen.reply(decision));
    Done {
        allowed: done.allowed,
        at: done.now,
        repeated: done.repeated,
        decisions: decided.collect(),
    }
}
