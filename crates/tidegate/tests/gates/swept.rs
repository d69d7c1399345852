//! Reservations that are settled after the state of their key was dropped as idle, in tables that have a rule for each
//! key. Such a state forgets under which rules units were taken, and all of them have drained or left by then.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::packed::{TODAY_US, TestClock};
use tidegate::{
    AlgorithmKind, Clock, Descriptor, Gate, KeyedLimiter, Limit, OnFull, OverrideSpec, Policy,
    Rule, RuleSpec, Setup, Spec,
};

const SECOND_US: u64 = 1_000_000;
const ADA: &[(&str, &str)] = &[("user", "ada")];

fn spec(algorithm: AlgorithmKind, limit: u64) -> Spec {
    Spec::new(algorithm, limit, Duration::from_secs(60))
}

fn fast() -> Spec {
    spec(AlgorithmKind::TokenBucket, 6_000)
}

/// A rule whose keys have their own values once a first override was added.
fn rule(spec: Spec) -> RuleSpec {
    RuleSpec::new("r", spec).key(["user"])
}

fn vip() -> OverrideSpec {
    let mut vip = OverrideSpec::new("user", "vip");
    vip.limit = Some(Limit::Units(7));
    vip
}

/// The rules of a request: a second rule makes its step run over several limiters.
fn policy(rule: RuleSpec, several: bool) -> Policy {
    let wide = several.then(|| RuleSpec::new("wide", spec(AlgorithmKind::TokenBucket, 1_000_000)));
    Policy::new([rule].into_iter().chain(wide).collect()).unwrap()
}

fn admitted<C: Clock>(gate: &Gate<C>) -> u64 {
    let mut admitted = 0;
    while gate.check(Descriptor::new(ADA)).is_allowed() {
        admitted += 1;
    }
    admitted
}

#[test]
fn what_a_swept_state_took_under_another_rule_comes_back_as_nothing() {
    for (algorithm, several) in [
        (AlgorithmKind::TokenBucket, false),
        (AlgorithmKind::TokenBucket, true),
        (AlgorithmKind::FixedWindow, false),
        (AlgorithmKind::FixedWindow, true),
    ] {
        let clock = TestClock::at(TODAY_US);
        let gate = Gate::with_clock(policy(rule(fast()), several), clock.clone());
        gate.replace(policy(rule(fast()).with_override(vip()), several)).unwrap();
        let mut held = Vec::new();
        for _ in 0..5 {
            held.push(gate.hold(Descriptor::new(ADA).cost(100)).unwrap());
        }
        clock.set(TODAY_US + 6 * SECOND_US);
        for number in 0..10_000 {
            let user = number.to_string();
            assert!(gate.check(Descriptor::new(&[("user", user.as_str())])).is_allowed());
        }
        clock.set(TODAY_US + 8 * SECOND_US);
        let slow = rule(spec(algorithm, 60)).with_override(vip());
        gate.replace(policy(slow, several)).unwrap();
        let mut more = admitted(&gate);
        for charge in held {
            charge.settle(0);
            more += admitted(&gate);
        }
        assert_eq!(more, 60, "{algorithm}, several {several}");
    }
}

/// The values are the same as when the units were taken, and all has drained in between.
#[test]
fn what_a_swept_state_drained_under_a_plan_in_between_comes_back_as_nothing() {
    let clock = TestClock::at(TODAY_US);
    let mut slow = spec(AlgorithmKind::TokenBucket, 60);
    slow.capacity = Some(600);
    let slow = Rule::new(slow).unwrap();
    let plan = Arc::new(Mutex::new(slow.clone()));
    let known = Arc::clone(&plan);
    let rule = rule(fast()).max_keys(1, OnFull::Refuse);
    let setup = Setup::new(Policy::new(vec![rule]).unwrap());
    let setup = setup.plans("default", "r", move |_| Some(known.lock().unwrap().clone()));
    let gate = Gate::with_clock(setup.unwrap(), clock.clone());
    let charge = gate.hold(Descriptor::new(ADA).cost(600)).unwrap();
    *plan.lock().unwrap() = Rule::new(fast()).unwrap();
    assert!(gate.check(Descriptor::new(ADA)).is_allowed());
    clock.set(TODAY_US + 62 * SECOND_US);
    assert!(gate.check(Descriptor::new(&[("user", "bob")])).is_allowed(), "ada is swept");
    clock.set(TODAY_US + 64 * SECOND_US);
    *plan.lock().unwrap() = slow;
    assert_eq!(admitted(&gate), 600);
    charge.settle(0);
    assert_eq!(admitted(&gate), 0);
}

#[test]
fn a_reservation_of_a_swept_key_comes_back_as_nothing_under_a_slower_plan() {
    let clock = TestClock::at(TODAY_US);
    let plan = Arc::new(Mutex::new(Rule::new(fast()).unwrap()));
    let known = Arc::clone(&plan);
    let limiter = KeyedLimiter::with_clock(fast(), clock.clone()).unwrap();
    let limiter = limiter.with_max_keys(1, OnFull::Refuse);
    let limiter = limiter.with_plans(move |_| Some(known.lock().unwrap().clone()));
    let reservation = limiter.reserve("ada", 500).unwrap();
    clock.set(TODAY_US + 6 * SECOND_US);
    assert!(limiter.check("bob", 1).is_allowed(), "ada is swept");
    clock.set(TODAY_US + 8 * SECOND_US);
    *plan.lock().unwrap() = Rule::new(spec(AlgorithmKind::TokenBucket, 60)).unwrap();
    assert!(limiter.check("ada", 60).is_allowed());
    assert_eq!(limiter.settle("ada", reservation, 0).remaining, 0);
}
