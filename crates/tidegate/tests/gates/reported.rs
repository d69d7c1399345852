//! Rules whose usage is reported afterwards: the units they take, and their answers, also next to other rules.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{
    AlgorithmKind, Answer, Ban, Descriptor, Gate, ManualClock, Micros, OnExcess, Policy, Problem,
    Request, RuleSpec, RuleStatistics, Setup, Spec, Usage,
};

const HOUR: Duration = Duration::from_secs(3_600);
const ADA: &[(&str, &str)] = &[("user", "ada")];
const KIND: &[(&str, &str)] = &[("kind", "request")];

/// A rule of tokens for each user, with reported usage.
fn tokens(algorithm: AlgorithmKind, limit: u64) -> RuleSpec {
    RuleSpec::new("tokens", Spec::new(algorithm, limit, HOUR)).key(["user"]).usage(Usage::Reported)
}

/// A rule of requests, counted before they run.
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

/// The units left by the rule with this name.
fn left(gate: &Gate<ManualClock>, name: &str) -> u64 {
    let descriptors = [Descriptor::new(ADA), Descriptor::new(KIND)];
    let answer = gate.peek(&Request::new("default", &descriptors));
    let of_rule = answer.matched().into_iter().find(|matched| matched.rule().name() == name);
    of_rule.unwrap().decision().remaining
}

#[test]
fn the_fourth_report_of_300_of_1000_is_taken_and_the_next_look_is_refused() {
    for algorithm in AlgorithmKind::ALL.iter().filter(|one| !one.is_queue() && !one.holds_permits())
    {
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
        // A peek takes nothing, and reports the shortest wait.
        let wait = look.retry_after().unwrap();
        clock.advance(Duration::from_micros(Micros::from(wait).as_micros() - 1));
        assert!(!ask(&gate, &[(ADA, 0)]).is_allowed(), "{algorithm:?}");
        clock.advance(Duration::from_micros(1));
        assert!(ask(&gate, &[(ADA, 0)]).is_allowed(), "{algorithm:?}");
    }
}

#[test]
fn a_cost_above_the_limit_is_taken_and_not_answered_never() {
    let (gate, _) = gate(vec![tokens(AlgorithmKind::TokenBucket, 10)]);
    let report = ask(&gate, &[(ADA, 25)]);
    // 15 units are owed, and one more is waited for.
    let wait = Duration::from_micros(16 * Micros::from(HOUR).as_micros() / 10);
    assert_eq!((report.is_never(), report.retry_after()), (false, Some(wait)));
    assert!(!ask(&gate, &[(ADA, 0)]).is_allowed());
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
fn who_reports_is_not_banned_for_it_and_a_banned_key_still_reports() {
    let clock = ManualClock::new();
    let ban = Ban::with_clock(2, HOUR, HOUR, clock.clone()).unwrap();
    let policy = Policy::new(vec![tokens(AlgorithmKind::TokenBucket, 36_000)]).unwrap();
    let setup = Setup::new(policy).ban("default", "tokens", ban).unwrap();
    let gate = Gate::with_clock(setup, clock.clone());
    for _ in 0..5 {
        let _ = ask(&gate, &[(ADA, 36_000)]);
    }
    let _ = gate.refund(&Request::new("default", &[Descriptor::new(ADA).cost(4 * 36_000)]));
    clock.advance(Duration::from_millis(100));
    assert!(ask(&gate, &[(ADA, 0)]).is_allowed(), "no report was counted as a refusal");
    let _ = ask(&gate, &[(ADA, 10)]);
    (0..2).for_each(|_| assert!(!ask(&gate, &[(ADA, 0)]).is_allowed()));
    clock.advance(Duration::from_secs(60));
    assert!(!ask(&gate, &[(ADA, 0)]).is_allowed(), "looks are what bans go by");
    let before = left(&gate, "tokens");
    let _ = ask(&gate, &[(ADA, 10)]);
    assert_eq!(left(&gate, "tokens"), before - 10);
}

#[test]
fn what_was_reported_counts_as_passed_and_a_refused_look_as_one_unit() {
    let clock = ManualClock::new();
    let policy = Policy::new(vec![tokens(AlgorithmKind::SlidingLog, 100)]).unwrap();
    let statistics = Arc::new(RuleStatistics::with_clock(clock.clone()));
    let gate = Gate::with_clock(Setup::new(policy).observer(statistics.clone()), clock);
    for cost in [0, 60, 60, 0, 0] {
        let _ = ask(&gate, &[(ADA, cost)]);
    }
    let seen = statistics.of(gate.policy().rules())[0].minute();
    assert_eq!((seen.pass, seen.block), (120, 2));
}

#[test]
fn a_bucket_that_starts_empty_begins_to_fill_with_a_look() {
    let mut spec = Spec::new(AlgorithmKind::TokenBucket, 10, Duration::from_secs(10));
    spec.initial = Some(0);
    let (gate, clock) = gate(vec![RuleSpec::new("all", spec).usage(Usage::Reported)]);
    assert!(!ask(&gate, &[(ADA, 0)]).is_allowed());
    clock.advance(Duration::from_secs(1));
    assert!(ask(&gate, &[(ADA, 0)]).is_allowed());
}

#[test]
fn a_queue_and_a_line_are_refused_where_usage_is_reported() {
    let wait = OnExcess::Wait { wait: HOUR, max_waiters: 10 };
    let rules = vec![tokens(AlgorithmKind::LeakyQueue, 10).on_excess(wait)];
    let errors = Policy::new(rules).unwrap_err();
    let problems: Vec<_> = errors.iter().map(|error| &error.problem).collect();
    assert_eq!(problems, [&Problem::ReportedQueue, &Problem::ReportedWait]);
}
