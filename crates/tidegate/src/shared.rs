//! A gate whose limiters live in a shared store: many nodes, one limit.

mod amend;
mod answers;
mod bans;
mod counts;
mod error;
mod hold;
mod look;
mod nodes;
mod plans;
mod record;
mod replay;
mod settle;
mod validate;
mod waiting;

use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tidegate_core::Timestamp;

use crate::answer::Answer;
use crate::clock::{Clock, SystemClock};
use crate::frontend::{Frontend, GateQueue, GateQueues, Setup};
use crate::key::Seed;
use crate::layers::{
    AcrossSlots, DenialMemory, Handles, LayerParts, Leases, Local, Share, Tower, UntilDropped,
    tower_over,
};
use crate::request::{Origin, Request};
use crate::rules::Policy;
use crate::settings::StoreSettings;
use crate::store::memory::{Generation, Newest};
use crate::store::redis::{Client, RedisStore};
use crate::store::{Hooks, Host, KeyAsk, OnEvent, OnUnitsBack, StepArgs, Store, StoreEvent, Verb};
use counts::Undecided;
pub use error::SharedGateError;
use nodes::{Warned, on_nodes};
pub use record::{FoundReservation, ReservationRecord};
pub use replay::SharedReplay;

/// A policy, and the store under it. A request that starts with it is decided under that policy, even if another policy
/// is put in force before it ends.
#[derive(Debug)]
struct InForce<S> {
    generation: Arc<Generation>,
    tower: Tower<S>,
}

impl<S> InForce<S> {
    const fn leases(&self) -> &Leases<AcrossSlots<S>> {
        &self.tower.inner.inner
    }

    const fn innermost(&self) -> &S {
        &self.leases().inner.inner
    }
}

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
pub struct SharedGate<S: Store = RedisStore> {
    front: Frontend<SystemClock>,
    /// The store without its layers.
    store: S,
    /// Begins the name of every limiter.
    key_prefix: String,
    /// The queues of requests that wait in this process.
    queues: Arc<GateQueues>,
    /// The secret of the fingerprints that identify queues.
    seed: Seed,
    newest: Newest<InForce<S>>,
    /// The limiters of this process.
    local: Arc<Local>,
    warned: Arc<Warned>,
    undecided: Arc<Undecided>,
    _until_dropped: UntilDropped,
}

impl SharedGate {
    /// Creates a gate of a [`Policy`] or a [`Setup`] over the store of `settings`, and starts to connect in the
    /// background. `observer` is notified of each outage of the store, not of each request.
    ///
    /// # Errors
    /// The settings are invalid, no share can be made of a rule's limit, or the password or the trusted
    /// certificates cannot be read.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(
        setup: impl Into<Setup>,
        settings: StoreSettings,
        observer: impl Fn(StoreEvent<'_>) + Send + Sync + 'static,
    ) -> Result<Self, SharedGateError> {
        let setup = setup.into();
        settings.fits(setup.policy())?;
        let client =
            Client::begin(settings, Box::new(observer)).map_err(SharedGateError::Unreadable)?;
        let host = client.host();
        let StoreSettings { nodes, denial_memory, key_prefix, .. } = client.settings().clone();
        let begin = Begin {
            share: Share::of(nodes),
            key_prefix,
            remembers_denials: denial_memory,
            report: client.reporter(),
        };
        let store = |generation: &_| RedisStore::new(Arc::clone(generation), client, host.clone());
        Ok(Self::build(setup, host.clone(), store, begin))
    }
}

/// The choices of a gate over a store.
struct Begin {
    share: Share,
    key_prefix: String,
    remembers_denials: bool,
    report: OnEvent,
}

impl<S: Store> SharedGate<S> {
    /// Creates a gate over a store of your own. `observer` is notified of the events that the layers over the store
    /// notice.
    ///
    /// Each limiter's key in the store is made of the domain, the name and the key of its rule. The gate is the only
    /// node until the store says [how many](crate::store::Hooks::nodes) there are.
    ///
    /// # Errors
    /// The rules cannot be kept in this store, or no share can be made of a rule's limit.
    pub fn over(
        setup: impl Into<Setup>,
        store: S,
        observer: impl Fn(StoreEvent<'_>) + Send + Sync + 'static,
    ) -> Result<Self, SharedGateError> {
        let setup = setup.into();
        let begin = Begin {
            share: Share::of(None),
            key_prefix: String::new(),
            remembers_denials: true,
            report: Arc::new(observer),
        };
        store.fits(setup.policy()).map_err(SharedGateError::Policy)?;
        begin.share.check(setup.policy()).map_err(SharedGateError::Policy)?;
        Ok(Self::build(setup, store.host().clone(), |generation| store.under(generation), begin))
    }

    fn build(
        setup: Setup,
        host: Host,
        store: impl FnOnce(&Arc<Generation>) -> S,
        begin: Begin,
    ) -> Self {
        let Begin { share, key_prefix, remembers_denials, report } = begin;
        let nodes = share.nodes();
        let (policy, parts) = setup.apart();
        let local = Arc::new(Local::new(policy, share, host.clone()));
        let generation = local.memory.newest().share();
        let store = store(&generation);
        let (queues, seed) = (Arc::new(GateQueues::new()), Seed::random());
        let denials = remembers_denials.then(|| Arc::new(DenialMemory::new()));
        let units_back = on_units_back(&queues, &seed, denials.as_ref(), host);
        let undecided = Arc::<Undecided>::default();
        let counts = Arc::clone(&undecided);
        let on_denied = Arc::new(move || {
            counts.denied_again.fetch_add(1, Relaxed);
        });
        let warned = Arc::new(Warned::new(Arc::clone(&report)));
        let handles = Handles { on_units_back: Arc::clone(&units_back), report };
        let parts = LayerParts { local: Arc::clone(&local), denials, on_denied, nodes, handles };
        let tower = tower_over(store.clone(), &generation, parts);
        let in_force = InForce { generation, tower };
        warned.warn(&local);
        let nodes = on_nodes(&local, &warned, in_force.leases().nodes());
        store.attach(Hooks { units_back, nodes });
        Self {
            front: Frontend::of(parts, &local.memory, None),
            store,
            key_prefix,
            queues,
            seed,
            _until_dropped: in_force.leases().until_dropped(),
            newest: Newest::new(in_force),
            local,
            warned,
            undecided,
        }
    }

    /// Returns the policy that is in force on this node.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.newest.read().generation.policy)
    }

    /// Returns the policy that is in force, and the store under it.
    fn newest(&self) -> Arc<InForce<S>> {
        self.newest.read().share()
    }

    /// Returns the store without its layers: its settings, whether it can be asked ([`Store::fit`]), and its own verbs,
    /// such as [`RedisStore::check_under`].
    ///
    /// ```no_run
    /// use tidegate::SharedGate;
    /// use tidegate::store::Store;
    ///
    /// /// Resolves when the store is available.
    /// async fn recovered(gate: &SharedGate) {
    ///     gate.store().fit().await;
    /// }
    /// ```
    #[must_use]
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// Decides a request and, if every rule admits it, takes its cost from all of them. The request does not
    /// wait, and is refused if others wait in this process ([`SharedGate::acquire`]).
    ///
    /// ```no_run
    /// # async fn example(gate: &tidegate::SharedGate) {
    /// if gate.check(&[("user", "ada")]).await.is_allowed() {
    ///     // The work goes here.
    /// }
    /// # }
    /// ```
    #[must_use = "a request goes on even if it was refused, unless the answer is looked at"]
    pub async fn check<'r>(&self, request: impl Into<Request<'r>>) -> Answer<'_> {
        self.check_request(&request.into()).await
    }

    /// Decides; compiled once, for any form of a request.
    async fn check_request(&self, request: &Request<'_>) -> Answer<'_> {
        let in_force = self.newest();
        let (asks, origin) = (self.asks(&in_force, request), request.origin());
        let answer = match self.banned(&in_force, &asks, origin).await {
            Some(answer) => answer,
            None => self.decide_now(&in_force, &asks, origin).await,
        };
        self.conclude(request, answer)
    }

    /// Returns the store in force without its layers, and the limiters of a request.
    #[cfg(any(test, feature = "kit"))]
    pub(crate) fn store_and_asks(&self, request: &Request<'_>) -> (S, Vec<KeyAsk>) {
        let in_force = self.newest();
        (in_force.innermost().clone(), self.asks(&in_force, request).into_vec())
    }

    fn queues(&self) -> &GateQueues {
        &self.queues
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.local.now()
    }

    /// The process around the store, for work after an answer.
    #[cfg(feature = "tower")]
    pub(crate) fn host(&self) -> &Host {
        self.store.host()
    }

    /// Decides and takes. A request that `is_queued` is decided by the store alone, or without it.
    async fn ask(
        &self,
        in_force: &InForce<S>,
        asks: &[KeyAsk],
        origin: Origin<'_>,
        is_queued: bool,
    ) -> Answer<'_> {
        let args = StepArgs::new(Verb::Ask, origin, in_force.tower.host().deadline());
        let replied = in_force.tower.step(asks, StepArgs { is_queued, ..args }).await;
        self.answer(in_force, asks, replied)
    }

    /// Wakes the first waiter of each of these limiters in this process, because units may be available.
    fn wake(&self, asks: &[KeyAsk]) {
        asks.iter().for_each(|ask| self.queues.wake(&self.queue_of(ask)));
    }

    /// Returns the queue of a limiter in this process.
    fn queue_of(&self, ask: &KeyAsk) -> GateQueue {
        GateQueue::new(ask.lineage, self.seed.of(&ask.fingerprint))
    }

    /// Counts the refusals of a decision and notifies the observers.
    fn conclude<'g>(&'g self, request: &Request<'_>, answer: Answer<'g>) -> Answer<'g> {
        let answer = answer.refused_without_rule(request);
        self.count_refusals(request, &answer);
        self.front.observers.notify(request, &answer);
        answer
    }
}

/// Returns the callback for limiters that got units back. It forgets the store's denials of them, and wakes the first
/// waiter of each.
fn on_units_back(
    queues: &Arc<GateQueues>,
    seed: &Seed,
    denials: Option<&Arc<DenialMemory>>,
    clock: Host,
) -> OnUnitsBack {
    let (queues, seed) = (Arc::clone(queues), seed.clone());
    let denials = denials.map(Arc::clone);
    Arc::new(move |asks: &[KeyAsk]| {
        for ask in asks {
            if let Some(denials) = &denials {
                denials.forget(from_ref(ask), clock.now());
            }
            queues.wake(&GateQueue::new(ask.lineage, seed.of(&ask.fingerprint)));
        }
    })
}
