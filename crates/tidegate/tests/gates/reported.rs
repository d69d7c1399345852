//! Rules whose usage is reported afterwards: what they take, and what they answer, beside other rules too.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use tidegate::{
    AlgorithmKind, Answer, Ban, Descriptor, Gate, ManualClock, Micros, Mode, OnExcess, OnFull,
    Policy, Problem, Request, RuleSpec, RuleStatistics, Spec, Usage,
};

const HOUR: Micros = Micros::from_secs(3_600);
const ADA: &[(&str, &str)] = &[("user", "ada")];
const KIND: &[(&str, &str)] = &[("kind", "request")];

/// Tokens of each user, reported.
fn tokens(algorithm: AlgorithmKind, limit: u64) -> RuleSpec {
    RuleSpec::new("tokens", Spec::new(algorithm, limit, HOUR)).key(["user"]).usage(Usage::Reported)
}

/// Requests, counted before they run.
fn requests(limit: u64) -> RuleSpec {
    RuleSpec::new("requests", Spec::new(AlgorithmKind::SlidingLog, limit, HOUR))
        .when("kind", "request")
}

fn gate(rules: Vec<RuleSpec>) -> (Gate<ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    (Gate::with_clock(Policy::new(rules).unwrap(), clock.clone()), clock)
}

fn ask<'g>(gate: &'g Gate<ManualClock>, costs: &[(&[(&str, &str)], u64)]) -> Answer<'g> {
    let descriptors: Vec<_> =
        costs.iter().map(|(entries, cost)| Descriptor::new(entries).cost(*cost)).collect();
    gate.check(&Request::new("default", &descriptors))
}

/// What is left of the rule with this name.
fn left(gate: &Gate<ManualClock>, name: &str) -> u64 {
    let descriptors = [Descriptor::new(ADA), Descriptor::new(KIND)];
    let answer = gate.peek(&Request::new("default", &descriptors));
    let of_rule = answer.matched().into_iter().find(|matched| matched.rule().name() == name);
    of_rule.unwrap().decision().remaining
}

#[test]
fn the_fourth_report_of_300_of_1000_is_taken_and_the_next_look_is_refused() {
    for algorithm in AlgorithmKind::ALL.iter().filter(|one| **one != AlgorithmKind::LeakyQueue) {
        let (gate, clock) = gate(vec![tokens(*algorithm, 1_000)]);
        for taken in [300, 600, 900] {
            assert!(ask(&gate, &[(ADA, 0)]).is_allowed(), "{algorithm:?}");
            let report = ask(&gate, &[(ADA, 300)]);
            assert!(report.is_allowed(), "{algorithm:?}: {taken} of 1,000");
            assert_eq!(left(&gate, "tokens"), 1_000 - taken);
        }
        assert!(ask(&gate, &[(ADA, 0)]).is_allowed());
        let report = ask(&gate, &[(ADA, 300)]);
        assert!(!report.is_allowed() && report.matched()[0].is_report(), "{algorithm:?}");
        let look = ask(&gate, &[(ADA, 0)]);
        assert!(!look.is_allowed() && !look.matched()[0].is_report(), "{algorithm:?}");
        assert_eq!(look.retry_after(), report.retry_after(), "the same unit is waited for");
        // Looks take nothing, and the wait that was told is the least.
        let wait = look.retry_after().unwrap();
        clock.advance(Micros::from_micros(wait.as_micros() - 1));
        assert!(!ask(&gate, &[(ADA, 0)]).is_allowed(), "{algorithm:?}");
        clock.advance(Micros::from_micros(1));
        assert!(ask(&gate, &[(ADA, 0)]).is_allowed(), "{algorithm:?}");
    }
}

#[test]
fn a_report_that_reaches_the_limit_exactly_is_answered_that_nothing_is_left() {
    let (gate, _) = gate(vec![tokens(AlgorithmKind::SlidingLog, 10)]);
    assert!(ask(&gate, &[(ADA, 9)]).is_allowed());
    assert!(!ask(&gate, &[(ADA, 1)]).is_allowed());
    assert!(!ask(&gate, &[(ADA, 5)]).is_allowed(), "and taken beyond it all the same");
    let reset = gate.refund(&Request::new("default", &[Descriptor::new(ADA).cost(6)]));
    assert_eq!(reset.matched()[0].decision().remaining, 1, "9 of 15 are left of what was taken");
}

#[test]
fn a_cost_above_the_limit_is_taken_and_not_answered_never() {
    let (gate, _) = gate(vec![tokens(AlgorithmKind::TokenBucket, 10)]);
    let report = ask(&gate, &[(ADA, 25)]);
    // 15 are owed, and one more unit is waited for.
    let wait = Micros::from_micros(16 * HOUR.as_micros() / 10);
    assert_eq!((report.is_never(), report.retry_after()), (false, Some(wait)));
    assert!(!ask(&gate, &[(ADA, 0)]).is_allowed());
}

#[test]
fn a_report_beside_another_rule_is_taken_from_all_and_refused_by_none() {
    let (gate, _) = gate(vec![tokens(AlgorithmKind::SlidingWindow, 100), requests(2)]);
    let report = ask(&gate, &[(ADA, 10), (KIND, 5)]);
    let decisions: Vec<_> = report.matched().iter().map(|one| one.decision().verdict()).collect();
    assert!(!report.is_allowed(), "the other rule stands beyond its limit");
    assert!(decisions[0].is_allowed() && !decisions[1].is_allowed());
    assert_eq!((left(&gate, "tokens"), left(&gate, "requests")), (90, 0));
    // Where it takes nothing it has nothing to say.
    assert!(ask(&gate, &[(ADA, 10), (KIND, 0)]).is_allowed());
    assert_eq!(left(&gate, "tokens"), 80);
}

#[test]
fn a_look_beside_another_rule_charges_that_one_only_if_the_reported_one_would_admit() {
    let (gate, _) = gate(vec![tokens(AlgorithmKind::TokenBucket, 100), requests(2)]);
    let look = [(ADA, 0), (KIND, 1)];
    assert!(ask(&gate, &look).is_allowed());
    assert_eq!((left(&gate, "tokens"), left(&gate, "requests")), (100, 1));
    assert!(!ask(&gate, &[(ADA, 100), (KIND, 0)]).is_allowed());
    assert!(!ask(&gate, &look).is_allowed());
    assert_eq!(left(&gate, "requests"), 1, "all admit, or none is charged");
}

#[test]
fn a_report_repeated_under_its_id_is_taken_once_and_answered_the_same_also_where_denied() {
    let (gate, _) =
        gate(vec![tokens(AlgorithmKind::SlidingLog, 100).dedupe(Micros::from_secs(60))]);
    for (id, cost, allowed, remaining) in [("a", 60, true, 40), ("b", 60, false, 0)] {
        let descriptors = [Descriptor::new(ADA).cost(cost)];
        let request = Request::new("default", &descriptors).with_id(id).unwrap();
        let [first, again] = [gate.check(&request), gate.check(&request)];
        assert_eq!((first.is_allowed(), again.is_allowed()), (allowed, allowed));
        assert!(!first.is_repeated() && again.is_repeated());
        assert_eq!(left(&gate, "tokens"), remaining);
    }
    let _ = gate.refund(&Request::new("default", &[Descriptor::new(ADA).cost(20)]));
    assert_eq!(left(&gate, "tokens"), 0, "120 were taken, and 20 given back");
    // A look is answered by how the limiter stands, whatever its id.
    let descriptors = [Descriptor::new(ADA).cost(0)];
    let look = Request::new("default", &descriptors).with_id("a").unwrap();
    assert!(!gate.check(&look).is_allowed() && !gate.check(&look).is_repeated());
}

#[test]
fn a_report_waits_for_nobody_and_is_taken_once_by_one_who_would_wait() {
    let wait = OnExcess::Wait { wait: HOUR, max_waiters: 10 };
    let rules = vec![tokens(AlgorithmKind::SlidingLog, 100), requests(1).on_excess(wait)];
    let (gate, _) = gate(rules);
    assert!(ask(&gate, &[(KIND, 1)]).is_allowed());
    let descriptors = [Descriptor::new(ADA).cost(70), Descriptor::new(KIND)];
    let report = Request::new("default", &descriptors);
    assert!(!gate.check_unless_waiting(&report).unwrap().is_allowed());
    assert_eq!(left(&gate, "tokens"), 30);
    let mut waiting = std::pin::pin!(gate.acquire(&report));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(answer) = waiting.as_mut().poll(&mut context) else {
        unreachable!("a report does not wait")
    };
    assert!(!answer.is_allowed());
    let _ = gate.refund(&Request::new("default", &[Descriptor::new(ADA).cost(40)]));
    assert_eq!(left(&gate, "tokens"), 0, "140 were taken, and 40 given back");
}

#[test]
fn a_rule_in_shadow_mode_makes_no_report_of_a_request_that_another_may_refuse() {
    let shadow = tokens(AlgorithmKind::SlidingLog, 10).mode(Mode::Shadow);
    let (gate, _) = gate(vec![shadow, requests(1)]);
    assert!(ask(&gate, &[(ADA, 4), (KIND, 1)]).is_allowed());
    assert!(!ask(&gate, &[(ADA, 4), (KIND, 1)]).is_allowed(), "the other rule refuses as before");
    assert_eq!(left(&gate, "tokens"), 6, "and nothing is taken");
    assert!(ask(&gate, &[(ADA, 9)]).is_allowed(), "in shadow mode it never refuses");
    assert_eq!(left(&gate, "tokens"), 0);
    assert!(ask(&gate, &[(ADA, 0)]).is_allowed());
}

#[test]
fn who_reports_is_not_banned_for_it_and_a_banned_key_still_reports() {
    let clock = ManualClock::new();
    let ban = Ban::with_clock(2, HOUR, HOUR, clock.clone()).unwrap();
    let policy = Policy::new(vec![tokens(AlgorithmKind::TokenBucket, 36_000)]).unwrap();
    let gate = Gate::with_clock(policy, clock.clone()).with_ban("default", "tokens", ban).unwrap();
    for _ in 0..5 {
        let _ = ask(&gate, &[(ADA, 36_000)]);
    }
    let _ = gate.refund(&Request::new("default", &[Descriptor::new(ADA).cost(4 * 36_000)]));
    clock.advance(Micros::from_millis(100));
    assert!(ask(&gate, &[(ADA, 0)]).is_allowed(), "no report was counted as a refusal");
    let _ = ask(&gate, &[(ADA, 10)]);
    (0..2).for_each(|_| assert!(!ask(&gate, &[(ADA, 0)]).is_allowed()));
    clock.advance(Micros::from_secs(60));
    assert!(!ask(&gate, &[(ADA, 0)]).is_allowed(), "looks are what bans go by");
    let before = left(&gate, "tokens");
    let _ = ask(&gate, &[(ADA, 10)]);
    assert_eq!(left(&gate, "tokens"), before - 10);
}

#[test]
fn what_was_reported_counts_as_passed_and_a_refused_look_as_one_unit() {
    let clock = ManualClock::new();
    let policy = Policy::new(vec![tokens(AlgorithmKind::SlidingLog, 100)]).unwrap();
    let statistics = Arc::new(RuleStatistics::with_clock(&policy, clock.clone()));
    let gate = Gate::with_clock(policy, clock).with_observer(statistics.clone());
    for cost in [0, 60, 60, 0, 0] {
        let _ = ask(&gate, &[(ADA, cost)]);
    }
    let seen = statistics.of("default", "tokens").unwrap().minute();
    assert_eq!((seen.pass, seen.block), (120, 2));
}

#[test]
fn a_bucket_that_starts_empty_begins_to_fill_with_a_look() {
    let mut spec = Spec::new(AlgorithmKind::TokenBucket, 10, Micros::from_secs(10));
    spec.initial = Some(0);
    let (gate, clock) = gate(vec![RuleSpec::new("all", spec).usage(Usage::Reported)]);
    assert!(!ask(&gate, &[(ADA, 0)]).is_allowed());
    clock.advance(Micros::from_secs(1));
    assert!(ask(&gate, &[(ADA, 0)]).is_allowed());
}

#[test]
fn keys_without_room_report_to_the_limiter_they_share() {
    let (gate, _) = gate(vec![tokens(AlgorithmKind::SlidingLog, 100).max_keys(1, OnFull::Share)]);
    let of = |user, cost| ask(&gate, &[(&[("user", user)], cost)]);
    assert!(of("ada", 50).is_allowed());
    assert!(of("bob", 90).matched()[0].is_overflow());
    assert!(of("eve", 0).is_allowed());
    assert!(!of("eve", 90).is_allowed(), "it shares the limiter with bob");
    assert!(!of("bob", 0).is_allowed() && of("ada", 0).is_allowed());
}

#[test]
fn work_that_is_held_for_a_look_is_settled_with_what_it_used() {
    let (gate, _) = gate(vec![tokens(AlgorithmKind::SlidingLog, 100)]);
    let descriptors = [Descriptor::new(ADA).cost(0)];
    let request = Request::new("default", &descriptors);
    gate.hold(&request).unwrap().settle(130);
    assert_eq!(left(&gate, "tokens"), 0);
    assert!(gate.hold(&request).is_err());
}

#[test]
fn a_queue_and_a_line_are_refused_where_usage_is_reported() {
    let wait = OnExcess::Wait { wait: HOUR, max_waiters: 10 };
    let rules = vec![tokens(AlgorithmKind::LeakyQueue, 10).on_excess(wait)];
    let errors = Policy::new(rules).unwrap_err();
    let problems: Vec<_> = errors.iter().map(|error| &error.problem).collect();
    assert_eq!(problems, [&Problem::ReportedQueue, &Problem::ReportedWait]);
}
