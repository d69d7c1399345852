//! Limits of a rule, a plan, an override or a request that fall and rise again: no caller waits longer than one new
//! window, and a caller who alternates between values is admitted no more than the largest values allow.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::policy;
use crate::packed::{TODAY_US, TestClock};
use testkit::traffic::Rng;
use tidegate::{
    AlgorithmKind, Decision, Descriptor, Gate, Limit, Micros, OverrideSpec, RequestLimit, Rule,
    RuleSpec, Setup, Spec,
};

const MINUTE_US: u64 = 60_000_000;

/// A gate with one rule for each user, whose values come from everywhere, and its time.
struct Alone {
    gate: Gate<TestClock>,
    rule: RuleSpec,
    plan: Arc<Mutex<Option<Rule>>>,
    clock: TestClock,
}

impl Alone {
    fn new(rule: &RuleSpec) -> Self {
        let plan = Arc::<Mutex<Option<Rule>>>::default();
        let (known, clock) = (Arc::clone(&plan), TestClock::at(TODAY_US));
        let setup = Setup::new(policy([rule.clone()]));
        let setup = setup.plans("default", "r", move |_| known.lock().unwrap().clone()).unwrap();
        Self { gate: Gate::with_clock(setup, clock.clone()), rule: rule.clone(), plan, clock }
    }

    fn ask(&self, cost: u64) -> Decision {
        self.decide(None, cost, true)
    }

    fn decide(&self, from_request: Option<&RequestLimit>, cost: u64, takes: bool) -> Decision {
        let entries = [("user", "ada")];
        let descriptor = Descriptor::new(&entries).cost(cost);
        let descriptor =
            from_request.map_or(descriptor, |from_request| descriptor.limit(from_request));
        let answer = if takes { self.gate.check(descriptor) } else { self.gate.peek(descriptor) };
        *answer.matched()[0].decision()
    }

    fn put(&self, rule: RuleSpec) {
        self.gate.replace(policy([rule])).unwrap();
    }

    fn plan(&self, limit: u64) {
        let spec = values(self.rule.spec.algorithm, limit);
        *self.plan.lock().unwrap() = Some(Rule::new(spec).unwrap());
    }
}

fn values(algorithm: AlgorithmKind, limit: u64) -> Spec {
    Spec::new(algorithm, limit, Duration::from_micros(MINUTE_US))
}

fn rule(algorithm: AlgorithmKind, limit: u64) -> RuleSpec {
    RuleSpec::new("r", values(algorithm, limit)).key(["user"])
}

/// Every algorithm whose units leave by themselves.
fn algorithms() -> impl Iterator<Item = AlgorithmKind> {
    AlgorithmKind::ALL.iter().copied().filter(|kind| *kind != AlgorithmKind::Concurrency)
}

/// Uses units that are too many after the change: a unit then waits for a window at most, or in a counter as long as
/// under a full new limit.
fn falls(rule: &RuleSpec, what: &str, change: impl FnOnce(&Alone)) {
    let algorithm = rule.spec.algorithm;
    let one = Alone::new(rule);
    if what.contains("plan") {
        one.plan(10_000);
    }
    assert!(one.ask(2_600).is_allowed());
    change(&one);
    let decision = one.ask(1);
    let wait_us = decision.retry_after_micros().map_or(u64::MAX, Micros::as_micros);
    let is_counter = algorithm == AlgorithmKind::SlidingCounter;
    let longest_us = MINUTE_US + if is_counter { MINUTE_US / decision.limit } else { 0 };
    assert!((1..=longest_us).contains(&wait_us), "{algorithm}, {what}: {wait_us} us");
    one.clock.pass(wait_us - 1);
    assert!(!one.ask(1).is_allowed(), "{algorithm}, {what}: not a microsecond sooner");
    one.clock.pass(1);
    assert!(one.ask(1).is_allowed(), "{algorithm}, {what}: the wait was true");
}

#[test]
fn the_43_minutes_after_a_limit_of_10_000_became_one_of_60() {
    for algorithm in algorithms() {
        let with = |limit, user, own| {
            let mut values = OverrideSpec::new("user", user);
            values.limit = Some(Limit::Units(own));
            rule(algorithm, limit).with_override(values)
        };
        let (high, low) = (rule(algorithm, 10_000), rule(algorithm, 60));
        for (what, before, after) in [
            ("another limit", high.clone(), low.clone()),
            ("an override comes", high, with(10_000, "ada", 60)),
            ("an override goes", with(60, "ada", 10_000), low.clone()),
            ("one comes after another", with(10_000, "bob", 5), with(10_000, "ada", 60)),
        ] {
            falls(&before, what, |one| one.put(after));
        }
        falls(&low, "another plan", |one| one.plan(60));
        falls(&low, "no plan any more", |one| *one.plan.lock().unwrap() = None);
    }
}

/// A caller who may choose between values asks under each of them in turn, for all available units: a window admits no
/// more than it would under the largest of them alone.
#[test]
fn a_caller_who_chooses_between_values_by_turns_is_admitted_no_more_than_the_largest_allow() {
    for algorithm in algorithms() {
        for seed in 0..20 {
            let (mut rng, mut got) = (Rng::new(seed), VecDeque::new());
            let one = Alone::new(&rule(algorithm, 1_000).limit_from_request());
            let (mut chooses, mut total) = (rng.pick([0, 30, 80]), 0);
            let from_us = one.clock.now_us();
            for _ in 0..400 {
                one.clock.pass(rng.pick([0, 1, 1_000, 500_000, 3_000_000, 20_000_000, 61_000_000]));
                if rng.chance(20) {
                    one.plan(rng.pick([1, 7, 60, 300, 1_000]));
                }
                if rng.chance(2) {
                    chooses = rng.pick([0, 30, 80]);
                }
                let from_request = rng.chance(chooses).then(|| {
                    let spec = values(algorithm, rng.pick([1, 60, 500, 1_000]));
                    RequestLimit::new(Rule::new(spec).unwrap())
                });
                let there = one.decide(from_request.as_ref(), 0, false).remaining;
                let cost = if rng.chance(30) { 1 } else { there.max(1) };
                if one.decide(from_request.as_ref(), cost, true).is_allowed() {
                    got.push_back((one.clock.now_us(), cost));
                    total += cost;
                }
                while got.front().is_some_and(|(at, _)| at + MINUTE_US <= one.clock.now_us()) {
                    got.pop_front();
                }
                let inside: u64 = got.iter().map(|(_, cost)| cost).sum();
                assert!(inside <= 2_001, "{algorithm} {seed}: {inside} in a minute");
                let passed = (one.clock.now_us() - from_us).div_ceil(MINUTE_US);
                let most = 1_001 + 1_000 * (passed + 1);
                assert!(total <= most, "{algorithm} {seed}: {total} in {passed} minutes");
            }
        }
    }
}
