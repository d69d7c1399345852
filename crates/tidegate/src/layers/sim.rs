//! A simulator of the layers that ship, over one store that fails: nodes, callers and messages in virtual time.
//!
//! A seed makes a `plan`: rules, nodes, requests and faults. `run` plays it: each node (`run/node`) is
//! [`tower_over`](super::tower_over) a `link` to the store, which delays and loses messages. The link is a store
//! (`store`, `sent`) whose steps run in the `world` that all nodes share. The run leaves a `history`, and `check`
//! judges it. One seed is one run, and the same run on every machine. `TIDEGATE_SIM_SEEDS` is the number of seeds,
//! `TIDEGATE_SIM_FROM` the first seed. `permits` is a simulator of its own, of permits that nodes hold.

mod check;
mod clock;
mod history;
mod link;
mod permits;
mod plan;
mod run;
mod sent;
mod store;
mod world;

use std::collections::BTreeMap;
use std::env;
use std::fmt::Debug;
use std::ops::Range;

use plan::LayersPlan;

/// The seeds of an ordinary test, and of a long one.
const SAMPLE: u64 = 100;
const LONG_SAMPLE: u64 = 2_000;

/// Runs a seed, with leases and without, and checks both.
fn run_seed(seed: u64) -> Result<Sums, String> {
    let plan = LayersPlan::of_seed(seed);
    // Without leases first: the run with leases is compared with it.
    let exact = plan.exact();
    let reference = run::run(&exact);
    check::all(&exact, &reference).map_err(|error| format!("without leases: {error}"))?;
    let history = run::run(&plan);
    let mut sums = check::all(&plan, &history)?;
    check::below(&plan, &history, &reference, &mut sums)?;
    Ok(sums)
}

fn setting(name: &str, otherwise: u64) -> u64 {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Sums of what happened in runs, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums(BTreeMap<&'static str, u64>);

impl Sums {
    pub(crate) fn add(&mut self, name: &'static str, more: u64) {
        *self.0.entry(name).or_default() += more;
    }

    pub(crate) fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Panics unless all of these happened more often than `least`: a simulator in which nothing happens finds nothing.
    pub(crate) fn assert_above(&self, least: u64, names: &[&str]) {
        for name in names {
            assert!(self.get(name) > least, "{name} hardly happens: {self:?}");
        }
    }
}

/// Runs seeds, and returns the sums of all. Panics at the first seed that fails, with its plan.
pub(crate) fn sum<P: Debug>(
    seeds: Range<u64>,
    run: impl Fn(u64) -> Result<Sums, String>,
    plan: impl Fn(u64) -> P,
) -> Sums {
    let mut sum = Sums::default();
    for seed in seeds {
        let sums = run(seed).unwrap_or_else(|error| {
            panic!(
                "seed {seed}: {error}\nagain: TIDEGATE_SIM_FROM={seed} TIDEGATE_SIM_SEEDS=1\n{:?}",
                plan(seed)
            )
        });
        sum.add("runs", 1);
        for (name, more) in sums.0 {
            sum.add(name, more);
        }
    }
    sum
}

/// The seeds that are asked for, or a sample for an ordinary test or a long one.
pub(crate) fn seeds(sample: u64, long_sample: u64) -> Range<u64> {
    let from = setting("TIDEGATE_SIM_FROM", 0);
    let sample = if testkit::threads::long() { long_sample } else { sample };
    from..from + setting("TIDEGATE_SIM_SEEDS", sample)
}

/// A sample of seeds must also reach every case that they check: a simulator in which nothing happens finds nothing.
#[test]
fn no_seed_passes_a_bound_or_loses_a_unit_without_a_cause() {
    let sum = sum(seeds(SAMPLE, LONG_SAMPLE), run_seed, |seed| {
        let plan = LayersPlan::of_seed(seed);
        (plan.rules, plan.nodes, plan.faults, plan.outages)
    });
    println!("{sum:#?}");
    if sum.get("runs") < SAMPLE {
        return;
    }
    sum.assert_above(3, &["by store", "by lease", "here", "open"]);
    sum.assert_above(3, &["undone", "gone", "settled", "more", "returned", "late", "lost"]);
    sum.assert_above(3, &["refused", "denied again", "crashed", "resets"]);
    sum.assert_above(3, &["losses", "changes", "steps", "counted"]);
    assert!(3 * sum.get("by lease") > sum.get("by store"), "hardly anything is leased: {sum:?}");
    let even = 10 * sum.get("even");
    assert!(even > 9 * sum.get("possible"), "even nodes admit too little: {sum:?}");
    let admitted = 20 * sum.get("admitted");
    assert!(admitted > 19 * sum.get("reference"), "leases admit too little: {sum:?}");
}

#[test]
fn a_seed_is_the_same_run_again() {
    for seed in 0..3 {
        let plan = LayersPlan::of_seed(seed);
        assert!(run::run(&plan) == run::run(&plan), "seed {seed}");
    }
}
