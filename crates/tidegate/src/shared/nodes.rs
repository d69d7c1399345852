//! How many nodes share the store, and so what share of each limit is this one's.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use super::SharedGate;
use super::fallback::Fallback;
use super::share::{Share, is_local};
use crate::rules::PolicyRule;
use crate::store::redis::{Client, Listed, StoreError, StoreEvent};

/// This node among those that share the store.
#[derive(Debug)]
pub(super) struct Nodes {
    /// `None` where the number of nodes was configured, or no rule has a share.
    listed: Option<Arc<Listed>>,
}

impl Nodes {
    /// Has this node listed where that is needed, and says which rules have no share for each node.
    pub(super) fn begin(client: &Client, fallback: &Arc<Fallback>) -> Self {
        let is_listed = client.settings().nodes.is_none()
            && fallback.policy.loaded.rules().iter().any(|rule| is_local(rule.spec()));
        let warned = Warned::default();
        warned.warn(client, fallback);
        let listed = is_listed.then(|| {
            let fallback = Arc::downgrade(fallback);
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
        Self { listed }
    }
}

/// The rules of which it was said that some node has no share of them, by their numbers.
#[derive(Default)]
struct Warned(Mutex<BTreeSet<usize>>);

impl Warned {
    /// Says it of those of which it was not said yet.
    fn warn(&self, client: &Client, fallback: &Fallback) {
        let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = fallback.too_small().into_iter().filter(|number| warned.insert(*number));
        let names = new
            .filter_map(|number| fallback.policy.loaded.rules().get(number))
            .map(PolicyRule::name);
        let names: Vec<_> = names.collect();
        if !names.is_empty() {
            let nodes = fallback.share().nodes();
            client.report(StoreEvent::NoShare { rules: &names, nodes });
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
        match &self.nodes.listed {
            Some(listed) => listed.leave(&self.store.client).await,
            None => Ok(()),
        }
    }
}
