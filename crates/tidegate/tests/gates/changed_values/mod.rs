//! Changes of a rule's values in memory, of limiters and at gates: rules and overrides that are amended, policies that
//! are replaced, plans, and values that requests supply. Behaviours of every gate are in
//! `tests/conformance/changed_values`.

mod amended;
mod amended_walk;
mod limiter_plans;
mod limiter_plans_in_bounds;
mod limiters;
mod lowered;
mod models;
mod plans;
mod plans_amended;
mod plans_walk;
mod replaced;
mod replaced_walk;

use std::panic::{AssertUnwindSafe, catch_unwind};

use testkit::model;
use testkit::traffic::{self, Rng};
use tidegate::{AlgorithmKind, Clock, Gate, RuleSpec, Spec};

use crate::asks::{DAY, admits, ask, left, policy};
use crate::packed::{TODAY_US, TestClock};

/// Packed times reach nine years.
const EIGHT_YEARS_US: u64 = 8 * 366 * 86_400_000_000;

/// A gate by a still clock, under which nothing flows back.
type Still = Gate<TestClock>;

/// Values that admit `limit` units immediately.
fn per_day(algorithm: AlgorithmKind, limit: u64) -> Spec {
    let mut spec = Spec::new(algorithm, limit, DAY);
    spec.capacity = (algorithm == AlgorithmKind::LeakyQueue && limit > 0).then(|| limit - 1);
    spec
}

fn log(limit: u64) -> Spec {
    per_day(AlgorithmKind::SlidingLog, limit)
}

fn still(rules: impl IntoIterator<Item = RuleSpec>) -> Still {
    Gate::with_clock(policy(rules), TestClock::at(TODAY_US))
}

fn amend<C: Clock>(gate: &Gate<C>, rule: &str, spec: Spec) {
    gate.amend("default", rule, spec).unwrap();
}

/// Takes one walk for each of so many seeds: `begin` makes it, and it takes a step at each time of a random trace.
fn over_traces<W>(
    seeds: u64,
    horizon_us: u64,
    begin: impl Fn(Rng, TestClock) -> W,
    step: impl Fn(&mut W, u64, u64),
) {
    for seed in 0..seeds {
        let mut rng = Rng::new(seed);
        let algorithm = rng.pick(model::AlgorithmKind::ALL);
        let policy = traffic::policy(&mut rng, algorithm);
        let trace = traffic::trace(&mut rng, &policy, 120);
        let begin_us = trace[0].0;
        let clock = TestClock::at(begin_us);
        let mut walk = begin(rng, clock.clone());
        for (at_us, cost) in trace {
            if at_us > begin_us.saturating_add(horizon_us) {
                break;
            }
            clock.set(at_us);
            let took = AssertUnwindSafe(|| step(&mut walk, clock.now_us(), cost));
            assert!(catch_unwind(took).is_ok(), "seed {seed}, at {at_us}");
        }
    }
}
