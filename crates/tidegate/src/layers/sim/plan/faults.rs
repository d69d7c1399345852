//! Faults of a run, drawn from its seed, and runs in which nothing fails.
//!
//! A fault happens at a time; an outage lasts from a time to a time.

use testkit::traffic::Rng;
use tidegate_core::Limit;

use super::{LONG_MS, LayersPlan, NodePlan, PlannedRequest, RequestKind, SHORT, short_rule};
use crate::rules::Policy;

/// A step of a clock that is longer than every run and window.
const FAR_MS: i64 = 4 * LONG_MS.cast_signed();

/// Something that happens to a node or the store at a time. Steps of clocks are milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum LayersFault {
    /// The node stands still for this time. Its clock runs on; a clock that stops while the machine sleeps does not.
    Sleep { node: usize, time: u64 },
    /// The wall clock of the node steps.
    NodeStep { node: usize, by: i64 },
    /// The clock of the store steps.
    StoreStep { by: i64 },
    /// The replica that lags catches up.
    Copy,
    /// The store fails over to the replica that lags, or to a replica without data.
    Loss { to_copy: bool },
    /// A replica that has all data takes the place of a store that stood still for this time. Later the store goes on
    /// by itself with the messages that were sent to it before.
    FailOver { stood: u64 },
    /// A rule gets its second values. Nodes hear of it within this time.
    Change { within: u64 },
}

/// A fault that lasts for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Trouble {
    /// No message comes through.
    Away,
    /// The store stands still. Messages that reach it are decided when that ends.
    Frozen,
    /// Replies come after the deadline.
    Slow,
}

#[derive(Clone, Debug)]
pub(in super::super) struct PlannedOutage {
    pub(in super::super) from: u64,
    pub(in super::super) to: u64,
    pub(in super::super) trouble: Trouble,
    /// The slot and the node it is about; `None` for all.
    pub(in super::super) slot: Option<u16>,
    pub(in super::super) node: Option<usize>,
}

impl PlannedOutage {
    /// Returns whether it is on at a time, for messages of a node about a slot.
    pub(in super::super) fn hits(&self, now: u64, node: usize, slot: Option<u16>) -> bool {
        let is_of = self.node.is_none_or(|one| one == node)
            && self.slot.is_none_or(|one| Some(one) == slot);
        is_of && (self.from..self.to).contains(&now)
    }
}

impl LayersPlan {
    /// A run in which nothing fails: all nodes are asked alike for one limiter, of which they have shares.
    pub(super) fn make_even(
        &mut self,
        rng: &mut Rng,
        (pause, length): (u64, u64),
        per_second: u64,
    ) {
        // Several are tried, because only some rules have shares.
        let rule = (0..100).map(|_| short_rule(rng, per_second)).find(|rule| rule.split);
        let Some(rule) = rule else { return };
        self.is_even = true;
        self.rules[SHORT] = rule;
        for node in &mut self.nodes {
            (node.joins, node.end) = (0, None);
        }
        self.nodes.truncate(self.most_nodes as usize);
        self.requests.clear();
        for node in 0..self.nodes.len() {
            let mut at = 0;
            while at < length {
                let (parts, kind) = (vec![(SHORT, 1)], RequestKind::Check);
                self.requests.push(PlannedRequest { at, node, parts, kind });
                at += rng.below(2 * pause + 1);
            }
        }
        self.requests.sort_by_key(|request| request.at);
        (self.beat, self.largest_cost, self.repeats_denials) = (0, 1, false);
    }

    /// Adds sleep, steps of clocks, losses of data, replicas and a change of a rule.
    pub(super) fn add_faults(&mut self, rng: &mut Rng, length: u64) {
        let all = &mut self.faults;
        for _ in 0..rng.between(0, 4) {
            let node = rng.below(self.nodes.len() as u64) as usize;
            let fault = if rng.chance(50) {
                LayersFault::Sleep { node, time: rng.between(1, length / 4) }
            } else {
                let by = rng.pick([-FAR_MS, -100, 100, FAR_MS]);
                LayersFault::NodeStep { node, by }
            };
            all.push((rng.below(length), fault));
        }
        if rng.chance(20) {
            let stood = rng.between(1, length / 4);
            let to = rng.between(stood, length);
            let trouble = Trouble::Frozen;
            let outage = PlannedOutage { from: to - stood, to, trouble, slot: None, node: None };
            self.outages.push(outage);
            all.push((to, LayersFault::FailOver { stood }));
            return;
        }
        let lost = rng.chance(25).then(|| rng.below(length));
        if let Some(at) = lost {
            all.push((rng.below(at + 1), LayersFault::Copy));
            all.push((at, LayersFault::Loss { to_copy: rng.chance(50) }));
        }
        if rng.chance(25) {
            let window = self.rules[SHORT].spec.window.unwrap_or_default();
            let window = (window.as_millis() as u64).cast_signed();
            let back = 1 + rng.below(window.cast_unsigned()).cast_signed();
            let steps = [-back / 2, -back, -window - back, -FAR_MS, back, 2 * window, FAR_MS];
            let mut by = rng.pick(steps);
            let mut at = rng.below(length);
            if let Some(lost) = lost {
                // Undone requests are the only units that come back to a store that does not know them.
                at = lost + rng.below(20);
                by = rng.pick([-window - back, -FAR_MS]);
            }
            all.push((at, LayersFault::StoreStep { by }));
        }
        if rng.chance(25) {
            let rule = rng.below(2) as usize;
            let mut spec = self.rules[rule].spec;
            let Limit::Units(limit) = spec.limit else { return };
            spec.limit = Limit::Units(rng.pick([0, limit / 3 + 1, limit * 3]));
            let mut rules = self.rules.clone();
            rules[rule].spec = spec;
            if Policy::new(rules).is_ok() {
                self.changed = Some((rule, spec));
                let within = length / 4 + 1;
                self.faults.push((rng.below(length), LayersFault::Change { within }));
            }
        }
    }
}

pub(in super::super) fn outages(
    rng: &mut Rng,
    length: u64,
    nodes: &[NodePlan],
    has_slots: bool,
) -> Vec<PlannedOutage> {
    let mut all = Vec::new();
    for _ in 0..rng.between(0, 3) {
        let from = rng.below(length * 3 / 4);
        let to = from + rng.pick([15, 100, 400, length / 4]).min(length - from);
        let slot = (has_slots && rng.chance(60)).then(|| rng.below(3) as u16);
        let node = rng.chance(30).then(|| rng.below(nodes.len() as u64) as usize);
        let trouble = rng.pick([Trouble::Away, Trouble::Away, Trouble::Frozen, Trouble::Slow]);
        all.push(PlannedOutage { from, to, trouble, slot, node });
    }
    all
}
