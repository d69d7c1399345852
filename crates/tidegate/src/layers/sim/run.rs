//! A run: nodes that begin and end, and callers that ask them.
//!
//! Everything that the plan says happens at its time, on the virtual clock of a paused runtime, so that a run of
//! seconds takes no time and is the same again.

mod node;

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Timestamp;
use tokio::task::JoinHandle;
use tokio::time::{sleep, sleep_until};

use super::history::LayersHistory;
use super::plan::{End, LayersFault, LayersPlan};
use super::world::{LayersWorld, locked};
use crate::store::KeyAsk;
use node::LayersNode;

/// The time that a run goes on when all nodes have ended, so that messages on their way arrive.
const REST: Duration = Duration::from_secs(8);

/// All nodes of a run.
struct LayersRun {
    world: Arc<LayersWorld>,
    nodes: Vec<Option<Arc<LayersNode>>>,
    is_up: Vec<bool>,
    is_changed: bool,
    tasks: Vec<JoinHandle<()>>,
}

/// Something that the plan says.
#[derive(Clone, Copy)]
enum LayersNext {
    Begin(usize),
    End(usize, End),
    Request(usize),
    Fault(LayersFault),
}

/// Runs a plan in virtual time.
pub(super) fn run(plan: &LayersPlan) -> LayersHistory {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let world = Arc::new(LayersWorld::new(plan.clone()));
        let nodes = plan.nodes.iter().map(|_| None).collect();
        let is_up = vec![false; plan.nodes.len()];
        let is_changed = false;
        LayersRun { world, nodes, is_up, is_changed, tasks: Vec::new() }.until_the_end().await
    })
}

impl LayersRun {
    async fn until_the_end(mut self) -> LayersHistory {
        let world = Arc::clone(&self.world);
        let plan = &world.plan;
        let mut all = Vec::new();
        for (number, node) in plan.nodes.iter().enumerate() {
            all.push((node.joins, LayersNext::Begin(number)));
            all.extend(node.end.map(|(at, end)| (at, LayersNext::End(number, end))));
        }
        let requests = plan.requests.iter().enumerate();
        all.extend(requests.map(|(number, request)| (request.at, LayersNext::Request(number))));
        all.extend(plan.faults.iter().map(|(at, fault)| (*at, LayersNext::Fault(*fault))));
        // A stable sort: at one time nodes begin before they are asked.
        all.sort_by_key(|(at, _)| *at);
        for (at, next) in all {
            sleep_until(world.began() + Duration::from_millis(at)).await;
            self.happen(next);
        }
        for task in std::mem::take(&mut self.tasks) {
            task.await.expect("no caller panics");
        }
        // Only when no caller waits any more, and before the last messages arrive.
        for (node, is_up) in self.nodes.iter().zip(&self.is_up) {
            if let (Some(node), true) = (node, is_up) {
                node.end(End::Leaves).await;
            }
        }
        sleep(REST).await;
        let accounts = self.nodes.iter().flatten().map(|node| node.account()).collect();
        let now: Timestamp = world.store_now();
        let used = |limiter| world.limiters().used(&world.ask(limiter, 0), now);
        let used = (0..plan.limiters.len()).map(used).collect();
        // The world and a node hold each other.
        (0..self.nodes.len()).for_each(|number| world.holds(number, None));
        let mut history = std::mem::take(&mut *world.history());
        // At one time, limiters are asked in any order.
        history.events.sort_by_key(|event| (event.at, event.limiter));
        LayersHistory { accounts, used, ended: world.passed_us(), ..history }
    }

    fn happen(&mut self, next: LayersNext) {
        match next {
            LayersNext::Begin(number) => {
                let node = Arc::new(LayersNode::begin(&self.world, number, self.is_changed));
                let holder = Arc::clone(&node);
                let held = move |ask: &KeyAsk| holder.tower().inner.inner.held(ask);
                self.world.holds(number, Some(Box::new(held)));
                self.nodes[number] = Some(node);
                self.is_up[number] = true;
                self.count();
            }
            LayersNext::End(number, end) => {
                // It is asked no more from now on, while its units go back.
                self.is_up[number] = false;
                self.world.holds(number, None);
                if let Some(node) = self.nodes[number].clone() {
                    self.tasks.push(tokio::spawn(async move { node.end(end).await }));
                }
                self.count();
            }
            LayersNext::Request(number) => {
                let request = self.world.plan.requests[number].clone();
                let Some(node) = self.nodes[request.node].clone() else { return };
                if self.is_up[request.node] {
                    let sleep = node.sleep.clone();
                    let serve = async move { node.serve(number as u64, &request).await };
                    let serve = sleep.stand_still_for(Duration::ZERO, serve);
                    self.tasks.push(tokio::spawn(serve));
                }
            }
            LayersNext::Fault(fault) => self.fault(fault),
        }
    }

    fn fault(&mut self, fault: LayersFault) {
        let world = &self.world;
        match fault {
            LayersFault::Sleep { node, time } => {
                let Some(node) = &self.nodes[node] else { return };
                node.sleep.sleep(Duration::from_millis(time));
                locked(&node.clocks).sleep(time * 1_000);
            }
            LayersFault::NodeStep { node, by } => {
                let Some(node) = &self.nodes[node] else { return };
                locked(&node.clocks).step(by * 1_000);
            }
            LayersFault::StoreStep { by } => world.step(by * 1_000),
            LayersFault::Copy => world.copy(),
            LayersFault::Loss { to_copy } => world.lose(to_copy),
            LayersFault::FailOver { stood } => world.fail_over(stood),
            LayersFault::Change { within } => {
                self.is_changed = true;
                world.note_changed();
                for (number, node) in self.nodes.iter().enumerate() {
                    let Some(node) = node.clone() else { continue };
                    // One after the other, so that nodes decide under both policies at a time.
                    let hears = Duration::from_millis(within * (number as u64 + 1) / 4);
                    tokio::spawn(async move {
                        sleep(hears).await;
                        node.change();
                    });
                }
            }
        }
    }

    /// Tells the nodes their number, a while later.
    fn count(&self) {
        let nodes = self.is_up.iter().filter(|is_up| **is_up).count() as u64;
        let up = self.nodes.iter().zip(&self.is_up).filter(|(_, is_up)| **is_up);
        let hear: Vec<_> =
            up.filter_map(|(node, _)| node.as_ref()).map(|node| node.know_nodes()).collect();
        let beat = Duration::from_millis(self.world.plan.beat);
        tokio::spawn(async move {
            sleep(beat).await;
            hear.iter().for_each(|hear| hear(nodes));
        });
    }
}
