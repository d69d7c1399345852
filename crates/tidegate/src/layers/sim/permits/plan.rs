//! The plan of one seed: the limit and the life of permits, nodes and their work, the network, and the failures.

use std::time::Duration;

use testkit::traffic::Rng;
use tidegate_core::{AlgorithmKind, Micros, Rule, Spec};

use super::network::Network;

/// Something that happens to a node or the store, at a time.
#[derive(Clone, Copy, Debug)]
pub(super) enum PermitsFault {
    /// The node crashes, and starts again after this time.
    Crash { node: usize, again_after: u64 },
    /// The node returns all its permits, ends, and starts again after this time.
    Leave { node: usize, again_after: u64 },
    /// The node stands still for this time.
    Sleep { node: usize, time: u64 },
    /// No message of the store reaches the node, and none the store, for this time.
    Cut { node: usize, time: u64 },
    /// The wall clock of the node steps by this many microseconds.
    Step { node: usize, by: i64 },
    /// The store's clock steps.
    StoreStep { by: i64 },
    /// The replica catches up.
    Copy,
    /// The store fails over to a replica: to the last copy of its data, or to none.
    Loss { to_copy: bool },
    /// The rule gets its second limit.
    Change,
}

/// A run, before it begins.
#[derive(Clone, Debug)]
pub(super) struct PermitsPlan {
    pub(super) seed: u64,
    /// The reading of the store's clock at the beginning.
    pub(super) origin: u64,
    /// The limit, and the limit after a change.
    pub(super) limits: [u64; 2],
    pub(super) life: Micros,
    /// The speed of each node's clock above the store's, in parts per million.
    pub(super) drifts: Vec<i64>,
    pub(super) length: u64,
    /// Mean time between two jobs of a node, and how often a few begin at once.
    pub(super) pause: u64,
    pub(super) together_percent: u64,
    /// The longest work of a job, and the maximum units of its permit.
    pub(super) longest_work: u64,
    pub(super) largest_cost: u64,
    /// The chance, in percent, that the store tries to forget the limiter after a question.
    pub(super) swept_percent: u64,
    pub(super) network: Network,
    /// The time for which a job waits for its permit.
    pub(super) deadline: u64,
    pub(super) faults: Vec<(u64, PermitsFault)>,
}

impl PermitsPlan {
    pub(super) fn of_seed(seed: u64) -> Self {
        let rng = &mut Rng::new(!seed);
        let nodes = rng.between(1, 5);
        let limit = rng.pick([1, 1, 2, 3, 5, 10]);
        let life = Micros::from_millis(rng.pick([20, 100, 1_000, 10_000]));
        let life_us = life.as_micros();
        let calm = rng.chance(30);
        let length = 60 * life_us;
        let longest_work = life_us * rng.pick([1, 2, 6]) / 2;
        let wanted_percent = rng.pick([20, 100, 300]);
        Self {
            seed,
            origin: 1_000_000_000_000 + rng.below(10_000_000),
            limits: [limit, rng.pick([1, limit.div_ceil(2), 2 * limit])],
            life,
            drifts: (0..nodes).map(|_| rng.pick([-950, 0, 950])).collect(),
            length,
            pause: longest_work / 2 * nodes * 100 / (limit * wanted_percent),
            together_percent: rng.pick([0, 10, 50]),
            longest_work,
            largest_cost: rng.pick([1, 1, 3]),
            swept_percent: rng.pick([0, 20, 100]),
            network: Network::new(rng, calm),
            deadline: rng.pick([life_us / 4, life_us, 4 * life_us]),
            faults: if calm { Vec::new() } else { faults(rng, length, life_us, nodes) },
        }
    }

    /// The rule before or after the change.
    pub(super) fn rule(&self, changed: bool) -> Rule {
        let life = Duration::from_micros(self.life.as_micros());
        let limit = self.limits[usize::from(changed)];
        let spec = Spec::new(AlgorithmKind::Concurrency, limit, life);
        Rule::new(spec).expect("a rule of the plan is valid")
    }
}

fn faults(rng: &mut Rng, length: u64, life: u64, nodes: u64) -> Vec<(u64, PermitsFault)> {
    let mut all = Vec::new();
    for _ in 0..rng.between(0, 12) {
        let node = rng.below(nodes) as usize;
        let time = rng.between(1, 3 * life);
        let life = life.cast_signed();
        let steps = [-3_600_000_000, -2 * life, -life / 2, -100, life / 2, 3_600_000_000];
        let fault = match rng.below(8) {
            0 => PermitsFault::Crash { node, again_after: time },
            1 => PermitsFault::Leave { node, again_after: time },
            2 | 3 => PermitsFault::Sleep { node, time },
            4 => PermitsFault::Cut { node, time },
            5 => PermitsFault::Step { node, by: rng.pick(steps) },
            _ => PermitsFault::StoreStep { by: rng.pick(steps) },
        };
        all.push((rng.below(length), fault));
    }
    if rng.chance(40) {
        let at = rng.below(length);
        all.push((at.saturating_sub(rng.below(2 * life)), PermitsFault::Copy));
        all.push((at, PermitsFault::Loss { to_copy: rng.chance(70) }));
    }
    if rng.chance(30) {
        all.push((rng.below(length), PermitsFault::Change));
    }
    all
}
