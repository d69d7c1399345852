//! The number of nodes that share the store, and so this node's share of each limit.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::SharedGate;
use super::fallback::Fallback;
use super::share::{Share, is_local};
use crate::step::Lineage;
use crate::store::redis::{Client, Listed, StoreError, StoreEvent};

/// This node among those that share the store.
#[derive(Debug)]
pub(super) struct Nodes {
    /// Empty if the number of nodes was configured, or if no rule has needed a share yet.
    listed: OnceLock<Arc<Listed>>,
    warned: Arc<Warned>,
}

impl Nodes {
    pub(super) fn begin(client: &Client, fallback: &Arc<Fallback>) -> Self {
        let nodes = Self { listed: OnceLock::new(), warned: Arc::default() };
        nodes.follow(client, fallback);
        nodes
    }

    /// Lists this node as soon as its policy needs that, and reports the rules of which some node has no share.
    pub(super) fn follow(&self, client: &Client, fallback: &Arc<Fallback>) {
        self.warned.warn(client, fallback);
        let policy = Arc::clone(&fallback.memory.newest().policy);
        let has_shares = policy.rules().iter().any(|rule| is_local(rule.spec()));
        if client.settings().nodes.is_some() || !has_shares {
            return;
        }
        self.listed.get_or_init(|| {
            let (fallback, warned) = (Arc::downgrade(fallback), Arc::clone(&self.warned));
            Listed::begin(client, move |client, seen| {
                let Some(fallback) = fallback.upgrade() else { return };
                let before = fallback.share().nodes();
                fallback.split(Share::of_rank(seen.nodes, seen.rank));
                if seen.nodes != before {
                    client.report(StoreEvent::Nodes(seen.nodes));
                }
                warned.warn(client, &fallback);
            })
        });
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

    /// Removes this node from the list of those that share the store, so that the others' shares of each limit
    /// grow immediately. A node that ends without this counts for five more seconds. Call it in a process that
    /// is about to end: the gate goes on deciding, and is never listed again.
    ///
    /// # Errors
    /// The store did not reply.
    pub async fn leave(&self) -> Result<(), StoreError> {
        match self.nodes.listed.get() {
            Some(listed) => listed.leave(&self.client).await,
            None => Ok(()),
        }
    }
}
