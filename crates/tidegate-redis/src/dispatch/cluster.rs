//! The nodes of a cluster: the shard of each slot, and the reports about shards.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::task::{JoinSet, spawn_local};
use tokio::time::{Instant, sleep, timeout};

use super::Dispatcher;
use super::look::{LOOK, PAUSES, spread};
use super::shard::{ShardHealth, StoreShard};
use super::slots::{Range, ranges_of};
use crate::link::{NodeAddress, connect_to, nodes_of_url, send};
use crate::store::{StoreError, StoreEvent};

/// Slots of a cluster.
const SLOTS: usize = 16_384;
/// Shortest time between two searches for nodes.
const REST: Duration = Duration::from_millis(100);
/// The time that a shard without slots is kept after its last request.
const KEPT: Duration = Duration::from_secs(10);

/// First and last slots.
type Ranges = Vec<(u16, u16)>;

/// The shard of each slot.
#[derive(Default)]
pub(super) struct Cluster {
    map: RefCell<Vec<Option<Rc<StoreShard>>>>,
    /// Ranges that are reported as lost.
    lost: RefCell<Vec<(u16, u16)>>,
    /// True while a search for nodes runs.
    looks: Cell<bool>,
    /// True if another search is needed after it.
    again: Cell<bool>,
}

impl Cluster {
    pub(super) fn shard_of(&self, slot: u16) -> Option<Rc<StoreShard>> {
        self.map.borrow().get(usize::from(slot)).cloned().flatten()
    }

    /// Notes that a slot has moved to a shard.
    pub(super) fn set(&self, slot: u16, shard: &Rc<StoreShard>) {
        if let Some(known) = self.map.borrow_mut().get_mut(usize::from(slot)) {
            *known = Some(Rc::clone(shard));
        }
    }

    /// Returns whether any slot is the shard's.
    fn names(&self, shard: &Rc<StoreShard>) -> bool {
        self.map.borrow().iter().flatten().any(|known| Rc::ptr_eq(known, shard))
    }

    /// Returns whether any slot had another shard in an earlier map.
    fn differs_from(&self, before: &[Option<Rc<StoreShard>>]) -> bool {
        let map = self.map.borrow();
        before.len() != map.len()
            || before
                .iter()
                .zip(map.iter())
                .any(|(one, other)| one.as_ref().map(Rc::as_ptr) != other.as_ref().map(Rc::as_ptr))
    }

    /// Returns whether some slot has no known shard.
    fn has_hole(&self) -> bool {
        self.map.borrow().iter().any(Option::is_none)
    }

    /// All shards that hold slots.
    pub(super) fn shards(&self, all: &[Rc<StoreShard>]) -> Vec<Rc<StoreShard>> {
        all.iter().filter(|shard| !shard.ranges().is_empty()).cloned().collect()
    }

    /// The ranges that are not yet reported as lost.
    pub(super) fn lost(&self, ranges: &[(u16, u16)]) -> Vec<(u16, u16)> {
        let mut lost = self.lost.borrow_mut();
        let new: Vec<_> = ranges
            .iter()
            .filter(|range| !lost.iter().any(|known| overlap(*known, **range)))
            .copied()
            .collect();
        lost.extend(&new);
        new
    }

    /// Removes and returns the ranges that were reported as lost and whose slots these ranges serve
    /// again.
    pub(super) fn back(&self, ranges: &[(u16, u16)]) -> Vec<(u16, u16)> {
        let mut lost = self.lost.borrow_mut();
        lost.extract_if(.., |lost| ranges.iter().any(|range| overlap(*lost, *range))).collect()
    }

    /// Notes that all ranges are reported as back.
    pub(super) fn all_back(&self) {
        self.lost.borrow_mut().clear();
    }
}

const fn overlap(a: (u16, u16), b: (u16, u16)) -> bool {
    a.0 <= b.1 && b.0 <= a.1
}

impl Dispatcher {
    /// The shard of a node; added if it is not yet known.
    pub(super) fn shard_at(self: &Rc<Self>, node: &NodeAddress) -> Rc<StoreShard> {
        let shards = self.shards.borrow();
        let known = shards.iter().find(|shard| shard.node.as_ref() == Some(node)).cloned();
        // Adding a shard borrows the list mutably.
        drop(shards);
        known.unwrap_or_else(|| self.add(Some(node.clone())))
    }

    /// Starts to ask the nodes for the map of slots, until every slot's shard is known and fit.
    pub(super) fn look_for_nodes(self: &Rc<Self>) {
        self.cluster.again.set(true);
        if !self.cluster.looks.replace(true) {
            spawn_local(Rc::clone(self).until_nodes_are_known());
        }
    }

    async fn until_nodes_are_known(self: Rc<Self>) {
        let mut pause = REST;
        loop {
            // Before the question, so that a search wanted while the nodes are asked is not forgotten.
            self.cluster.again.set(false);
            let is_new = match self.ask_nodes().await {
                Ok(ranges) => self.follow(ranges),
                Err(error) => {
                    self.no_nodes(error);
                    false
                }
            };
            pause = if is_new { REST } else { (pause * 2).min(PAUSES.1) };
            sleep(spread(pause)).await;
            let shards = self.cluster.shards(&self.shards.borrow());
            let all_fit = !shards.is_empty() && shards.iter().all(|shard| shard.is_fit());
            if all_fit && !self.cluster.has_hole() && !self.cluster.again.get() {
                break;
            }
        }
        self.cluster.looks.set(false);
    }

    /// Reports that no node has a map of slots.
    fn no_nodes(&self, error: StoreError) {
        // Once there is a map, each shard reports for itself.
        if self.cluster.map.borrow().is_empty() {
            if !self.is_lost.replace(true) {
                (self.shared.observer)(StoreEvent::Lost(&error));
            }
            self.shared.found.send_replace(Some(Err(error)));
        }
    }

    /// Asks the nodes that are fit, or all known nodes if none of them answers. The first answer
    /// counts, so a node that hangs delays nothing.
    async fn ask_nodes(&self) -> Result<Vec<Range>, StoreError> {
        let mut fit = JoinSet::new();
        let mut others = JoinSet::new();
        let mut nodes = nodes_of_url(&self.shared.settings);
        for shard in self.shards.borrow().iter() {
            let Some(node) = shard.node.clone() else { continue };
            // Each node once, also if both the URL and the map name it.
            nodes.retain(|other| *other != node);
            if let Some(connection) = shard.connection().filter(|_| shard.is_fit()) {
                fit.spawn_local(slots_of(connection, node.clone()));
            }
            nodes.push(node);
        }
        if let Ok(ranges) = first_of(fit).await {
            return Ok(ranges);
        }
        for node in nodes {
            let shared = self.shared.clone();
            others.spawn_local(async move {
                let connection = connect_to(&shared.settings, &node).await?;
                slots_of(connection, node).await
            });
        }
        first_of(others).await
    }

    /// Puts a map of slots in force; returns whether it differs from the last. Requests that wait
    /// for a shard without slots go to the shards that have them now.
    fn follow(self: &Rc<Self>, ranges: Vec<Range>) -> bool {
        let mut map = vec![None; SLOTS];
        let mut of_shards: Vec<(Rc<StoreShard>, Ranges)> = Vec::new();
        for range in ranges {
            let shard = self.shard_at(&range.node);
            let slots = usize::from(range.first)..=usize::from(range.last);
            map.get_mut(slots).unwrap_or_default().fill(Some(Rc::clone(&shard)));
            let known = of_shards.iter_mut().find(|(known, _)| Rc::ptr_eq(known, &shard));
            match known {
                Some((_, all)) => all.push((range.first, range.last)),
                None => of_shards.push((shard, vec![(range.first, range.last)])),
            }
        }
        // The map changes before requests move, because moving a request looks its slot up there.
        let before = self.cluster.map.replace(map);
        let is_new = self.cluster.differs_from(&before);
        let shards = self.shards.borrow().clone();
        for shard in shards {
            let held = of_shards.iter().find(|(known, _)| Rc::ptr_eq(known, &shard));
            let ranges = held.map(|(_, ranges)| ranges.clone()).unwrap_or_default();
            let had = !shard.ranges().is_empty();
            shard.set_ranges(ranges);
            // A node that keeps some of its slots answers `MOVED` about the others.
            if had && held.is_none() {
                for request in shard.take_all().into_iter().filter(|request| !request.is_done()) {
                    request.home.set(usize::MAX);
                    match self.shard_of(&request.asked.keys) {
                        Some(other) => other.push(request),
                        None => request.give_up(StoreError::Away),
                    }
                }
            }
        }
        self.looked();
        // Other shards may now serve ranges that were lost.
        let shards = self.cluster.shards(&self.shards.borrow());
        shards.iter().filter(|shard| shard.is_fit()).for_each(|shard| self.report(shard, None));
        is_new
    }

    /// Reports that every shard was checked for the first time, and whether any of them is fit.
    pub(super) fn looked(&self) {
        let shards = if self.is_cluster() {
            self.cluster.shards(&self.shards.borrow())
        } else {
            self.shards.borrow().clone()
        };
        let mut lost = None;
        let mut is_fit = false;
        for shard in shards {
            match shard.health() {
                // Also while a connection is opened again: it is not known yet whether that is an outage.
                ShardHealth::New => return,
                ShardHealth::Fit => is_fit = true,
                ShardHealth::Lost(error) => lost = Some(error),
            }
        }
        let found = match lost {
            Some(error) if !is_fit => Err(error),
            _ => Ok(()),
        };
        self.shared.found.send_if_modified(|known| {
            let is_new = known.as_ref() != Some(&found);
            *known = Some(found);
            is_new
        });
    }

    /// Returns whether there are shards without slots.
    pub(super) fn has_retiring(&self) -> bool {
        self.is_cluster() && self.shards.borrow().iter().any(|shard| shard.ranges().is_empty())
    }

    /// Drops shards without slots once nothing is under way at them.
    pub(super) fn drop_retired(&self) {
        if !self.is_cluster() {
            return;
        }
        let now = Instant::now();
        self.shards.borrow_mut().retain(|shard| {
            let is_kept = !shard.ranges().is_empty()
                || !shard.is_idle()
                || now.duration_since(shard.asked_at.get()) < KEPT
                // `MOVED` may have named it before the nodes do.
                || self.cluster.names(shard);
            shard.is_retired.set(!is_kept);
            is_kept
        });
    }
}

/// The first map of slots that a node returns; else the error of the last node.
async fn first_of(
    mut asked: JoinSet<Result<Vec<Range>, StoreError>>,
) -> Result<Vec<Range>, StoreError> {
    let mut error = StoreError::Unreachable("the URL names no host".to_owned());
    let answers = async {
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok(ranges)) => return Some(ranges),
                Ok(Err(why)) => error = why,
                Err(_) => {}
            }
        }
        None
    };
    match timeout(LOOK, answers).await {
        Ok(Some(ranges)) => Ok(ranges),
        Ok(None) => Err(error),
        Err(_) => Err(StoreError::Timeout),
    }
}

/// The map of slots of one node.
async fn slots_of(
    mut connection: MultiplexedConnection,
    node: NodeAddress,
) -> Result<Vec<Range>, StoreError> {
    let mut command = redis::cmd("CLUSTER");
    command.arg("SLOTS");
    let ranges = ranges_of(&send(&mut connection, &command).await?, &node);
    if ranges.is_empty() {
        return Err(StoreError::ClusterDown("no node holds a slot".to_owned()));
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::task::LocalSet;

    use super::*;
    use crate::inbox::StoreState;
    use crate::settings::StoreSettings;

    #[tokio::test(start_paused = true)]
    async fn a_shard_that_holds_no_slot_is_dropped_also_where_nobody_asks_any_more() {
        let settings = StoreSettings::new("redis+cluster://127.0.0.1:1".parse().unwrap());
        let shared = Arc::new(StoreState::new(settings, Box::new(|_| {})));
        let dispatcher = Rc::new(Dispatcher::new(shared));
        let dropped = async {
            dispatcher.add(Some(("127.0.0.1".to_owned(), 1)));
            let runs = Rc::clone(&dispatcher);
            let runs = spawn_local(async move { runs.until_closed().await });
            sleep(KEPT / 2).await;
            assert_eq!(dispatcher.shards.borrow().len(), 1, "it may be asked again soon");
            sleep(KEPT).await;
            runs.abort();
            dispatcher.shards.borrow().is_empty()
        };
        assert!(LocalSet::new().run_until(dropped).await);
    }
}
