//! A simulator of nodes that lease from one store, share its limits, or hold its permits: virtual time, a network that
//! delays, loses, repeats and reorders, and nodes and a store that fail. It runs the book itself over the algorithms
//! themselves, and checks what happened.
//!
//! All times are microseconds of the store's clock since the beginning of a run. One seed is one run, and the same run
//! on every machine. `TIDEGATE_SIM_SEEDS` is the number of seeds, `TIDEGATE_SIM_FROM` the first seed.

mod check;
mod clock;
mod event_queue;
mod history;
mod network;
mod node;
mod permits;
mod plan;
mod sim_limiter;
mod store;
mod world;

use std::collections::BTreeMap;
use std::env;
use std::fmt::Debug;
use std::ops::Range;

use plan::LeasesPlan;
use world::LeasesWorld;

/// The seeds of an ordinary test, and of a long one.
const SAMPLE: u64 = 100;
const LONG_SAMPLE: u64 = 2_000;

/// Runs one seed and checks its history.
fn run(seed: u64) -> Result<Sums, String> {
    let plan = LeasesPlan::of_seed(seed);
    let history = LeasesWorld::new(&plan).run();
    let exact = plan.exact();
    let reference = LeasesWorld::new(&exact).run();
    check::all(&exact, &reference, None).map_err(|error| format!("without leases: {error}"))?;
    check::all(&plan, &history, Some(&reference))
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

#[test]
fn no_seed_passes_a_bound_or_refuses_for_more_than_what_is_leased() {
    println!("{:#?}", sum(seeds(SAMPLE, LONG_SAMPLE), run, LeasesPlan::of_seed));
}

#[test]
fn the_seeds_meet_what_they_are_to_check() {
    let sum = sum(0..SAMPLE, run, LeasesPlan::of_seed);
    let get = |name| sum.get(name);
    assert!(get("leased") * 3 > get("exact"), "hardly anything is spent from leases: {sum:?}");
    assert!(get("admitted") * 10 > get("reference") * 9, "leases admit too little: {sum:?}");
    assert!(get("even") * 10 > get("possible") * 9, "even nodes admit too little: {sum:?}");
    let often =
        ["refused", "returned", "again", "put back", "losses", "changes", "crashes", "late"];
    sum.assert_above(15, &often);
    sum.assert_above(15, &["renewed", "excess", "local", "steps"]);
}

#[test]
fn a_seed_is_the_same_run_again() {
    for seed in 0..5 {
        let plan = LeasesPlan::of_seed(seed);
        assert_eq!(
            LeasesWorld::new(&plan).run().events,
            LeasesWorld::new(&plan).run().events,
            "seed {seed}"
        );
    }
}
