//! The nodes of a cluster: which shard answers for which slot, and what was reported of them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::task::{JoinSet, spawn_local};
use tokio::time::{Instant, sleep, timeout};

use super::Dispatcher;
use super::look::{LOOK, PAUSES, spread};
use super::shard::{Health, Shard};
use super::slots::{Node, Range, ranges_of};
use crate::store::redis::error::StoreError;
use crate::store::redis::event::StoreEvent;
use crate::store::redis::link::{connect_to, nodes_of_url, send};

/// Slots of a cluster.
const SLOTS: usize = 16_384;
/// Shortest time between two looks for nodes.
const REST: Duration = Duration::from_millis(100);
/// A shard that holds no slot is kept for so long after it was asked last.
const KEPT: Duration = Duration::from_secs(10);

/// First and last slots.
type Ranges = Vec<(u16, u16)>;

/// The shard of each slot.
#[derive(Default)]
pub(super) struct Cluster {
    map: RefCell<Vec<Option<Rc<Shard>>>>,
    /// Ranges that were reported as lost, and not as back yet.
    lost: RefCell<Vec<(u16, u16)>>,
    /// Whether a look for nodes is under way.
    looks: Cell<bool>,
}

impl Cluster {
    pub(super) fn shard_of(&self, slot: u16) -> Option<Rc<Shard>> {
        self.map.borrow().get(usize::from(slot)).cloned().flatten()
    }

    /// A slot was said to have moved to a shard.
    pub(super) fn set(&self, slot: u16, shard: &Rc<Shard>) {
        if let Some(known) = self.map.borrow_mut().get_mut(usize::from(slot)) {
            *known = Some(Rc::clone(shard));
        }
    }

    /// Those of all shards that hold slots.
    pub(super) fn shards(&self, all: &[Rc<Shard>]) -> Vec<Rc<Shard>> {
        all.iter().filter(|shard| !shard.ranges().is_empty()).cloned().collect()
    }

    /// Those of the ranges that were not reported as lost before.
    pub(super) fn lost(&self, ranges: &[(u16, u16)]) -> Vec<(u16, u16)> {
        let mut lost = self.lost.borrow_mut();
        let is_new = |range: &&(u16, u16)| !lost.iter().any(|known| overlap(*known, **range));
        let new: Vec<_> = ranges.iter().filter(is_new).copied().collect();
        lost.extend(&new);
        new
    }

    /// The ranges that were reported as lost and are answered for again, now that these are.
    pub(super) fn back(&self, ranges: &[(u16, u16)]) -> Vec<(u16, u16)> {
        let is_back = |lost: &mut (u16, u16)| ranges.iter().any(|range| overlap(*lost, *range));
        self.lost.borrow_mut().extract_if(.., is_back).collect()
    }

    /// All ranges are reported as back at once.
    pub(super) fn all_back(&self) {
        self.lost.borrow_mut().clear();
    }
}

const fn overlap(a: (u16, u16), b: (u16, u16)) -> bool {
    a.0 <= b.1 && b.0 <= a.1
}

impl Dispatcher {
    /// The shard at a node; added where it is not known yet.
    pub(super) fn shard_at(self: &Rc<Self>, node: &Node) -> Rc<Shard> {
        let is_there = |shard: &&Rc<Shard>| shard.node.as_ref() == Some(node);
        let known = self.shards.borrow().iter().find(is_there).cloned();
        known.unwrap_or_else(|| self.add(Some(node.clone())))
    }

    /// Begins to ask which node answers for which slot, until all of them are fit.
    pub(super) fn look_for_nodes(self: &Rc<Self>) {
        if !self.cluster.looks.replace(true) {
            spawn_local(Rc::clone(self).until_nodes_are_known());
        }
    }

    async fn until_nodes_are_known(self: Rc<Self>) {
        let mut pause = PAUSES.0;
        loop {
            let known = self.ask_nodes().await;
            match known {
                Ok(ranges) => {
                    self.follow(ranges);
                    pause = PAUSES.0.max(REST);
                }
                Err(error) => self.no_nodes(error),
            }
            sleep(spread(pause.max(REST))).await;
            pause = (pause * 2).min(PAUSES.1);
            let shards = self.cluster.shards(&self.shards.borrow());
            if !shards.is_empty() && shards.iter().all(|shard| shard.is_fit()) {
                break;
            }
        }
        self.cluster.looks.set(false);
    }

    /// No node says who answers for which slot.
    fn no_nodes(&self, error: StoreError) {
        if self.cluster.map.borrow().is_empty() {
            if !self.is_lost.replace(true) {
                (self.shared.observer)(StoreEvent::Lost(&error));
            }
            self.shared.found.send_replace(Some(Err(error)));
        }
    }

    /// Asks all nodes that are known at once; the first answer counts, so a node that hangs delays nothing.
    async fn ask_nodes(&self) -> Result<Vec<Range>, StoreError> {
        let mut asked = JoinSet::new();
        let mut nodes = nodes_of_url(&self.shared.settings);
        for shard in self.shards.borrow().iter() {
            let Some(node) = shard.node.clone() else { continue };
            nodes.retain(|other| *other != node);
            match shard.connection().filter(|_| shard.is_fit()) {
                Some(connection) => drop(asked.spawn_local(slots_of(connection, node))),
                None => nodes.push(node),
            }
        }
        for node in nodes {
            let shared = self.shared.clone();
            asked.spawn_local(async move {
                let connection = connect_to(&shared.settings, &node).await?;
                slots_of(connection, node).await
            });
        }
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

    /// Puts a map of slots in force. What waits for a shard that holds none any more goes to those that do.
    fn follow(self: &Rc<Self>, ranges: Vec<Range>) {
        let mut map = vec![None; SLOTS];
        let mut of_shards: Vec<(Rc<Shard>, Ranges)> = Vec::new();
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
        self.cluster.map.replace(map);
        let shards = self.shards.borrow().clone();
        for shard in shards {
            let held = of_shards.iter().find(|(known, _)| Rc::ptr_eq(known, &shard));
            let ranges = held.map(|(_, ranges)| ranges.clone()).unwrap_or_default();
            let had = !shard.ranges().is_empty();
            shard.set_ranges(ranges);
            if had && held.is_none() {
                for request in shard.take_all().into_iter().filter(|request| !request.is_done()) {
                    request.home.set(usize::MAX);
                    match self.shard_of(request.asked.keys()) {
                        Some(other) => other.push(request, true),
                        None => request.give_up(StoreError::Away),
                    }
                }
            }
        }
        self.looked();
    }

    /// Reports that all shards were looked at for the first time, and whether any of them is fit.
    pub(super) fn looked(&self) {
        let shards = match self.is_cluster() {
            true => self.cluster.shards(&self.shards.borrow()),
            false => self.shards.borrow().clone(),
        };
        let mut lost = None;
        let mut is_fit = false;
        for shard in shards {
            match shard.health() {
                Health::New => return,
                Health::Fit => is_fit = true,
                Health::Lost(error) => lost = Some(error),
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

    /// Drops shards that hold no slot, once nothing is under way there any more.
    pub(super) fn drop_retired(&self) {
        if !self.is_cluster() {
            return;
        }
        let now = Instant::now();
        self.shards.borrow_mut().retain(|shard| {
            let is_kept = !shard.ranges().is_empty()
                || !shard.is_idle()
                || now.duration_since(shard.asked_at.get()) < KEPT;
            shard.is_retired.set(!is_kept);
            is_kept
        });
    }
}

/// The map of slots, as one node has it.
async fn slots_of(
    mut connection: MultiplexedConnection,
    node: Node,
) -> Result<Vec<Range>, StoreError> {
    let mut command = redis::cmd("CLUSTER");
    command.arg("SLOTS");
    let ranges = ranges_of(&send(&mut connection, &command).await?, &node);
    match ranges.is_empty() {
        true => Err(StoreError::ClusterDown("no node holds a slot".to_owned())),
        false => Ok(ranges),
    }
}
