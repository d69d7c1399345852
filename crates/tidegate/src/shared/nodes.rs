//! How many nodes share the store, and so what share of each limit is this one's.

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
    /// Empty where the number of nodes was configured, or no rule has had a share yet.
    listed: OnceLock<Arc<Listed>>,
    warned: Arc<Warned>,
}

impl Nodes {
    pub(super) fn begin(client: &Client, fallback: &Arc<Fallback>) -> Self {
        let nodes = Self { listed: OnceLock::new(), warned: Arc::default() };
        nodes.follow(client, fallback);
        nodes
    }

    /// Has this node listed from when its policy needs that, and says which rules have no share for each node.
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

/// The rules of which it was said that some node has no share of them.
#[derive(Debug, Default)]
struct Warned(Mutex<BTreeSet<Lineage>>);

impl Warned {
    /// Says it of those of which it was not said yet.
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
    /// How many nodes share the store: as many as were configured ([`StoreSettings::nodes`]), else as were
    /// last seen there, and 1 before any was.
    ///
    /// [`StoreSettings::nodes`]: crate::StoreSettings
    #[must_use]
    pub fn nodes(&self) -> u64 {
        self.fallback.share().nodes()
    }

    /// Takes this node off the list of those that share the store, so that the others' shares of each limit grow
    /// at once; one that ends without is counted for five seconds more. For a process that is about to end: the
    /// gate goes on deciding, and is never listed again.
    ///
    /// # Errors
    /// The store gave no answer.
    pub async fn leave(&self) -> Result<(), StoreError> {
        match self.nodes.listed.get() {
            Some(listed) => listed.leave(&self.client).await,
            None => Ok(()),
        }
    }
}
