//! The gate: which rules a request meets, under which key and figures, and what it is told.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use tidegate::{
    AlgorithmKind, Answer, Descriptor, Gate, Limit, Micros, Mode, OverrideSpec, Policy, Request,
    RuleSpec, Spec, Timestamp,
};

type Frozen = Gate<Timestamp>;

fn gate(rules: impl IntoIterator<Item = RuleSpec>) -> Frozen {
    let policy = Policy::new(rules.into_iter().collect()).unwrap();
    Gate::with_clock(policy, Timestamp::from_micros(1_700_000_000_000_000))
}

fn log(limit: u64) -> Spec {
    Spec::new(AlgorithmKind::SlidingLog, limit, Micros::from_secs(60))
}

fn check<'g>(gate: &'g Frozen, entries: &[(&str, &str)], cost: u64) -> Answer<'g> {
    gate.check(&Request::new("default", &[Descriptor::new(entries).cost(cost)]))
}

fn names(answer: &Answer<'_>) -> Vec<String> {
    answer.matched().iter().map(|matched| matched.rule().name().to_owned()).collect()
}

/// The names of the rules that a request of these entries meets.
fn met(gate: &Frozen, entries: &[(&str, &str)]) -> Vec<String> {
    names(&check(gate, entries, 0))
}

/// How many requests of one unit are admitted before one is refused.
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
    assert_eq!(met(&gate, &[]), ["all"]);
    assert_eq!(met(&gate, &[("method", "get")]), ["all"], "case counts");
    assert_eq!(met(&gate, &[("method", "GET")]), ["all", "get"]);
    let api = [("path", "/api/pay"), ("method", "GET")];
    assert_eq!(met(&gate, &api), ["all", "get", "get-api"], "the order of entries does not");
    assert_eq!(met(&gate, &[("user", "ada")]), ["all", "per-user"]);
    assert_eq!(met(&gate, &[("user", "ada"), ("ip", "1")]), ["all", "per-user"]);
    let full = [("method", "GET"), ("user", "ada"), ("ip", "1")];
    assert_eq!(met(&gate, &full), ["all", "get", "per-user", "get-per-user"]);
}

#[test]
fn a_star_at_the_end_matches_a_prefix_and_nothing_else_is_a_pattern() {
    let gate = gate([
        RuleSpec::new("prefix", log(5)).when("path", "/api/*"),
        RuleSpec::new("any", log(5)).when("path", "*"),
        RuleSpec::new("whole", log(5)).when("path", "/a?i"),
    ]);
    assert_eq!(met(&gate, &[("path", "/api/")]), ["prefix", "any"]);
    assert_eq!(met(&gate, &[("path", "/api/x/y")]), ["prefix", "any"]);
    assert_eq!(met(&gate, &[("path", "/api")]), ["any"]);
    assert_eq!(met(&gate, &[("path", "x/api/")]), ["any"]);
    assert_eq!(met(&gate, &[("path", "")]), ["any"]);
    assert_eq!(met(&gate, &[("path", "/a?i")]), ["any", "whole"]);
    assert!(met(&gate, &[("Path", "/api/")]).is_empty(), "names are as written");
    let inside = RuleSpec::new("inside", log(5)).when("path", "/a*/b");
    assert!(Policy::new(vec![inside]).unwrap_err().to_string().contains('*'));
}

#[test]
fn an_exact_rule_wants_these_entries_in_this_order_and_no_others() {
    let rule = RuleSpec::new("exact", log(5)).when("method", "GET").key(["user"]).exact();
    let gate = gate([rule]);
    assert_eq!(met(&gate, &[("method", "GET"), ("user", "ada")]), ["exact"]);
    assert!(met(&gate, &[("user", "ada"), ("method", "GET")]).is_empty(), "another order");
    assert!(met(&gate, &[("method", "GET"), ("user", "ada"), ("ip", "1")]).is_empty(), "more");
    assert!(met(&gate, &[("method", "GET")]).is_empty(), "fewer");
    assert!(met(&gate, &[("method", "PUT"), ("user", "ada")]).is_empty(), "another value");
}

#[test]
fn only_rules_of_the_domain_count_and_each_domain_has_its_own_limiters() {
    let gate = gate([
        RuleSpec::new("one", log(2)).key(["user"]),
        RuleSpec::new("one", log(2)).in_domain("pay").key(["user"]),
    ]);
    let (ada, user) = ([("user", "ada")], Descriptor::new(&[("user", "ada")]));
    assert_eq!(admitted(&gate, &ada), 2);
    let ask = |domain| gate.check(&Request::new(domain, &[user])).is_allowed();
    assert_eq!([ask("pay"), ask("pay"), ask("pay")], [true, true, false]);
    let elsewhere = [Descriptor::new(&ada)];
    let answer = gate.check(&Request::new("no such domain", &elsewhere));
    assert!(answer.is_allowed() && answer.is_unlimited() && answer.matched().is_empty());
}

#[test]
fn each_combination_of_key_values_has_its_own_limiter() {
    let gate = gate([RuleSpec::new("r", log(1)).key(["a", "b"])]);
    let mut keys = Vec::new();
    for a in ["", "x", "xy", "x|y", "x\0y", "\u{1f511}", "1:x"] {
        for b in ["", "x", "y", "|", "\0", "x|", ":x"] {
            keys.push([("a", a), ("b", b)]);
        }
    }
    for key in &keys {
        assert_eq!(admitted(&gate, key), 1, "{key:?} shares a limiter with an earlier one");
    }
    let swapped = [("b", "y"), ("a", "x")];
    assert!(!check(&gate, &swapped, 1).is_allowed(), "the order of entries is not the key's");
}

#[test]
fn the_first_override_whose_entries_are_equal_holds() {
    let limit = |over: OverrideSpec, units| {
        let mut over = over;
        over.limit = Some(units);
        over
    };
    let mut both = OverrideSpec::new("user", "ada");
    both.entries.push(("ip".to_owned(), "1".to_owned()));
    let gate = gate([RuleSpec::new("r", log(2))
        .key(["user", "ip"])
        .with_override(limit(both, Limit::Units(3)))
        .with_override(limit(OverrideSpec::new("user", "ada"), Limit::Units(5)))
        .with_override(limit(OverrideSpec::new("user", "root"), Limit::Unlimited))
        .with_override(limit(OverrideSpec::new("user", "eve"), Limit::Units(0)))]);
    assert_eq!(admitted(&gate, &[("user", "ada"), ("ip", "1")]), 3);
    assert_eq!(admitted(&gate, &[("user", "ada"), ("ip", "2")]), 5);
    assert_eq!(admitted(&gate, &[("user", "adam"), ("ip", "1")]), 2);
    assert_eq!(admitted(&gate, &[("user", "eve"), ("ip", "1")]), 0);
    assert!(check(&gate, &[("user", "eve"), ("ip", "1")], 1).is_never());
    let root = [("user", "root"), ("ip", "1")];
    assert_eq!(admitted(&gate, &root), 1_000);
    assert!(check(&gate, &root, 1).is_unlimited());
    let variant = check(&gate, &[("user", "ada"), ("ip", "2")], 0).matched()[0].variant();
    assert_eq!(variant, 2);
}

#[test]
fn an_override_may_change_the_window_and_the_capacity() {
    let mut bucket = Spec::new(AlgorithmKind::TokenBucket, 60, Micros::from_secs(60));
    bucket.capacity = Some(2);
    let mut over = OverrideSpec::new("user", "ada");
    (over.window, over.capacity) = (Some(Micros::from_secs(120)), Some(4));
    let gate = gate([RuleSpec::new("r", bucket).key(["user"]).with_override(over)]);
    assert_eq!(admitted(&gate, &[("user", "bob")]), 2);
    assert_eq!(admitted(&gate, &[("user", "ada")]), 4);
    let wait = |user| check(&gate, &[("user", user)], 1).retry_after();
    assert_eq!(wait("bob"), Some(Micros::from_secs(1)));
    assert_eq!(wait("ada"), Some(Micros::from_secs(2)));
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

#[test]
fn a_shadow_rule_decides_and_counts_but_never_refuses() {
    let rules = [
        RuleSpec::new("tried", log(2)).mode(Mode::Shadow),
        RuleSpec::new("live", log(5)),
        RuleSpec::new("none", log(0)).mode(Mode::Off),
    ];
    let gate = gate(rules);
    let shadow = |answer: &Answer<'_>| *answer.matched()[0].decision();
    for left in [1, 0] {
        let answer = check(&gate, &[], 1);
        assert_eq!((answer.is_allowed(), shadow(&answer).remaining), (true, left));
    }
    let third = check(&gate, &[], 1);
    assert!(third.is_allowed() && !shadow(&third).is_allowed());
    assert!(shadow(&third).retry_after() > Some(Micros::ZERO));
    assert_eq!(names(&third), ["tried", "live"], "what is off is not looked at");
    assert_eq!(third.reported().map(|m| m.rule().name()), Some("live"));
    assert_eq!(third.retry_after(), Some(Micros::ZERO));
    assert_eq!(admitted(&gate, &[]), 2, "the live rule is charged like always");
}

#[test]
fn a_shadow_rule_is_not_charged_for_what_another_rule_refuses() {
    let gate =
        gate([RuleSpec::new("tried", log(9)).mode(Mode::Shadow), RuleSpec::new("live", log(2))]);
    assert_eq!(admitted(&gate, &[]), 2);
    assert_eq!(check(&gate, &[], 0).matched()[0].decision().remaining, 7);
}

#[test]
fn unlimited_rules_report_nothing() {
    let unlimited = Spec::unlimited(AlgorithmKind::TokenBucket);
    let gate =
        gate([RuleSpec::new("free", unlimited), RuleSpec::new("live", log(2)).key(["user"])]);
    let answer = check(&gate, &[], 7);
    assert!(answer.is_allowed() && answer.is_unlimited() && answer.reported().is_none());
    assert_eq!((answer.reset_after(), answer.delay()), (Micros::ZERO, Micros::ZERO));
    assert_eq!(names(&check(&gate, &[("user", "ada")], 1)), ["live"]);
}

#[test]
fn looking_takes_nothing_and_a_cost_of_nothing_is_always_admitted() {
    for algorithm in AlgorithmKind::ALL {
        let spec = Spec::new(*algorithm, 3, Micros::from_secs(60));
        let gate = gate([RuleSpec::new("r", spec)]);
        let descriptor = [Descriptor::new(&[])];
        let request = Request::new("default", &descriptor);
        let most = gate.peek(&request).reported().unwrap().decision().limit;
        for left in (0..most).rev() {
            assert!(gate.peek(&request).is_allowed());
            assert_eq!(check(&gate, &[], 1).reported().unwrap().decision().remaining, left);
        }
        assert!(!gate.peek(&request).is_allowed() && !check(&gate, &[], 1).is_allowed());
        let nothing = check(&gate, &[], 0);
        assert!(nothing.is_allowed() && nothing.retry_after() == Some(Micros::ZERO));
        assert_eq!(nothing.reported().unwrap().decision().remaining, 0, "{algorithm}");
    }
}

#[test]
fn what_is_given_back_can_be_taken_again_and_no_more() {
    for algorithm in AlgorithmKind::ALL {
        let spec = Spec::new(*algorithm, 10, Micros::from_secs(60));
        let gate = gate([RuleSpec::new("r", spec)]);
        let of = |cost| [Descriptor::new(&[]).cost(cost)];
        let all = gate.peek(&Request::new("default", &of(1))).reported().unwrap().decision().limit;
        assert!(check(&gate, &[], all).is_allowed());
        let after = gate.refund(&Request::new("default", &of(4)));
        assert_eq!(after.reported().unwrap().decision().remaining, 4, "{algorithm}");
        assert_eq!(admitted(&gate, &[]), 4, "{algorithm}");
        let _ = gate.refund(&Request::new("default", &of(u64::MAX)));
        assert_eq!(admitted(&gate, &[]) as u64, all, "{algorithm}");
    }
}

#[test]
fn a_reset_forgets_the_limiters_a_request_meets_and_no_others() {
    let gate = gate([RuleSpec::new("r", log(2)).key(["user"])]);
    let (ada, bob) = ([("user", "ada")], [("user", "bob")]);
    assert_eq!([admitted(&gate, &ada), admitted(&gate, &bob)], [2, 2]);
    gate.reset(&Request::new("default", &[Descriptor::new(&ada)]));
    assert_eq!([admitted(&gate, &ada), admitted(&gate, &bob)], [2, 0]);
}

#[test]
fn admits_is_check_without_the_figures() {
    for algorithm in AlgorithmKind::ALL {
        let spec = Spec::new(*algorithm, 5, Micros::from_secs(60));
        let (one, other) = (gate([RuleSpec::new("r", spec)]), gate([RuleSpec::new("r", spec)]));
        for cost in [1, 0, 3, 9, 1, 2, 1, 1] {
            let descriptor = [Descriptor::new(&[]).cost(cost)];
            let request = Request::new("default", &descriptor);
            assert_eq!(one.admits(&request), other.check(&request).is_allowed(), "{algorithm}");
        }
    }
}

#[test]
fn what_is_left_is_told_as_it_is_and_not_as_an_id_remembers_it() {
    let gate = gate([RuleSpec::new("all", log(10)).dedupe(Micros::from_secs(60))]);
    let descriptors = [Descriptor::new(&[])];
    let plain = Request::new("default", &descriptors);
    let first = plain.with_id("a").unwrap();
    assert!(gate.check(&first).is_allowed());
    assert_eq!((gate.available(&first), gate.capacity(&first)), (9, 10));
    assert_eq!((0..20).filter(|_| gate.check(&plain).is_allowed()).count(), 9);
    assert_eq!(gate.peek(&first).matched()[0].decision().remaining, 9, "the first answer");
    assert_eq!(gate.available(&first), 0);
}
