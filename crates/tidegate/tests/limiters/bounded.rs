//! The cap on keys has no effect on callers that have a limiter. `tests/conformance/caps.rs` tests that the
//! cap is hard.

use std::collections::HashMap;

use crate::packed::{TODAY_US, TestClock, Unsteady, answered, long, spec_of};
use std::time::Duration;
use testkit::model::{self, Model};
use testkit::traffic::Rng;
use tidegate::{AlgorithmKind, Clock, Decision, Descriptor, Gate, OnFull, Policy, RuleSpec, Spec};

const SECOND_US: u64 = 1_000_000;

fn gate<C: Clock>(spec: Spec, max_keys: usize, on_full: OnFull, clock: C) -> Gate<C> {
    let rule = RuleSpec::new("r", spec).key(["user"]).max_keys(max_keys, on_full);
    Gate::with_clock(Policy::new(vec![rule]).unwrap(), clock)
}

fn per_minute(algorithm: AlgorithmKind, limit: u64) -> Spec {
    Spec::new(algorithm, limit, Duration::from_secs(60))
}

/// The decision about one request of a user, who must have a limiter.
fn ask<C: Clock>(gate: &Gate<C>, user: &str, cost: u64) -> Decision {
    let answer = gate.check(Descriptor::new(&[("user", user)]).cost(cost));
    assert!(!answer.is_overflow(), "{user}");
    *answer.matched()[0].decision()
}

/// Callers come for some seconds and leave, in a table with room for few more than are ever in use:
/// most of them find the place of a caller who left, and every answer equals the answer of a limiter kept for ever.
///
/// Pitfall: a sweep dropped limiters that were not idle yet; in windows under a second it dropped all of them.
#[test]
fn dropping_limiters_that_are_as_good_as_new_changes_no_decision() {
    for algorithm in model::AlgorithmKind::ALL {
        for seed in 0..if long() { 50 } else { 5 } {
            come_and_leave(algorithm, seed, |clock| clock);
            come_and_leave(algorithm, seed, Unsteady);
        }
    }
}

fn come_and_leave<C: Clock>(
    algorithm: model::AlgorithmKind,
    seed: u64,
    read: impl Fn(TestClock) -> C,
) {
    let rng = &mut Rng::new(seed);
    let window_us = rng.pick([SECOND_US / 10, SECOND_US]);
    let policy = model::Policy::new(algorithm, rng.between(1, 6), window_us);
    let clock = TestClock::at(TODAY_US);
    let gate = gate(spec_of(&policy), 24, OnFull::Refuse, read(clock.clone()));
    let mut models: HashMap<u64, Model> = HashMap::new();
    for step in 0..6_000 {
        clock.pass(rng.below(window_us / 20));
        let (user, cost) = (step / 300 * 8 + rng.below(8), rng.between(0, 3));
        let model = models.entry(user).or_insert_with(|| Model::new(policy.clone()));
        let want = model.step(clock.now_us(), cost);
        let got = ask(&gate, &user.to_string(), cost);
        assert_eq!(answered(&got), want, "seed {seed}, step {step}: {policy:?}");
    }
    let keys = gate.counts().keys;
    assert!(models.len() > 100 && keys <= 24, "{algorithm:?}: {keys}");
}

/// In a full table one limiter after another is idle. Each new key looks at a few limiters, and starts where the
/// previous search ended.
#[test]
fn a_place_that_is_free_is_found_within_a_round() {
    const KEYS: u64 = 3_000;
    for algorithm in [AlgorithmKind::TokenBucket, AlgorithmKind::SlidingLog] {
        let clock = TestClock::at(TODAY_US);
        let rule = RuleSpec::new("r", per_minute(algorithm, 1)).key(["user"]);
        let rule = rule.max_keys(KEYS as usize, OnFull::Refuse);
        let gate = Gate::with_clock(Policy::new(vec![rule]).unwrap(), clock.clone());
        let is_admitted = |user: &str| gate.admits(Descriptor::new(&[("user", user)]));
        // The first is idle a second before all others.
        assert!(is_admitted("first"));
        clock.pass(SECOND_US);
        (1..KEYS).for_each(|n| assert!(is_admitted(&n.to_string()), "{algorithm}"));
        clock.pass(59 * SECOND_US);
        assert_eq!(gate.counts().keys as u64, KEYS);
        let tries = (0..KEYS).position(|n| is_admitted(&format!("new {n}")));
        // 32 limiters are looked at for each, of one table, and as many more after the answer.
        assert!(tries.is_some_and(|tries| tries as u64 <= KEYS / 32), "{algorithm}: {tries:?}");
    }
}
