//! Failures of nodes and of the store.

use super::super::plan::Fault;
use super::{Next, World};

impl World<'_> {
    pub(super) fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::Crash { node, again_after } if self.nodes[node].up => {
                self.nodes[node].crash(&mut self.history);
                self.history.crashes += 1;
                self.at(self.time + again_after, Next::Begin { node });
                self.beat();
            }
            Fault::Leave { node, again_after } if self.nodes[node].up => {
                let sent = self.nodes[node].leave();
                self.send(node, sent);
                self.at(self.time + again_after, Next::Begin { node });
                self.beat();
            }
            Fault::Crash { .. } | Fault::Leave { .. } => {}
            Fault::Cut { node, time } => {
                let (until, begun) = (self.time + time, self.nodes[node].begun);
                self.nodes[node].cut_until = until;
                self.at(until, Next::Beat { node, begun });
            }
            Fault::Sleep { node, time } => {
                self.nodes[node].sleeps_until = self.time + time;
                self.nodes[node].clock.sleep(time);
            }
            Fault::Step { node, by } => self.nodes[node].clock.step(by),
            Fault::Drop { node, key } => {
                if self.nodes[node].up {
                    let sent = self.nodes[node].drop_leases(self.time, key, &mut self.history);
                    self.send(node, sent);
                }
            }
            Fault::Freeze { time } => self.frozen = [self.time, self.time + time],
            Fault::Failover { time } => {
                self.frozen = [self.time, self.time + time];
                self.at(self.time + time, Next::Promote);
            }
            Fault::Restart { time } => self.away_until = self.time + time,
            Fault::Loss { to_copy } => self.store.lose(self.time, to_copy, &mut self.history),
            Fault::Copy => self.store.copy(),
            Fault::StoreStep { by } => self.store.step(self.time, by, &mut self.history),
            Fault::Change { key, known_within } => {
                self.store.change(self.time, key, &mut self.history);
                for node in 0..self.nodes.len() {
                    let time = self.time + self.rng.below(known_within);
                    self.at(time, Next::Hear { node, key });
                }
            }
        }
    }
}
