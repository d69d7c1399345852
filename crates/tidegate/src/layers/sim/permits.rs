//! Runs of the simulator whose requests are jobs that hold permits of one limiter, as the guide of `concurrency` asks
//! for, and write to a resource that checks tokens.

mod check;
mod plan;

use super::plan::LayersPlan;
use super::run::run;
use super::{LONG_SAMPLE, SAMPLE, Sums, seeds, sum};

/// Runs one seed and checks its history.
fn run_seed(seed: u64) -> Result<Sums, String> {
    let plan = LayersPlan::of_permits(seed);
    check::all(&plan, &run(&plan))
}

#[test]
fn no_seed_has_more_permits_out_than_the_limit_or_a_token_twice() {
    println!("{:#?}", sum(seeds(SAMPLE, LONG_SAMPLE), run_seed, LayersPlan::of_permits));
}

#[test]
fn the_seeds_meet_what_they_are_to_check_of_permits() {
    let sum = sum(0..SAMPLE, run_seed, LayersPlan::of_permits);
    let store = ["given", "refused", "returned", "in vain", "renewed", "ended", "forgotten"];
    sum.assert_above(15, &store);
    sum.assert_above(15, &["answered late", "out of time", "late", "written", "fenced"]);
    sum.assert_above(10, &["crashes", "losses"]);
    sum.assert_above(0, &["over"]);
}

#[test]
fn a_seed_of_permits_is_the_same_run_again() {
    for seed in 0..5 {
        let plan = LayersPlan::of_permits(seed);
        assert!(run(&plan) == run(&plan), "seed {seed}");
    }
}
