//! A full table: a look tells what a request would be told, nothing is given back that nobody took, and
//! a place that is freed is found.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::packed::{TODAY_US, TestClock};
use tidegate::{
    AlgorithmKind, Answer, Clock, Descriptor, Gate, Micros, OnFull, Policy, Request, RuleSpec,
    Spec, Timestamp,
};

const MINUTE: Micros = Micros::from_secs(60);
const SECOND_US: u64 = 1_000_000;

fn per_minute(algorithm: AlgorithmKind, limit: u64) -> Spec {
    let mut spec = Spec::new(algorithm, limit, MINUTE);
    spec.capacity = (algorithm == AlgorithmKind::LeakyQueue).then_some(limit - 1);
    spec
}

/// Gates with room for one key in each of two rules, by a clock that packs states and by one that does
/// not.
fn gates(algorithm: AlgorithmKind, on_full: OnFull) -> [Box<dyn Ask>; 2] {
    let rules = || {
        let rule = |name: &str| RuleSpec::new(name, per_minute(algorithm, 5)).max_keys(1, on_full);
        Policy::new(vec![rule("user").key(["user"]), rule("ip").key(["ip"])]).unwrap()
    };
    let (packs, keeps) = (TestClock::at(TODAY_US), Timestamp::from_micros(TODAY_US));
    [Box::new(Gate::with_clock(rules(), packs)), Box::new(Gate::with_clock(rules(), keeps))]
}

/// A gate, whatever its clock.
trait Ask {
    fn check(&self, entries: &[(&str, &str)], cost: u64) -> String;
    fn peek(&self, entries: &[(&str, &str)], cost: u64) -> String;
    fn refund(&self, entries: &[(&str, &str)], units: u64) -> bool;
    fn left(&self, entries: &[(&str, &str)]) -> u64;
}

/// What a caller is told, but for the figures that a charge changes.
fn told(answer: &Answer<'_>) -> String {
    let of = |m: &tidegate::Matched<'_>| {
        (m.rule().name().to_owned(), m.decision().outcome, m.is_overflow())
    };
    let all: Vec<_> = answer.matched().iter().map(of).collect();
    format!("{} {all:?}", answer.is_allowed())
}

impl<C: Clock> Ask for Gate<C> {
    fn check(&self, entries: &[(&str, &str)], cost: u64) -> String {
        let descriptors = [Descriptor::new(entries).cost(cost)];
        told(&Gate::check(self, &Request::new(Request::DEFAULT_DOMAIN, &descriptors)))
    }

    fn peek(&self, entries: &[(&str, &str)], cost: u64) -> String {
        let descriptors = [Descriptor::new(entries).cost(cost)];
        told(&Gate::peek(self, &Request::new(Request::DEFAULT_DOMAIN, &descriptors)))
    }

    fn refund(&self, entries: &[(&str, &str)], units: u64) -> bool {
        let descriptors = [Descriptor::new(entries).cost(units)];
        Gate::refund(self, &Request::new(Request::DEFAULT_DOMAIN, &descriptors)).is_overflow()
    }

    fn left(&self, entries: &[(&str, &str)]) -> u64 {
        let descriptors = [Descriptor::new(entries)];
        let answer = Gate::peek(self, &Request::new(Request::DEFAULT_DOMAIN, &descriptors));
        answer.matched().iter().map(|m| m.decision().remaining).min().unwrap()
    }
}

const FIRST: [(&str, &str); 2] = [("user", "a"), ("ip", "1")];
const BEYOND: [(&str, &str); 2] = [("user", "b"), ("ip", "2")];

#[test]
fn a_look_tells_what_a_check_will_tell() {
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        for on_full in [OnFull::Share, OnFull::Refuse] {
            for gate in gates(algorithm, on_full) {
                gate.check(&FIRST, 1);
                // One limiter or two; those who have room, those who have none, and one of each.
                let mixed = [FIRST[0], BEYOND[1]];
                let requests: [&[_]; 7] =
                    [&BEYOND, &FIRST, &mixed, &BEYOND[..1], &FIRST[..1], &BEYOND[1..], &mixed];
                for request in requests {
                    for cost in [0, 2, 6, 1] {
                        let looked = gate.peek(request, cost);
                        assert_eq!(looked, gate.peek(request, cost), "a look changes nothing");
                        let found = gate.check(request, cost);
                        assert_eq!(
                            looked, found,
                            "{algorithm}, {on_full:?}: {request:?} for {cost}"
                        );
                    }
                }
            }
        }
    }
}

/// Nobody knows who took what of the shared limiter: one who took nothing there, or whose units have
/// left long ago, would give the others more than the limit.
#[test]
fn a_refund_of_a_key_without_room_gives_nobody_a_credit() {
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        for gate in gates(algorithm, OnFull::Share) {
            gate.check(&FIRST, 1);
            gate.check(&BEYOND, 4);
            let strangers = [("user", "never came"), ("ip", "neither")];
            for entries in [&strangers[..], &strangers[..1], &BEYOND[..], &BEYOND[1..]] {
                assert!(gate.refund(entries, 3), "{algorithm}: it says that there is no room");
                assert_eq!(gate.left(&BEYOND), 1, "{algorithm}");
            }
            assert!(!gate.refund(&FIRST, 1), "who has a limiter gets it back");
            assert_eq!(gate.left(&FIRST), 5, "{algorithm}");
        }
    }
}

/// Of a full table one limiter after another is idle; whoever comes looks at a few, and goes
/// on where the one before ended.
#[test]
fn a_place_that_is_free_is_found_within_a_round() {
    const KEYS: u64 = 3_000;
    for algorithm in [AlgorithmKind::TokenBucket, AlgorithmKind::SlidingLog] {
        let clock = TestClock::at(TODAY_US);
        let rule = RuleSpec::new("r", per_minute(algorithm, 1)).key(["user"]);
        let rule = rule.max_keys(KEYS as usize, OnFull::Refuse);
        let gate = Gate::with_clock(Policy::new(vec![rule]).unwrap(), clock.clone());
        let is_admitted = |user: &str| {
            let entries = [("user", user)];
            let descriptors = [Descriptor::new(&entries)];
            gate.admits(&Request::new(Request::DEFAULT_DOMAIN, &descriptors))
        };
        // The first is idle a second before all others.
        assert!(is_admitted("first"));
        clock.pass(SECOND_US);
        (1..KEYS).for_each(|n| assert!(is_admitted(&n.to_string()), "{algorithm}"));
        clock.pass(59 * SECOND_US);
        assert_eq!(gate.keys() as u64, KEYS);
        let tries = (0..KEYS).position(|n| is_admitted(&format!("new {n}")));
        // 32 limiters are looked at for each, of one table, and as many more after the answer.
        assert!(tries.is_some_and(|tries| tries as u64 <= KEYS / 32), "{algorithm}: {tries:?}");
    }
}
