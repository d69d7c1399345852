//! Eight threads at once on states packed into a word or two, and on those kept whole beside them: not
//! one unit over, and not one charged for what was refused.
//!
//! Where the clock stands still, what was admitted is counted to the unit, step of time by step of
//! time; where it runs, it is held to what the definitions allow over the whole time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::packed::{TODAY_US, TestClock, long, spec_of, together};
use testkit::model::{self, Model};
use testkit::traffic::Rng;
use tidegate::{
    AlgorithmKind, Clock, Descriptor, Gate, KeyedLimiter, Limiter, Micros, Policy, Request,
    RuleSpec, Spec, Timestamp,
};

const SECOND_US: u64 = 1_000_000;

fn rounds() -> u64 {
    if long() { 50 } else { 3 }
}

/// Rules of every algorithm that are kept in one word, in two (a large prime of units per second, or
/// more of them than a word can count), or whole.
fn policies() -> Vec<model::Policy> {
    let small = |algorithm| model::Policy::new(algorithm, 200, SECOND_US);
    let large = |algorithm| model::Policy {
        capacity: Some(200),
        ..model::Policy::new(algorithm, 999_999_937, 40_000_000 * SECOND_US / 2)
    };
    let bucket = |algorithm: &model::AlgorithmKind| algorithm.has_capacity();
    let all = model::AlgorithmKind::ALL;
    let first_request =
        model::Policy { anchor_first_request: true, ..small(model::AlgorithmKind::FixedWindow) };
    let part_full =
        model::Policy { initial: Some(100), ..small(model::AlgorithmKind::TokenBucket) };
    let two_words = all.into_iter().filter(bucket).map(large);
    all.into_iter().map(small).chain([first_request, part_full]).chain(two_words).collect()
}

/// Eight threads take all there is, then time passes, over and over: each time they get what the model
/// has at that instant. `admits` is asked for one unit; `figures` for one by the verb that tells them.
fn exact(policy: &model::Policy, clock: &TestClock, ask: impl Fn(bool) -> bool + Sync) {
    let mut model = Model::new(policy.clone());
    let rng = &mut Rng::new(policy.limit);
    for step in 0..12 * rounds() {
        let got = AtomicU64::new(0);
        together(8, |_, rng| {
            let mut refused = 0;
            while refused < 3 {
                let admitted = ask(rng.chance(50));
                got.fetch_add(u64::from(admitted), SeqCst);
                refused += u64::from(!admitted);
            }
        });
        let there = std::iter::repeat_with(|| model.step(clock.now_us(), 1).allowed);
        let want = there.take_while(|allowed| *allowed).count() as u64;
        assert_eq!(got.into_inner(), want, "step {step}: {policy:?}");
        clock.pass(rng.pick([1, 5_000, 40_000, 300_000, SECOND_US - 1, SECOND_US, 3 * SECOND_US]));
    }
}

#[test]
fn eight_threads_on_one_limiter_get_what_is_there_to_the_unit() {
    for policy in policies() {
        let clock = TestClock::at(TODAY_US);
        let limiter = Limiter::with_clock(spec_of(&policy), clock.clone()).unwrap();
        exact(&policy, &clock, |figures| match figures {
            true => limiter.check(1).is_allowed(),
            false => limiter.admits(1),
        });
    }
}

#[test]
fn eight_threads_on_one_key_among_others_get_what_is_there_to_the_unit() {
    for policy in policies().into_iter().filter(|policy| policy.initial.is_none()) {
        let clock = TestClock::at(TODAY_US);
        let limiter = KeyedLimiter::with_clock(spec_of(&policy), clock.clone()).unwrap();
        let others = AtomicU64::new(0);
        exact(&policy, &clock, |figures| {
            let other = others.fetch_add(1, SeqCst).to_le_bytes();
            assert!(limiter.admits(other, 1), "each of them comes once");
            match figures {
                true => limiter.check("one", 1).is_allowed(),
                false => limiter.admits("one", 1),
            }
        });
    }
}

/// What was given back while others asked is there again, once.
#[test]
fn what_every_thread_gives_back_is_all_there_again() {
    for policy in policies() {
        let clock = TestClock::at(TODAY_US);
        let alone = Limiter::with_clock(spec_of(&policy), clock.clone()).unwrap();
        let keyed = KeyedLimiter::with_clock(spec_of(&policy), clock).unwrap();
        let before = (alone.peek(1).remaining, keyed.peek("key", 1).remaining);
        together(8, |_, rng| {
            for _ in 0..200 * rounds() {
                let units = rng.between(1, 90);
                if alone.admits(units) {
                    let _ = alone.refund(units);
                }
                if keyed.admits("key", units) {
                    let _ = keyed.refund("key", units);
                }
            }
        });
        assert_eq!((alone.peek(1).remaining, keyed.peek("key", 1).remaining), before, "{policy:?}");
    }
}

/// The remaining units of each rule that a request meets, by the rule's name.
fn left(gate: &Gate<TestClock>, entries: &[(&str, &str)]) -> HashMap<String, u64> {
    let answer = gate.peek(&Request::new(Request::DEFAULT_DOMAIN, &[Descriptor::new(entries)]));
    let figures = |m: &tidegate::Matched<'_>| (m.rule().name().to_owned(), m.decision().remaining);
    answer.matched().iter().map(figures).collect()
}

/// One limit for all, one for each user, one for each address, new addresses all the time: the tables
/// grow while limiters of several are held at once.
fn three_rules(algorithms: [AlgorithmKind; 3]) {
    let rule = |name: &str, algorithm, limit| {
        RuleSpec::new(name, Spec::new(algorithm, limit, Micros::from_secs(3_600)))
    };
    let rules = vec![
        rule("all", algorithms[0], 2_000),
        rule("user", algorithms[1], 700).key(["user"]),
        rule("ip", algorithms[2], 20).key(["ip"]),
    ];
    let gate = Gate::with_clock(Policy::new(rules).unwrap(), TestClock::at(TODAY_US));
    let (users, ips) = (["ada", "bob", "eve", "kim"], 60);
    let before = left(&gate, &[("user", "ada"), ("ip", "0")]);
    let charged: Mutex<HashMap<(&str, String), u64>> = Mutex::default();
    together(8, |_, rng| {
        for _ in 0..300 {
            let (user, ip) = (rng.pick(users), rng.below(ips).to_string());
            let (entries, cost) = ([("ip", ip.as_str()), ("user", user)], rng.between(1, 3));
            let descriptors = [Descriptor::new(&entries).cost(cost)];
            let request = Request::new(Request::DEFAULT_DOMAIN, &descriptors);
            if gate.check(&request).is_allowed() {
                let mut charged = charged.lock().unwrap();
                for (name, key) in [("all", ""), ("user", user), ("ip", ip.as_str())] {
                    *charged.entry((name, key.to_owned())).or_default() += cost;
                }
            }
        }
    });
    let charged = charged.into_inner().unwrap();
    for user in users {
        for ip in (0..ips).map(|ip| ip.to_string()) {
            let after = left(&gate, &[("user", user), ("ip", ip.as_str())]);
            for (name, key) in [("all", ""), ("user", user), ("ip", ip.as_str())] {
                let charged = charged.get(&(name, key.to_owned())).copied().unwrap_or(0);
                assert_eq!(after[name], before[name] - charged, "{name} {key}: {algorithms:?}");
            }
        }
    }
    assert_eq!(gate.keys(), charged.len(), "a limiter for each that was charged, and for no other");
}

#[test]
fn nobody_is_charged_for_a_refusal_of_three_rules_at_once() {
    let all = AlgorithmKind::ALL;
    for round in 0..rounds() as usize {
        for (i, one) in all.iter().enumerate() {
            three_rules([*one; 3]);
            three_rules([*one, all[(i + 1 + round) % all.len()], all[(i + 3) % all.len()]]);
        }
    }
}

/// A clock that every reading moves on by up to 40 us, and never back.
#[derive(Clone)]
struct Running(TestClock);

impl Clock for Running {
    fn now(&self) -> Timestamp {
        self.0.pass(40);
        self.0.now()
    }

    fn never_steps_back(&self) -> bool {
        true
    }
}

/// The most that a rule may admit while its clock goes from the start of a window over `span_us`.
fn most(policy: &model::Policy, span_us: u64) -> u64 {
    let (windows, part) = (span_us / policy.window_us, span_us % policy.window_us);
    match policy.algorithm.has_capacity() {
        true => {
            policy.capacity() + 1 + windows * policy.limit + part * policy.limit / policy.window_us
        }
        false => (windows + 1) * policy.limit,
    }
}

/// Time passes while eight threads ask: their readings are overtaken again and again before they are
/// served, and the most that the rule allows over all of the time is never exceeded.
#[test]
fn a_clock_that_runs_admits_no_more_than_the_rule_allows() {
    const WINDOW_US: u64 = 4_000;
    for algorithm in model::AlgorithmKind::ALL {
        for round in 0..rounds() {
            let policy = model::Policy::new(algorithm, 20 + 10 * (round % 3), WINDOW_US);
            let clock = Running(TestClock::at(TODAY_US));
            let alone = Limiter::with_clock(spec_of(&policy), clock.clone()).unwrap();
            let keyed = KeyedLimiter::with_clock(spec_of(&policy), clock.clone()).unwrap();
            let admitted = [AtomicU64::new(0), AtomicU64::new(0)];
            together(8, |_, _| {
                for _ in 0..1_000 {
                    admitted[0].fetch_add(u64::from(alone.admits(1)), SeqCst);
                    admitted[1].fetch_add(u64::from(keyed.admits("key", 1)), SeqCst);
                }
            });
            let most = most(&policy, clock.0.now_us() - TODAY_US);
            for admitted in admitted {
                let admitted = admitted.into_inner();
                assert!(admitted <= most, "{admitted} of {most}: {policy:?}");
                assert!(admitted >= most / 3, "{admitted} of {most}: hardly any: {policy:?}");
            }
        }
    }
}

/// Many keys in one call are decided as one after another, in order, keys named twice included.
#[test]
fn check_many_decides_as_one_by_one_in_order() {
    for policy in policies().into_iter().filter(|policy| policy.initial.is_none()) {
        let clock = TestClock::at(TODAY_US);
        let policy = model::Policy { limit: 3, capacity: None, ..policy };
        let new = || KeyedLimiter::with_clock(spec_of(&policy), clock.clone()).unwrap();
        let (many, single) = (new(), new());
        let rng = &mut Rng::new(9);
        for _ in 0..200 {
            clock.pass(rng.below(SECOND_US / 2));
            let length = rng.pick([0, 1, 2, 15, 16, 17, 40, 100]);
            let keys: Vec<_> = (0..length).map(|_| rng.skewed(200).to_le_bytes()).collect();
            let one_by_one: Vec<_> = keys.iter().map(|key| single.admits(key, 1)).collect();
            assert_eq!(many.check_many(&keys), one_by_one, "{policy:?}");
        }
    }
}
