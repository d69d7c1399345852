//! The number of nodes that share the store, and so this node's share of each limit.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use super::SharedGate;
use super::fallback::Fallback;
use super::leases::Leases;
use super::share::Share;
use crate::step::Lineage;
use crate::store::redis::{Client, Listed, StoreError, StoreEvent};

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
    pub(super) fn begin(client: &Client, fallback: &Arc<Fallback>, leases: &Leases) -> Self {
        let warned = Arc::<Warned>::default();
        warned.warn(client, fallback);
        let listed = client.settings().nodes.is_none().then(|| {
            let (fallback, warned) = (Arc::downgrade(fallback), Arc::clone(&warned));
            let leases = leases.clone();
            Listed::begin(client, move |client, seen| {
                let Some(fallback) = fallback.upgrade() else { return };
                let before = fallback.share().nodes();
                fallback.split(Share::of_rank(seen.nodes, seen.rank));
                leases.know_nodes(seen.nodes);
                if seen.nodes != before {
                    client.report(StoreEvent::Nodes(seen.nodes));
                }
                warned.warn(client, &fallback);
            })
        });
        Self { listed, warned }
    }

    /// Reports the rules of a new policy of which some node has no share.
    pub(super) fn follow(&self, client: &Client, fallback: &Fallback) {
        self.warned.warn(client, fallback);
    }
}

/// The rules for which the event was reported already.
#[derive(Debug, Default)]
struct Warned(Mutex<BTreeSet<Lineage>>);

impl Warned {
    /// Reports each rule that was not reported yet.
    fn warn(&self, client: &Client, fallback: &Fallback) {
        let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (newest, share) = (fallback.memory.newest(), fallback.share());
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
        self.fallback.share().nodes()
    }

    /// Gives back what this node leased and did not spend ([`RuleSpec::lease`](crate::RuleSpec::lease)), takes no more
    /// leases, and removes this node from the list of those that share the store, so that the others' shares of each
    /// limit grow immediately. A node that ends without this counts for five more seconds. Call it in a process that
    /// is about to end: the gate goes on deciding, and is never listed again.
    ///
    /// # Errors
    /// The store did not reply.
    pub async fn leave(&self) -> Result<(), StoreError> {
        self.newest().end_leases().await;
        match &self.nodes.listed {
            Some(listed) => listed.leave(&self.client).await,
            None => Ok(()),
        }
    }
}
