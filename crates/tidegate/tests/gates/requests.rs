//! Requests at a gate: the rules that match, their keys and values, and the answer.

use std::time::Duration;

use crate::asks::policy;
use tidegate::{
    AlgorithmKind, Answer, Descriptor, Gate, Limit, OverrideSpec, Policy, Request, RuleSpec, Spec,
    Timestamp,
};

type Frozen = Gate<Timestamp>;

fn gate(rules: impl IntoIterator<Item = RuleSpec>) -> Frozen {
    Gate::with_clock(policy(rules), Timestamp::from_micros(1_700_000_000_000_000))
}

fn log(limit: u64) -> Spec {
    Spec::new(AlgorithmKind::SlidingLog, limit, Duration::from_secs(60))
}

fn check<'g>(gate: &'g Frozen, entries: &[(&str, &str)], cost: u64) -> Answer<'g> {
    gate.check(&Request::new("default", &[Descriptor::new(entries).cost(cost)]))
}

fn names(answer: &Answer<'_>) -> Vec<String> {
    answer.matched().iter().map(|matched| matched.rule().name().to_owned()).collect()
}

/// The names of the rules that match a request of these entries.
fn matched(gate: &Frozen, entries: &[(&str, &str)]) -> Vec<String> {
    names(&check(gate, entries, 0))
}

/// The number of requests of one unit that are admitted before one is refused.
fn admitted(gate: &Frozen, entries: &[(&str, &str)]) -> usize {
    (0..1_000).take_while(|_| check(gate, entries, 1).is_allowed()).count()
}

#[test]
fn a_rule_matches_what_has_all_its_when_entries_and_all_its_key() {
    let gate = gate([
        RuleSpec::new("all", log(5)),
        RuleSpec::new("get", log(5)).when("method", "GET"),
        RuleSpec::new("get-api", log(5)).when("method", "GET").when("path", "/api/*"),
        RuleSpec::new("per-user", log(5)).key(["user"]),
        RuleSpec::new("get-per-user", log(5)).when("method", "GET").key(["user", "ip"]),
    ]);
    assert_eq!(matched(&gate, &[]), ["all"]);
    assert_eq!(matched(&gate, &[("method", "get")]), ["all"], "case counts");
    assert_eq!(matched(&gate, &[("method", "GET")]), ["all", "get"]);
    let api = [("path", "/api/pay"), ("method", "GET")];
    assert_eq!(matched(&gate, &api), ["all", "get", "get-api"], "the order of entries does not");
    assert_eq!(matched(&gate, &[("user", "ada")]), ["all", "per-user"]);
    assert_eq!(matched(&gate, &[("user", "ada"), ("ip", "1")]), ["all", "per-user"]);
    assert_eq!(
        matched(&gate, &[("method", "GET"), ("user", "ada"), ("ip", "1")]),
        ["all", "get", "per-user", "get-per-user"]
    );
}

#[test]
fn a_star_at_the_end_matches_a_prefix_and_nothing_else_is_a_pattern() {
    let gate = gate([
        RuleSpec::new("prefix", log(5)).when("path", "/api/*"),
        RuleSpec::new("any", log(5)).when("path", "*"),
        RuleSpec::new("whole", log(5)).when("path", "/a?i"),
    ]);
    assert_eq!(matched(&gate, &[("path", "/api/")]), ["prefix", "any"]);
    assert_eq!(matched(&gate, &[("path", "/api/x/y")]), ["prefix", "any"]);
    assert_eq!(matched(&gate, &[("path", "/api")]), ["any"]);
    assert_eq!(matched(&gate, &[("path", "x/api/")]), ["any"]);
    assert_eq!(matched(&gate, &[("path", "")]), ["any"]);
    assert_eq!(matched(&gate, &[("path", "/a?i")]), ["any", "whole"]);
    assert!(matched(&gate, &[("Path", "/api/")]).is_empty(), "names are as written");
    let inside = RuleSpec::new("inside", log(5)).when("path", "/a*/b");
    assert!(Policy::new(vec![inside]).unwrap_err().to_string().contains('*'));
}

#[test]
fn an_exact_rule_wants_these_entries_in_this_order_and_no_others() {
    let rule = RuleSpec::new("exact", log(5)).when("method", "GET").key(["user"]).exact();
    let gate = gate([rule]);
    assert_eq!(matched(&gate, &[("method", "GET"), ("user", "ada")]), ["exact"]);
    assert!(matched(&gate, &[("user", "ada"), ("method", "GET")]).is_empty(), "another order");
    assert!(matched(&gate, &[("method", "GET"), ("user", "ada"), ("ip", "1")]).is_empty(), "more");
    assert!(matched(&gate, &[("method", "GET")]).is_empty(), "fewer");
    assert!(matched(&gate, &[("method", "PUT"), ("user", "ada")]).is_empty(), "another value");
}

#[test]
fn an_override_may_change_the_window_and_the_capacity() {
    let mut bucket = Spec::new(AlgorithmKind::TokenBucket, 60, Duration::from_secs(60));
    bucket.capacity = Some(2);
    let mut over = OverrideSpec::new("user", "ada");
    (over.window, over.capacity) = (Some(Duration::from_secs(120)), Some(4));
    let gate = gate([RuleSpec::new("r", bucket).key(["user"]).with_override(over)]);
    assert_eq!(admitted(&gate, &[("user", "bob")]), 2);
    assert_eq!(admitted(&gate, &[("user", "ada")]), 4);
    let wait = |user| check(&gate, &[("user", user)], 1).retry_after();
    assert_eq!(wait("bob"), Some(Duration::from_secs(1)));
    assert_eq!(wait("ada"), Some(Duration::from_secs(2)));
}

#[test]
fn an_override_of_a_limit_that_is_none_or_0_gives_one() {
    for base in [Limit::Unlimited, Limit::Units(0)] {
        let mut spec = log(1);
        spec.limit = base;
        let mut over = OverrideSpec::new("user", "ada");
        over.limit = Some(Limit::Units(3));
        let gate = gate([RuleSpec::new("r", spec).key(["user"]).with_override(over)]);
        assert_eq!(admitted(&gate, &[("user", "ada")]), 3, "{base:?}");
        let others = if base == Limit::Unlimited { 1_000 } else { 0 };
        assert_eq!(admitted(&gate, &[("user", "bob")]), others, "{base:?}");
    }
}
