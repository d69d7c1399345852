//! A simulator of the layers that ship, over one store that fails: nodes, callers and messages in virtual time.
//!
//! Each node is [`tower_over`](super::tower_over) a link to the store. One seed is one run, and the same run on every
//! machine. `TIDEGATE_SIM_SEEDS` is the number of seeds, `TIDEGATE_SIM_FROM` the first seed.

mod check;
mod history;
mod link;
mod plan;
mod run;
mod sent;
mod store;
mod world;

use plan::LayersPlan;

use crate::lease::sim::{Sums, seeds, sum};

/// The seeds of an ordinary test, and of a long one.
const SAMPLE: u64 = 30;
const LONG_SAMPLE: u64 = 2_000;

/// Runs a seed, with leases and without, and checks both.
fn run_seed(seed: u64) -> Result<Sums, String> {
    let plan = LayersPlan::of_seed(seed);
    let exact = plan.exact();
    let reference = run::run(&exact);
    check::all(&exact, &reference).map_err(|error| format!("without leases: {error}"))?;
    let history = run::run(&plan);
    let mut sums = check::all(&plan, &history)?;
    check::below(&plan, &history, &reference, &mut sums)?;
    Ok(sums)
}

/// A sample of seeds must also reach every case that they check: a simulator in which nothing happens finds nothing.
#[test]
fn no_seed_passes_a_bound_or_loses_a_unit_without_a_cause() {
    let sum = sum(seeds(SAMPLE, LONG_SAMPLE), run_seed, |seed| LayersPlan::of_seed(seed).rules);
    println!("{sum:#?}");
    if sum.get("runs") < SAMPLE {
        return;
    }
    sum.assert_above(3, &["by store", "by lease", "here", "open"]);
    sum.assert_above(3, &["undone", "gone", "settled", "more", "returned", "late", "lost"]);
    sum.assert_above(3, &["refused", "denied again", "crashed", "resets"]);
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
