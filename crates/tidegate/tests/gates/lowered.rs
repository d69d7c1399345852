//! Limits that fall and rise again: no caller waits longer than one new window, and nothing is forgotten.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use crate::packed::{TODAY_US, TestClock};
use testkit::traffic::Rng;
use tidegate::{
    AlgorithmKind, Clock, Decision, Descriptor, Gate, Micros, Policy, RuleSpec, Spec, Timestamp,
};

const MINUTE: Duration = Duration::from_secs(60);
const MINUTE_US: u64 = 60_000_000;
const KEYS: [&[&str]; 2] = [&[], &["user"]];

/// A clock that may step back, under which states are not packed.
#[derive(Clone)]
struct Stepping(Arc<AtomicU64>);

impl Clock for Stepping {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(SeqCst))
    }
}

/// A gate with one rule, and its time.
struct Alone<C> {
    gate: Gate<C>,
    rule: RuleSpec,
    set: Box<dyn Fn(u64)>,
    at_us: u64,
}

fn packed(rule: &RuleSpec) -> Alone<TestClock> {
    let clock = TestClock::at(TODAY_US);
    let gate = Gate::with_clock(Policy::new(vec![rule.clone()]).unwrap(), clock.clone());
    Alone { gate, rule: rule.clone(), set: Box::new(move |us| clock.set(us)), at_us: TODAY_US }
}

fn whole(rule: &RuleSpec) -> Alone<Stepping> {
    let clock = Stepping(Arc::new(AtomicU64::new(TODAY_US)));
    let gate = Gate::with_clock(Policy::new(vec![rule.clone()]).unwrap(), clock.clone());
    let set = Box::new(move |us| clock.0.store(us, SeqCst));
    Alone { gate, rule: rule.clone(), set, at_us: TODAY_US }
}

impl<C: Clock> Alone<C> {
    fn pass(&mut self, us: u64) {
        self.at_us += us;
        (self.set)(self.at_us);
    }

    fn ask(&self, cost: u64) -> Decision {
        let entries = [("user", "ada")];
        let answer = self.gate.check(Descriptor::new(&entries).cost(cost));
        *answer.matched()[0].decision()
    }

    fn limit(&mut self, limit: u64) {
        self.put(Spec::new(self.rule.spec.algorithm, limit, MINUTE));
    }

    fn put(&mut self, spec: Spec) {
        self.rule.spec = spec;
        self.gate.replace(Policy::new(vec![self.rule.clone()]).unwrap()).unwrap();
    }
}

/// Every algorithm whose units leave by themselves.
fn algorithms() -> impl Iterator<Item = AlgorithmKind> {
    AlgorithmKind::ALL.iter().copied().filter(|kind| *kind != AlgorithmKind::Concurrency)
}

/// The longest wait for a unit because of a change: a window, or in a counter as long as under a full new limit.
fn longest_us(algorithm: AlgorithmKind, limit: u64) -> u64 {
    MINUTE_US + if algorithm == AlgorithmKind::SlidingCounter { MINUTE_US / limit } else { 0 }
}

fn rule(algorithm: AlgorithmKind, key: &[&str], limit: u64) -> RuleSpec {
    RuleSpec::new("r", Spec::new(algorithm, limit, MINUTE)).key(key.iter().copied())
}

fn wait_us(decision: &Decision) -> u64 {
    decision.retry_after_micros().map_or(u64::MAX, Micros::as_micros)
}

fn waits_one_window<C: Clock>(mut one: Alone<C>) {
    let kind = one.rule.spec.algorithm;
    assert!(one.ask(2_600).is_allowed());
    one.limit(60);
    let wait = wait_us(&one.ask(1));
    assert!((1..=longest_us(kind, 60)).contains(&wait), "{kind}: {wait} us");
    one.pass(wait - 1);
    assert!(!one.ask(1).is_allowed(), "{kind}: not a microsecond sooner");
    one.pass(1);
    assert!(one.ask(1).is_allowed(), "{kind}: the wait was true");
}

#[test]
fn the_43_minutes_after_a_limit_of_10_000_became_one_of_60() {
    for algorithm in algorithms() {
        for key in KEYS {
            waits_one_window(packed(&rule(algorithm, key, 10_000)));
            waits_one_window(whole(&rule(algorithm, key, 10_000)));
        }
    }
}

/// A sum of limits that fall one after another leaves no longer wait than the last of them.
#[test]
fn a_limit_that_falls_in_steps_makes_nobody_wait_for_each_step() {
    for algorithm in algorithms() {
        for key in KEYS {
            let mut one = packed(&rule(algorithm, key, 10_000));
            assert!(one.ask(10_000).is_allowed());
            for limit in [6_000, 5_000, 0, 300, 60, 50] {
                one.limit(limit);
            }
            let wait = wait_us(&one.ask(1));
            assert!(wait <= longest_us(algorithm, 50), "{algorithm}: {wait} us");
        }
    }
}

/// The wait of a caller that owes is not because of the change.
#[test]
fn a_debt_is_waited_for_whatever_changes() {
    for algorithm in [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket] {
        let mut spec = rule(algorithm, &["user"], 100);
        spec.usage = tidegate::Usage::Reported;
        let mut one = packed(&spec);
        let _ = one.ask(600);
        for limit in [90, 80, 120] {
            one.limit(limit);
            let wait = wait_us(&one.ask(0));
            assert!(wait >= (600 - limit) * MINUTE_US / limit, "{algorithm} at {limit}: {wait} us");
        }
    }
}

/// Units for which a lower limit makes no caller wait are still used when the limit rises again.
#[test]
fn a_limit_that_falls_and_rises_gives_no_free_units() {
    for algorithm in
        [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket, AlgorithmKind::LeakyQueue]
    {
        for key in KEYS {
            let mut one = packed(&rule(algorithm, key, 10_000));
            assert!(one.ask(10_000).is_allowed());
            one.limit(60);
            one.limit(10_000);
            assert!(one.ask(1).remaining <= 1, "{algorithm}: at once");
            one.limit(60);
            one.pass(MINUTE_US);
            assert!(one.ask(1).is_allowed());
            one.limit(10_000);
            // In a minute at 60 there drained 60 units, and a unit was taken.
            let left = one.ask(1).remaining;
            assert!(left <= 60, "{algorithm}: {left} after a minute");
        }
    }
}

/// For any sequence of limits, a window admits no more than the largest allows, and no wait is longer than a window.
#[test]
fn limits_that_fall_and_rise_at_random_pass_no_bound_and_make_nobody_wait_longer() {
    for algorithm in algorithms() {
        for seed in 0..10 {
            let (mut rng, mut got) = (Rng::new(seed), VecDeque::new());
            let key = rng.pick(KEYS);
            let mut one = packed(&rule(algorithm, key, 1_000));
            for _ in 0..200 {
                one.pass(rng.pick([0, 1, 1_000, 500_000, 20_000_000, 61_000_000]));
                if rng.chance(25) {
                    one.limit(rng.pick([1, 7, 60, 60, 300, 1_000]));
                }
                let cost = if rng.chance(50) { 1 } else { one.ask(0).remaining.max(1) };
                let answer = one.ask(cost);
                if answer.is_allowed() {
                    got.push_back((one.at_us, cost));
                }
                let wait = wait_us(&one.ask(1));
                let most = if one.ask(0).limit > 0 { MINUTE_US } else { u64::MAX };
                let own = MINUTE_US / one.ask(0).limit.max(1) + 1;
                let is_window = algorithm == AlgorithmKind::SlidingWindow;
                let own = if is_window { MINUTE_US / 10 } else { own };
                assert!(answer.is_allowed() || wait <= most + own, "{algorithm} {seed}: {wait} us");
                while got.front().is_some_and(|(at, _)| at + MINUTE_US <= one.at_us) {
                    got.pop_front();
                }
                let inside: u64 = got.iter().map(|(_, cost)| cost).sum();
                assert!(inside <= 2_001, "{algorithm} {seed}: {inside} in a minute");
            }
        }
    }
}
