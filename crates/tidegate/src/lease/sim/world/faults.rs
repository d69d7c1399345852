//! Failures of nodes and of the store.

use super::super::plan::LeasesFault;
use super::{LeasesNext, LeasesWorld};

impl LeasesWorld<'_> {
    pub(super) fn fault(&mut self, fault: LeasesFault) {
        match fault {
            LeasesFault::Crash { node, again_after } if self.nodes[node].up => {
                self.nodes[node].crash(&mut self.history);
                self.history.crashes += 1;
                self.at(self.time + again_after, LeasesNext::Begin { node });
                self.beat();
            }
            LeasesFault::Leave { node, again_after } if self.nodes[node].up => {
                let sent = self.nodes[node].leave();
                self.send(node, sent);
                self.at(self.time + again_after, LeasesNext::Begin { node });
                self.beat();
            }
            LeasesFault::Crash { .. } | LeasesFault::Leave { .. } => {}
            LeasesFault::Cut { node, time } => {
                let (until, begun) = (self.time + time, self.nodes[node].begun);
                self.nodes[node].cut_until = until;
                self.at(until, LeasesNext::Beat { node, begun });
            }
            LeasesFault::Sleep { node, time } => {
                self.nodes[node].sleeps_until = self.time + time;
                self.nodes[node].clock.sleep(time);
            }
            LeasesFault::Step { node, by } => self.nodes[node].clock.step(by),
            LeasesFault::Drop { node, key } => {
                if self.nodes[node].up {
                    let sent = self.nodes[node].drop_leases(self.time, key, &mut self.history);
                    self.send(node, sent);
                }
            }
            LeasesFault::Freeze { time } => self.frozen = [self.time, self.time + time],
            LeasesFault::Failover { time } => {
                self.frozen = [self.time, self.time + time];
                self.at(self.time + time, LeasesNext::Promote);
            }
            LeasesFault::Restart { time } => self.away_until = self.time + time,
            LeasesFault::Loss { to_copy } => self.store.lose(self.time, to_copy, &mut self.history),
            LeasesFault::Copy => self.store.copy(),
            LeasesFault::StoreStep { by } => self.store.step(self.time, by, &mut self.history),
            LeasesFault::Change { key, known_within } => {
                self.store.change(self.time, key, &mut self.history);
                for node in 0..self.nodes.len() {
                    let time = self.time + self.rng.below(known_within);
                    self.at(time, LeasesNext::Hear { node, key });
                }
            }
        }
    }
}
