//! The number of nodes that share the store, and so this node's share of each limit.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::layers::{Local, Share};
use crate::step::Lineage;
use crate::store::{OnEvent, StoreEvent};

/// The rules for which it was reported already that some node has no share of a limit.
pub(super) struct Warned {
    rules: Mutex<BTreeSet<Lineage>>,
    report: OnEvent,
}

impl Warned {
    pub(super) fn new(report: OnEvent) -> Self {
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
pub(super) fn on_nodes(
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
