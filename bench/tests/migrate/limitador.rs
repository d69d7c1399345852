//! `docs/migrate/limitador.md`: its crate and a gate decide the same requests alike.

use std::collections::HashMap;
use std::time::Duration;

use limitador::RateLimiter;
use limitador::limit::{Context, Limit, Namespace};
use tidegate::{
    AlgorithmKind, Anchor, Descriptor, Gate, ManualClock, Policy, Request, RuleSpec, Spec, Usage,
};

const HOUR_S: u64 = 3_600;

/// Ten an hour for each user and GET, as the page writes it.
fn theirs() -> (RateLimiter, Namespace) {
    let limits = RateLimiter::new(1_000);
    let condition = "method == 'GET'".try_into().unwrap();
    let variable = "user_id".try_into().unwrap();
    limits.add_limit(Limit::new("test", 10, HOUR_S, [condition], [variable]));
    (limits, "test".into())
}

fn ours(usage: Usage) -> Gate<ManualClock> {
    on(ManualClock::new(), usage)
}

fn on(clock: ManualClock, usage: Usage) -> Gate<ManualClock> {
    let mut spec = Spec::new(AlgorithmKind::FixedWindow, 10, Duration::from_secs(HOUR_S));
    spec.anchor = Some(Anchor::FirstRequest);
    let rule = RuleSpec::new("get-per-user", spec).in_domain("test").when("method", "GET");
    let policy = Policy::new(vec![rule.key(["user_id"]).usage(usage)]).unwrap();
    Gate::with_clock(policy, clock)
}

fn context(method: &str, user: &str) -> Context<'static> {
    let entries = [("method", method), ("user_id", user)];
    entries
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into_iter()
        .collect::<HashMap<_, _>>()
        .into()
}

/// Runs a verb of the gate on one request.
fn with_request<T>(method: &str, user: &str, cost: u64, ask: impl FnOnce(&Request<'_>) -> T) -> T {
    let entries = [("method", method), ("user_id", user)];
    ask(&Request::new("test", &[Descriptor::new(&entries).cost(cost)]))
}

#[test]
fn conditions_and_variables_are_when_and_key() {
    let ((limits, namespace), gate) = (theirs(), ours(Usage::default()));
    let mut refused = 0;
    for number in 0..60 {
        let method = if number % 4 == 3 { "POST" } else { "GET" };
        let (user, cost) = (["ada", "bob"][number % 2], number as u64 % 3);
        let there = limits.check_rate_limited_and_update(&namespace, &context(method, user), cost);
        let here = with_request(method, user, cost, |request| gate.check(request).is_allowed());
        assert_eq!(!there.unwrap().limited, here, "{number}: {method} by {user}, {cost}");
        refused += usize::from(!here);
    }
    assert!(refused > 10, "{refused}");
}

#[test]
fn a_check_takes_nothing_as_a_peek_does() {
    let ((limits, namespace), gate) = (theirs(), ours(Usage::default()));
    for _ in 0..20 {
        assert!(!limits.is_rate_limited(&namespace, &context("GET", "ada"), 10).unwrap().limited);
        assert!(with_request("GET", "ada", 10, |request| gate.peek(request).is_allowed()));
    }
    assert!(limits.is_rate_limited(&namespace, &context("GET", "ada"), 11).unwrap().limited);
    assert!(!with_request("GET", "ada", 11, |request| gate.peek(request).is_allowed()));
}

#[test]
fn a_report_is_taken_even_above_the_limit() {
    let ((limits, namespace), gate) = (theirs(), ours(Usage::Reported));
    let ada = context("GET", "ada");
    for (units, has_space) in [(4, true), (25, false)] {
        limits.update_counters(&namespace, &ada, units).unwrap();
        assert_eq!(!limits.is_rate_limited(&namespace, &ada, 1).unwrap().limited, has_space);
        // The answer to a report says whether one unit more would be admitted.
        let here = with_request("GET", "ada", units, |request| gate.check(request).is_allowed());
        assert_eq!(here, has_space);
        let asked = with_request("GET", "ada", 0, |request| gate.check(request).is_allowed());
        assert_eq!(asked, has_space);
    }
}

#[test]
fn a_window_begins_with_its_first_request() {
    let (limits, namespace) = theirs();
    let ada = context("GET", "ada");
    assert!(!limits.check_rate_limited_and_update(&namespace, &ada, 1).unwrap().limited);
    let counters = limits.get_counters(&namespace).unwrap();
    let left = counters.iter().next().unwrap().expires_in().unwrap();
    assert!(left > Duration::from_secs(HOUR_S - 60), "{left:?}");
    let clock = ManualClock::new();
    let gate = on(clock.clone(), Usage::default());
    clock.advance(Duration::from_secs(HOUR_S / 2));
    let used_up = with_request("GET", "ada", 10, |request| gate.check(request).is_allowed());
    assert!(used_up);
    let wait = with_request("GET", "ada", 1, |request| gate.check(request).retry_after());
    assert_eq!(wait, Some(Duration::from_secs(HOUR_S)));
}
