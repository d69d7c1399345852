//! Making a gate over a store: the layers, and what they are told.

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
use crate::layers::{DenialMemory, Handles, LayerParts, Local, Share, tower_over};
use crate::step::Lineage;
use crate::store::memory::{Generation, Newest};
use crate::store::{Hooks, Host, KeyAsk, OnEvent, OnUnitsBack, Store, StoreEvent};

/// The choices of a gate over a store.
pub(super) struct Begin {
    pub(super) share: Share,
    pub(super) key_prefix: String,
    pub(super) remembers_denials: bool,
    pub(super) report: OnEvent,
}

impl Begin {
    /// Makes the gate of a setup over a store.
    pub(super) fn gate<S: Store>(
        self,
        mut setup: Setup,
        host: Host,
        store: impl FnOnce(&Arc<Generation>) -> S,
    ) -> SharedGate<S> {
        let Self { share, key_prefix, remembers_denials, report } = self;
        let nodes = share.nodes();
        let local = Arc::new(Local::new(take(&mut setup.policy), share, host.clone()));
        let generation = local.memory.newest().share();
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
