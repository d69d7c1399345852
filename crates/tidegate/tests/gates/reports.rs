//! The limit that is reported among several, and the longest waits.

use std::time::Duration;
use tidegate::{
    AlgorithmKind, Answer, Descriptor, Gate, Policy, Request, RuleSpec, Spec, Timestamp,
};

fn gate(rules: impl IntoIterator<Item = RuleSpec>) -> Gate<Timestamp> {
    Gate::with_clock(
        Policy::new(rules.into_iter().collect()).unwrap(),
        Timestamp::from_micros(1_700_000_000_000_000),
    )
}

fn log(name: &str, limit: u64, seconds: u64) -> RuleSpec {
    RuleSpec::new(name, Spec::new(AlgorithmKind::SlidingLog, limit, Duration::from_secs(seconds)))
}

fn ask(gate: &Gate<Timestamp>, cost: u64) -> Answer<'_> {
    gate.check(&Request::new("default", &[Descriptor::new(&[]).cost(cost)]))
}

fn reported(answer: &Answer<'_>) -> String {
    answer.reported().unwrap().rule().name().to_owned()
}

#[test]
fn when_admitted_the_rule_with_least_remaining_is_reported() {
    let gate = gate([log("wide", 9, 60), log("narrow", 4, 60), log("middle", 6, 60)]);
    let answer = ask(&gate, 1);
    assert_eq!(reported(&answer), "narrow");
    assert_eq!(answer.reported().unwrap().decision().remaining, 3);
}

#[test]
fn when_denied_the_denying_rule_with_the_longest_wait_is_reported() {
    let gate = gate([log("short", 2, 10), log("long", 2, 60), log("wide", 9, 600)]);
    assert!(ask(&gate, 2).is_allowed());
    let answer = ask(&gate, 1);
    assert_eq!(reported(&answer), "long", "`wide` waits longest for its reset, but denies nothing");
    assert_eq!(answer.retry_after(), Some(Duration::from_secs(60)));
    assert_eq!(answer.reset_after(), Duration::from_secs(600), "the longest of all");
}

#[test]
fn never_is_the_longest_wait() {
    let gate = gate([log("long", 9, 86_400), log("never", 2, 1)]);
    assert!(ask(&gate, 2).is_allowed());
    let answer = ask(&gate, 8);
    assert_eq!(reported(&answer), "never");
    assert!(answer.is_never() && answer.retry_after().is_none());
}

#[test]
fn ties_go_to_the_rule_that_is_first_in_the_file() {
    let gate = gate([log("first", 3, 60), log("second", 3, 60), log("third", 3, 60)]);
    for _ in 0..3 {
        assert_eq!(reported(&ask(&gate, 1)), "first");
    }
    assert_eq!(reported(&ask(&gate, 1)), "first", "denied");
    assert_eq!(reported(&ask(&gate, 9)), "first", "never");
}

/// With any order of descriptors, the order of the file decides.
#[test]
fn ties_between_descriptors_go_to_the_rule_that_is_first_in_the_file() {
    let gate = gate([log("of-a", 3, 60).when("a", "1"), log("of-b", 3, 60).when("b", "1")]);
    let (a, b) = (Descriptor::new(&[("a", "1")]), Descriptor::new(&[("b", "1")]));
    for order in [[a, b], [b, a]] {
        let answer = gate.check(&Request::new("default", &order));
        assert_eq!(reported(&answer), "of-a", "{order:?}");
    }
}

#[test]
fn the_delay_is_the_longest_of_all_queues() {
    let queue = |name, limit| {
        RuleSpec::new(name, Spec::new(AlgorithmKind::LeakyQueue, limit, Duration::from_secs(60)))
    };
    let gate = gate([queue("fast", 60), queue("slow", 20), log("log", 99, 60)]);
    let delays: Vec<_> = (0..3).map(|_| ask(&gate, 1).delay()).collect();
    assert_eq!(delays, [0, 3, 6].map(Duration::from_secs));
    let refused = ask(&gate, 20);
    assert!(!refused.is_allowed() && refused.delay().is_zero(), "nothing is held that is refused");
}

#[test]
fn the_values_of_every_rule_are_in_the_answer() {
    let gate = gate([log("one", 2, 60), log("two", 5, 60)]);
    assert!(ask(&gate, 2).is_allowed());
    let answer = ask(&gate, 1);
    let left: Vec<_> = answer.matched().iter().map(|m| m.decision().remaining).collect();
    assert_eq!(left, [0, 3]);
    let each: Vec<_> = answer.matched().iter().map(|m| m.decision().is_allowed()).collect();
    assert_eq!(each, [false, true]);
}
