//! The plan of one seed of permits: the limit and the life of permits, nodes, their jobs, and the failures.

use testkit::traffic::Rng;
use tidegate_core::{AlgorithmKind, Limit, Spec};

use crate::layers::sim::plan::{
    Job, LayersFault, LayersPlan, NodePlan, PlannedRequest, RequestKind, ms, nodes, outages,
};
use crate::rules::{OnStoreError, RuleSpec};

/// The largest number of jobs of a run, about.
const MOST_JOBS: u64 = 1_000;

impl LayersPlan {
    /// A run whose requests are jobs.
    pub(super) fn of_permits(seed: u64) -> Self {
        let rng = &mut Rng::new(!seed);
        let most_nodes = rng.between(1, 4);
        let limit = rng.pick([1, 1, 2, 3, 5, 10]);
        let life = rng.pick([40, 100, 1_000, 10_000]);
        let is_calm = rng.chance(30);
        let longest_work = life * rng.pick([1, 2, 6]) / 2;
        let wanted_percent = rng.pick([20, 100, 300]);
        let pause = (longest_work / 2 * most_nodes * 100 / (limit * wanted_percent)).max(1);
        let length = (60 * life).min(MOST_JOBS * pause / most_nodes);
        let spec = Spec::new(AlgorithmKind::Concurrency, limit, ms(life));
        let mut rule = RuleSpec::new("jobs", spec).key(["job"]);
        // The limiter of a node gives permits of its own.
        rule.on_store_error = OnStoreError::Closed;
        let largest_cost = rng.pick([1, 1, 3]);
        let nodes = nodes(rng, most_nodes, length, is_calm);
        let requests = jobs(rng, &nodes, (pause, length), (longest_work, largest_cost));
        let changes = !is_calm && rng.chance(30);
        let mut second = spec;
        second.limit = Limit::Units(rng.pick([1, limit.div_ceil(2), 2 * limit]));
        let mut faults = if is_calm { Vec::new() } else { faults(rng, length, life, nodes.len()) };
        if changes {
            faults.push((rng.below(length), LayersFault::Change { within: length / 4 + 1 }));
        }
        Self {
            seed,
            rules: vec![rule],
            limiters: vec![0],
            most_nodes,
            beat: 0,
            requests,
            largest_cost,
            outages: if is_calm { Vec::new() } else { outages(rng, length, &nodes, false) },
            nodes,
            faults,
            changed: changes.then_some((0, second)),
            is_even: false,
            lost_percent: if is_calm { 0 } else { rng.pick([0, 2, 10]) },
            late_percent: if is_calm { 0 } else { rng.pick([0, 2, 10]) },
            has_slots: false,
            repeats_denials: rng.chance(50),
            swept_percent: rng.pick([0, 20, 100]),
        }
    }
}

fn jobs(
    rng: &mut Rng,
    nodes: &[NodePlan],
    (pause, length): (u64, u64),
    (longest_work, largest_cost): (u64, u64),
) -> Vec<PlannedRequest> {
    let together_percent = rng.pick([0, 10, 50]);
    let repeated_percent = rng.pick([0, 20]);
    let mut all = Vec::new();
    for (node, lives) in nodes.iter().enumerate() {
        let ends = lives.end.map_or(length, |(ends, _)| ends.min(length));
        let mut at = lives.joins;
        while at < ends {
            for _ in 0..if rng.chance(together_percent) { 3 } else { 1 } {
                let job = Job {
                    works: rng.below(longest_work) + 1,
                    renews: rng.chance(80),
                    returns: if rng.chance(repeated_percent) { 2 } else { 1 },
                    forgets: rng.chance(5),
                };
                let parts = vec![(0, rng.between(1, largest_cost))];
                all.push(PlannedRequest { at, node, parts, kind: RequestKind::Hold(job) });
            }
            at += rng.below(2 * pause) + 1;
        }
    }
    all.sort_by_key(|request| request.at);
    all
}

fn faults(rng: &mut Rng, length: u64, life: u64, nodes: usize) -> Vec<(u64, LayersFault)> {
    let mut all = Vec::new();
    for _ in 0..rng.between(0, 10) {
        let node = rng.below(nodes as u64) as usize;
        let time = rng.between(1, 3 * life);
        let life = life.cast_signed();
        let by = rng.pick([-3_600_000, -2 * life, -life / 2, -1, life / 2, 3_600_000]);
        let fault = match rng.below(5) {
            0 | 1 => LayersFault::Sleep { node, time },
            2 => LayersFault::NodeStep { node, by },
            _ => LayersFault::StoreStep { by },
        };
        all.push((rng.below(length), fault));
    }
    if rng.chance(40) {
        let at = rng.below(length);
        all.push((at.saturating_sub(rng.below(2 * life)), LayersFault::Copy));
        all.push((at, LayersFault::Loss { to_copy: rng.chance(70) }));
    }
    all
}
