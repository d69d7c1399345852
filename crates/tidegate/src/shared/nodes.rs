//! How many nodes share the store, and so what share of each limit is this one's.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::SharedGate;
use super::away::Away;
use super::share::{Share, is_local};
use crate::rules::{Policy, PolicyRule};
use crate::store::redis::{Client, Listed, StoreError, StoreEvent};

/// This node among those that share the store.
#[derive(Debug)]
pub(super) struct Nodes {
    /// What follows the number of nodes; nothing while it is being built.
    follows: Follows,
    /// `None` where the number of nodes was configured, or no rule has a share.
    listed: Option<Arc<Listed>>,
}

/// The limiters in process, as far as the gate still has them.
type Follows = Arc<Mutex<Weak<Away>>>;

impl Nodes {
    /// Has this node listed where that is needed, and says which rules have no share for each node.
    pub(super) fn begin(policy: &Arc<Policy>, client: &Client, away: &Arc<Away>) -> Self {
        let follows = Arc::new(Mutex::new(Arc::downgrade(away)));
        let is_listed = client.settings().nodes.is_none()
            && policy.rules().iter().any(|rule| is_local(rule.spec()));
        let warned = Warned::default();
        warned.warn(policy, client, away);
        let listed = is_listed.then(|| {
            let (policy, follows) = (Arc::clone(policy), Arc::clone(&follows));
            Listed::begin(client, move |client, seen| {
                let follows = held(&follows);
                let Some(away) = follows.upgrade() else { return };
                let before = away.share().nodes();
                away.split(Share::of_rank(seen.nodes, seen.rank));
                if seen.nodes != before {
                    client.tell(StoreEvent::Nodes(seen.nodes));
                }
                warned.warn(&policy, client, &away);
            })
        });
        Self { follows, listed }
    }

    /// The figures of a rule are looked up from now on, while the gate is being built.
    pub(super) fn keep_figures(&self, away: &mut Arc<Away>, number: usize) {
        let mut follows = held(&self.follows);
        *follows = Weak::new();
        // Nobody else has it: what follows the number of nodes has it under the lock only.
        if let Some(away) = Arc::get_mut(away) {
            away.keep_figures(number);
        }
        *follows = Arc::downgrade(away);
    }
}

/// The rules of which it was said that some node has no share of them, by their numbers.
#[derive(Default)]
struct Warned(Mutex<BTreeSet<usize>>);

impl Warned {
    /// Says it of those of which it was not said yet.
    fn warn(&self, policy: &Policy, client: &Client, away: &Away) {
        let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = away.too_small().into_iter().filter(|number| warned.insert(*number));
        let names = new.filter_map(|number| policy.rules().get(number)).map(PolicyRule::name);
        let names: Vec<_> = names.collect();
        if !names.is_empty() {
            let nodes = away.share().nodes();
            client.tell(StoreEvent::NoShare { rules: &names, nodes });
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
        self.away.share().nodes()
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

fn held(follows: &Follows) -> MutexGuard<'_, Weak<Away>> {
    follows.lock().unwrap_or_else(PoisonError::into_inner)
}
