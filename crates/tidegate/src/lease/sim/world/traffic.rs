//! The requests of clients.

use super::super::history::LeasesEventKind;
use super::super::plan::RunKind;
use super::super::store::LeasesQuestion;
use super::{LeasesNext, LeasesWorld};

/// The maximum number of final requests for one unit, which find the units that a limit has left.
const LAST_REQUESTS: u64 = 4_000;

impl LeasesWorld<'_> {
    /// A client asks a node, and the next request is scheduled.
    pub(super) fn request(&mut self, node: usize) {
        if self.time >= self.plan.length {
            return;
        }
        let rng = &mut self.traffic[node];
        let quiet = if rng.chance(self.plan.quiet_percent) { 20 } else { 1 };
        let pause = rng.below(2 * self.plan.pause * quiet) + 1;
        let keys = self.plan.keys.len();
        let mut parts = vec![];
        let hot = rng.chance(60);
        for key in 0..keys {
            let is_of_it = match (self.plan.kind, key) {
                (RunKind::Lasting, 0) => true,
                (_, 0) => hot,
                _ => rng.chance(30),
            };
            if is_of_it || (key + 1 == keys && parts.is_empty()) {
                parts.push((key, rng.between(1, self.plan.largest_cost)));
            }
        }
        self.at(self.time + pause, LeasesNext::Request { node });
        if self.nodes[node].up {
            self.history.asked.push(self.time);
            let [from, to] = self.frozen;
            let is_silent = (from + self.plan.deadline..to).contains(&self.time);
            let is_away = is_silent || self.time < self.away_until;
            let sent = self.nodes[node].request(self.time, parts, is_away, &mut self.history);
            self.send(node, sent);
            self.note_due(node);
        }
    }

    /// One client takes the units left, one at a time.
    pub(super) fn ask_for_the_rest(&mut self) {
        for key in 0..self.plan.keys.len() {
            for _ in 0..LAST_REQUESTS {
                let question = LeasesQuestion::Step { request: None, parts: vec![(key, 1)] };
                let before = self.history.events.len();
                self.store.ask(self.time, &question, &mut self.history, |_| 0);
                let taken = self.history.events.iter().skip(before);
                if !taken.clone().any(|event| matches!(event.what, LeasesEventKind::Taken { .. })) {
                    break;
                }
            }
        }
    }
}
