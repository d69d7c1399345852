//! The number of nodes that share the store, and so this node's share of each limit.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use super::SharedGate;
use crate::layers::{Local, Share};
use crate::step::Lineage;
use crate::store::redis::{Client, Listed};
use crate::store::{Store, StoreError, StoreEvent};

/// This node among those that share the store.
#[derive(Debug)]
pub(super) struct Nodes {
    /// `None` if the number of nodes was configured.
    listed: Option<Arc<Listed>>,
    warned: Arc<Warned>,
}

impl Nodes {
    /// Lists this node, whatever its policy: another one may be put in force while the store is unavailable, and
    /// then the nodes that were last seen count.
    pub(super) fn begin(
        client: &Client,
        local: &Arc<Local>,
        know_nodes: impl Fn(u64) + Send + Sync + 'static,
    ) -> Self {
        let warned = Arc::<Warned>::default();
        warned.warn(client, local);
        let listed = client.settings().nodes.is_none().then(|| {
            let (local, warned) = (Arc::downgrade(local), Arc::clone(&warned));
            Listed::begin(client, move |client, seen| {
                let Some(local) = local.upgrade() else { return };
                let before = local.share().nodes();
                local.split(Share::of_rank(seen.nodes, seen.rank));
                know_nodes(seen.nodes);
                if seen.nodes != before {
                    client.report(StoreEvent::Nodes(seen.nodes));
                }
                warned.warn(client, &local);
            })
        });
        Self { listed, warned }
    }

    /// Reports the rules of a new policy of which some node has no share.
    pub(super) fn follow(&self, client: &Client, local: &Local) {
        self.warned.warn(client, local);
    }
}

/// The rules for which the event was reported already.
#[derive(Debug, Default)]
struct Warned(Mutex<BTreeSet<Lineage>>);

impl Warned {
    /// Reports each rule that was not reported yet.
    fn warn(&self, client: &Client, local: &Local) {
        let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (newest, share) = (local.memory.newest(), local.share());
        let rules = newest.policy.rules().iter().enumerate();
        let too_small = rules.filter(|(_, rule)| share.is_too_small(rule));
        let new = too_small.filter(|(number, _)| warned.insert(newest.lineage(*number)));
        let names: Vec<_> = new.map(|(_, rule)| rule.name()).collect();
        drop(warned);
        if !names.is_empty() {
            client.report(StoreEvent::NoShare { rules: &names, nodes: share.nodes() });
        }
    }
}

impl SharedGate {
    /// Returns how many nodes share the store: the configured number ([`StoreSettings::nodes`]), or else as
    /// many as were last seen there, and 1 before any was.
    ///
    /// [`StoreSettings::nodes`]: crate::StoreSettings
    #[must_use]
    pub fn nodes(&self) -> u64 {
        self.local.share().nodes()
    }

    /// Gives back what this node leased and did not spend ([`RuleSpec::lease`](crate::RuleSpec::lease)), takes no more
    /// leases, and removes this node from the list of those that share the store, so that the others' shares of each
    /// limit grow immediately. A node that ends without this counts for five more seconds. Call it in a process that
    /// is about to end: the gate goes on deciding, and is never listed again.
    ///
    /// # Errors
    /// The store did not reply.
    pub async fn leave(&self) -> Result<(), StoreError> {
        self.newest().tower.end().await;
        match &self.nodes.listed {
            Some(listed) => listed.leave(self.client()).await,
            None => Ok(()),
        }
    }
}
