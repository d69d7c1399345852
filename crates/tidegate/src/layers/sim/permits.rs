//! A simulator of jobs that hold permits of one store: the algorithm itself, and holders that follow its guide. Nodes,
//! messages and clocks fail as in the simulator of layers, and the store's clock steps.

mod check;
mod event_queue;
mod history;
mod holder;
mod network;
mod plan;
mod world;

use plan::PermitsPlan;
use world::PermitsWorld;

use super::{LONG_SAMPLE, SAMPLE, Sums, seeds, sum};

/// Runs one seed and checks its history.
fn run(seed: u64) -> Result<Sums, String> {
    let plan = PermitsPlan::of_seed(seed);
    let history = PermitsWorld::new(&plan).run();
    check::all(&plan, &history)
}

#[test]
fn no_seed_has_more_permits_out_than_the_limit_or_a_token_twice() {
    println!("{:#?}", sum(seeds(SAMPLE, LONG_SAMPLE), run, PermitsPlan::of_seed));
}

#[test]
fn the_seeds_meet_what_they_are_to_check_of_permits() {
    let sum = sum(0..SAMPLE, run, PermitsPlan::of_seed);
    let store = ["given", "refused", "returned", "in vain", "renewed", "ended", "forgotten"];
    sum.assert_above(15, &store);
    sum.assert_above(15, &["answered late", "out of time", "late", "written", "fenced"]);
    sum.assert_above(15, &["crashes", "losses"]);
    sum.assert_above(0, &["over"]);
}

#[test]
fn a_seed_of_permits_is_the_same_run_again() {
    for seed in 0..5 {
        let plan = PermitsPlan::of_seed(seed);
        assert_eq!(PermitsWorld::new(&plan).run(), PermitsWorld::new(&plan).run(), "seed {seed}");
    }
}
