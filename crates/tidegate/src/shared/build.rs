//! Making a gate over a store, with the layers and what they are told, and changes of it while it decides: of its
//! policy, and of the nodes.

use std::collections::BTreeSet;
use std::fmt;
use std::mem::take;
use std::slice::from_ref;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use super::counts::Undecided;
use super::{InForce, SharedGate};
use crate::clock::Clock;
use crate::frontend::{Frontend, GateQueue, GateQueues, Setup};
use crate::key::Seed;
use crate::layers::{DenialMemory, Handles, Layer, LayerParts, Local, tower_over};
use crate::rules::{AmendError, Amendment, Policy, PolicyErrors, with_values};
use crate::settings::StoreSettings;
use crate::step::Lineage;
use crate::store::memory::Newest;
use crate::store::{
    Generation, Hooks, Host, KeyAsk, OnEvent, OnUnitsBack, Store, StoreError, StoreEvent,
};
use tidegate_redis::{Client, RedisStore};
use tidegate_rules::shared::{Share, SharedGateError};

impl SharedGate {
    /// Creates a gate of a [`Policy`] or a [`Setup`] over the store of `settings`, and starts to connect in the
    /// background. `observer` is notified of each outage of the store, not of each request.
    ///
    /// ```no_run
    /// use tidegate::{Policy, RuleSpec, SharedGate, StoreSettings};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let policy = Policy::new(vec![RuleSpec::new("per-user", "100/s").key(["user"])])?;
    /// let settings = StoreSettings::new("redis://127.0.0.1:6379".parse()?);
    /// let gate = SharedGate::new(policy, settings, |event| eprintln!("{event:?}"))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The settings are invalid, no share can be made of a rule's limit, or the password or the trusted
    /// certificates cannot be read.
    pub fn new(
        setup: impl Into<Setup>,
        settings: StoreSettings,
        observer: impl Fn(StoreEvent<'_>) + Send + Sync + 'static,
    ) -> Result<Self, SharedGateError> {
        let setup = setup.into();
        // Before anything is connected or read from a file.
        settings.fits(&setup.policy)?;
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
        Ok(begin.gate(setup, host.clone(), |generation| {
            RedisStore::new(Arc::clone(generation), client, host)
        }))
    }
}

impl<S: Store> SharedGate<S> {
    /// Creates a gate over a store of your own. `observer` is notified of the events that the layers over the store
    /// notice.
    ///
    /// Each limiter's key in the store is made of the domain, the name and the key of its rule. The gate is the only
    /// node until the store says [how many](crate::store::Hooks::nodes) there are.
    ///
    /// ```no_run
    /// use tidegate::store::Store;
    /// use tidegate::{Policy, SharedGate, SharedGateError};
    ///
    /// fn gate<S: Store>(policy: Policy, store: S) -> Result<SharedGate<S>, SharedGateError> {
    ///     SharedGate::over(policy, store, |event| eprintln!("{event}"))
    /// }
    /// ```
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
        store.fits(&setup.policy).map_err(SharedGateError::Policy)?;
        begin.share.check(&setup.policy).map_err(SharedGateError::Policy)?;
        Ok(begin.gate(setup, store.host().clone(), |generation| store.under(generation)))
    }

    /// Puts another policy in force on this node at one instant, like [`Gate::replace`](crate::Gate::replace),
    /// for limiters in the store.
    ///
    #[doc = include_str!("../frontend/replace.md")]
    ///
    /// Each limiter of a rule with other values changes in the store when this node next takes from it, in the same
    /// step. So the change itself takes no time, and does not ask the store. The store knows a limiter by the domain
    /// and name of its rule, and by the values of its key and `hash_tag`: if other entries become the **key** or the
    /// tag, limiters with the same values as before go on, and all others start fresh. The limiters of a removed rule
    /// stay in the store until they expire, and in this process at least as long. A rule that is **added** starts with
    /// the state that the store has.
    ///
    /// Each node gets the policy separately. While nodes differ, the newest [revision](Policy::with_revision)
    /// that has taken from a limiter decides it, whichever node asks. Revisions are compared by the number of
    /// the policy first, then by the time at which the values of the rule took effect on their node, by the
    /// store's clock; values that stay keep their time. So this node has the newest values of each rule that is added
    /// or whose values or overrides change, unless its policy has a smaller revision number than another node's, or
    /// none.
    ///
    /// A request is decided under the policy that was in force when it came, unless newer values have taken
    /// from one of its limiters by then. A cost that was reserved before is settled with the limiters that took it. The
    /// limiters that decide while the store is unavailable ([`OnStoreError::Local`](crate::OnStoreError::Local)) change
    /// as well.
    ///
    /// ```no_run
    /// use tidegate::{Policy, PolicyErrors, RuleSpec, SharedGate};
    ///
    /// # fn example(gate: &SharedGate, rules: Vec<RuleSpec>) -> Result<(), PolicyErrors> {
    /// gate.replace(Policy::new(rules)?)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A rule cannot be kept in this store, or no share of it can be kept in this process. The old policy stays
    /// in force.
    pub fn replace(&self, policy: Policy) -> Result<(), PolicyErrors> {
        self.change(|_| Ok(policy))
    }

    /// Changes the values of the named rule or of one of its overrides, like [`Gate::amend`](crate::Gate::amend), for
    /// limiters in the store.
    ///
    /// This is [`SharedGate::replace`] with a policy in which the rule has these values. Change the rule on all
    /// nodes.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, SharedGate, Spec};
    ///
    /// # fn example(gate: &SharedGate) -> Result<(), tidegate::AmendError> {
    /// let half = Spec::new(AlgorithmKind::TokenBucket, 50, Duration::from_secs(1));
    /// gate.amend("default", "per-user", half)
    /// # }
    /// ```
    ///
    /// # Errors
    /// The policy has no such rule or the rule no such override, or the values are invalid, cannot be kept in this
    /// store, or no share of them can be kept in this process. The old values stay in force.
    pub fn amend(
        &self,
        domain: &str,
        rule: &str,
        values: impl Into<Amendment>,
    ) -> Result<(), AmendError> {
        self.change(|policy| with_values(policy, (domain, rule), values.into()))
    }

    /// Gives back the unspent leased units of this node ([`RuleSpec::lease`](crate::RuleSpec::lease)), takes no more
    /// leases, and removes this node from the list of nodes that share the store, so that the others' shares of each
    /// limit grow immediately. A node that ends without this counts for five more seconds. Call it in a process that
    /// is about to end: the gate goes on deciding, and is never listed again.
    ///
    /// ```no_run
    /// # async fn example(gate: &tidegate::SharedGate) -> Result<(), tidegate::StoreError> {
    /// // The process is about to end.
    /// gate.leave().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// The store did not reply.
    pub async fn leave(&self) -> Result<(), StoreError> {
        self.newest().tower.end().await;
        self.store.leave().await
    }

    /// Puts in force the policy that `next` makes of the current one.
    fn change<E: From<PolicyErrors>>(
        &self,
        next: impl FnOnce(&Policy) -> Result<Policy, E>,
    ) -> Result<(), E> {
        self.local.change(
            |before| -> Result<Policy, E> {
                let policy = next(before)?;
                self.store.fits(&policy)?;
                Ok(policy)
            },
            |changed| {
                let before = self.newest();
                let generation = self.local.memory.newest().without_tables();
                let tower = before.tower.under(&generation);
                self.newest.publish(|| InForce { generation, tower });
                // Leases under the old values go back once every new request begins under the new policy.
                before.tower.superseded(changed);
                self.queues.wake_all_of(changed);
            },
        )?;
        self.warned.warn(&self.local);
        Ok(())
    }
}

/// The choices of a gate over a store.
struct Begin {
    share: Share,
    key_prefix: String,
    remembers_denials: bool,
    report: OnEvent,
}

impl Begin {
    /// Makes the gate of a setup over a store.
    fn gate<S: Store>(
        self,
        mut setup: Setup,
        host: Host,
        store: impl FnOnce(&Arc<Generation>) -> S,
    ) -> SharedGate<S> {
        let Self { share, key_prefix, remembers_denials, report } = self;
        let nodes = share.nodes();
        let local = Arc::new(Local::new(take(&mut setup.policy), share, host.clone()));
        let generation = local.memory.newest().without_tables();
        let store = store(&generation);
        let queues = Arc::new(GateQueues::new());
        let seed = Seed::random();
        let denials = remembers_denials.then(|| Arc::new(DenialMemory::new()));
        let units_back = on_units_back(&queues, &seed, denials.as_ref(), host);
        let undecided = Arc::<Undecided>::default();
        let counts = Arc::clone(&undecided);
        let on_denied = Arc::new(move || {
            counts.denied_again.fetch_add(1, Relaxed);
        });
        let warned = Arc::new(Warned::new(Arc::clone(&report)));
        let handles =
            Handles { on_units_back: Arc::clone(&units_back), report: Arc::clone(&report) };
        let layers = LayerParts { local: Arc::clone(&local), denials, on_denied, nodes, handles };
        let tower = tower_over(store.clone(), &generation, layers);
        let in_force = InForce { generation, tower };
        warned.warn(&local);
        let nodes = on_nodes(&local, &warned, in_force.leases().nodes());
        store.attach(Hooks { units_back, nodes, report });
        SharedGate {
            front: Frontend::of(setup, &local.memory, None),
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
}

/// Returns the callback for limiters that got units back. It forgets the store's denials of them, and wakes the first
/// waiter of each.
fn on_units_back(
    queues: &Arc<GateQueues>,
    seed: &Seed,
    denials: Option<&Arc<DenialMemory>>,
    clock: Host,
) -> OnUnitsBack {
    let queues = Arc::clone(queues);
    let seed = seed.clone();
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

/// The rules for which it was reported already that some node has no share of a limit.
pub(super) struct Warned {
    rules: Mutex<BTreeSet<Lineage>>,
    report: OnEvent,
}

impl Warned {
    fn new(report: OnEvent) -> Self {
        Self { rules: Mutex::default(), report }
    }

    /// Reports each rule that was not reported yet.
    pub(super) fn warn(&self, local: &Local) {
        let mut warned = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = local.memory.newest();
        let share = local.share();
        let rules = newest.policy.rules().iter().enumerate();
        let too_small = rules.filter(|(_, rule)| share.is_too_small(rule));
        let new = too_small.filter(|(number, _)| warned.insert(newest.lineage(*number)));
        let names: Vec<_> = new.map(|(_, rule)| rule.name()).collect();
        // The observer is called without the lock.
        drop(warned);
        if !names.is_empty() {
            (self.report)(StoreEvent::NoShare { rules: &names, nodes: share.nodes() });
        }
    }
}

impl fmt::Debug for Warned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Warned").field(&self.rules).finish()
    }
}

/// Returns the callback for the number of nodes and this node's rank among them. If another policy is put in force
/// while the store is unavailable, the nodes that were last seen count.
fn on_nodes(
    local: &Arc<Local>,
    warned: &Arc<Warned>,
    know_nodes: impl Fn(u64) + Send + Sync + 'static,
) -> Arc<dyn Fn(u64, u64) + Send + Sync> {
    let local = Arc::downgrade(local);
    let warned = Arc::clone(warned);
    Arc::new(move |nodes, rank| {
        let Some(local) = local.upgrade() else { return };
        let before = local.share().nodes();
        local.split(Share::of_rank(nodes, rank));
        know_nodes(nodes);
        if nodes != before {
            (warned.report)(StoreEvent::Nodes(nodes));
        }
        warned.warn(&local);
    })
}
