//! Several limiters for one request: all admit or none is charged, and the right ones are charged.

use std::time::Duration;
use tidegate::{AlgorithmKind, Descriptor, Limit, Mode, OverrideSpec, Request, RuleSpec, Spec};

use crate::kit::every_gate;
use crate::subjects::gates::{admitted, ask, left, seen};
use crate::subjects::{Case, DAY, Store, per_day};

every_gate! {
    all_rules_admit_or_none_is_charged,
    a_limiter_that_is_named_twice_costs_both,
    parts_of_a_key_are_not_joined,
    rules_and_domains_share_no_limiter,
    a_shadow_rule_counts_and_refuses_nobody,
    an_unlimited_rule_reports_nothing,
    a_reset_fills_a_bucket_that_begins_empty,
    an_answer_near_the_end_of_a_rule_is_marked,
    the_first_override_whose_entries_are_equal_holds,
    a_request_is_settled_with_every_limiter_it_matches,
    what_is_available_is_what_the_tightest_limit_has_left,
}

const ADA: &[(&str, &str)] = &[("user", "ada")];
const BOB: &[(&str, &str)] = &[("user", "bob")];

/// In a released limiter, a caller refused by the second limit lost a unit of the first.
fn all_rules_admit_or_none_is_charged(case: &Case<'_, dyn Store>) {
    let second = RuleSpec::new("second", per_day(AlgorithmKind::SlidingLog, 3));
    let gate = case.gate([case.rule("first", 10), second, case.rule("third", 20)]);
    assert_eq!(admitted(gate.as_ref(), &[]), 3);
    for _ in 0..3 {
        let refused = ask(&[(&[], 1)], |request| gate.check(request));
        assert_eq!((refused.is_allowed(), left(&refused)), (false, vec![7, 0, 17]));
        let verdicts = refused.matched().into_iter().map(|one| one.decision().is_allowed());
        assert_eq!(verdicts.collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(refused.reported().unwrap().rule().name(), "second");
    }
    assert_eq!(seen(gate.as_ref(), &[]), [7, 0, 17]);
}

/// In released limiters, a limiter named twice found room each time; and two halves of 2^64 made a cost of nothing.
fn a_limiter_that_is_named_twice_costs_both(case: &Case<'_, dyn Store>) {
    let gate = case.gate([case.rule("r", 10).key(["user"])]);
    let too_much = ask(&[(ADA, 6), (ADA, 5)], |request| gate.check(request));
    assert!(!too_much.is_allowed());
    assert_eq!(too_much.matched().len(), 1, "one limiter, one decision");
    let both = ask(&[(ADA, 4), (ADA, 5)], |request| gate.check(request));
    assert_eq!((both.is_allowed(), left(&both)), (true, vec![1]));
    let halves = ask(&[(ADA, 1 << 63), (ADA, 1 << 63)], |request| gate.check(request));
    assert!(halves.is_never());
    assert_eq!(seen(gate.as_ref(), ADA), [1]);
}

/// `a|b` + `c` is `a` + `b|c` when the parts are only joined.
fn parts_of_a_key_are_not_joined(case: &Case<'_, dyn Store>) {
    let gate = case.gate([case.rule("r", 1).key(["a", "b"])]);
    for a in ["", "x", "xy", "x|y", "x\0y", "x:y", "\u{1f511}", "1:x"] {
        for b in ["", "x", "y", "|", "\0", "x|", "y:", ":x"] {
            let own = admitted(gate.as_ref(), &[("a", a), ("b", b)]);
            assert_eq!(own, 1, "{a:?} {b:?} shares a limiter with an earlier one");
            let swapped = ask(&[(&[("b", b), ("a", a)], 1)], |request| gate.admits(request));
            assert!(!swapped, "the order of entries is not the key's");
        }
    }
}

fn rules_and_domains_share_no_limiter(case: &Case<'_, dyn Store>) {
    let gate = case.gate([
        case.rule("one", 4).key(["user"]),
        case.rule("two", 9).key(["user"]),
        case.rule("one", 2).in_domain("pay").key(["user"]),
    ]);
    assert!(ask(&[(ADA, 1)], |request| gate.admits(request)));
    assert_eq!(seen(gate.as_ref(), ADA), [3, 8]);
    let descriptors = [Descriptor::new(ADA)];
    let pay = || gate.check(&Request::new("pay", &descriptors)).is_allowed();
    assert_eq!([pay(), pay(), pay()], [true, true, false]);
    let elsewhere = gate.check(&Request::new("no such domain", &descriptors));
    assert!(elsewhere.is_allowed() && elsewhere.is_unlimited() && elsewhere.matched().is_empty());
    assert_eq!(seen(gate.as_ref(), ADA), [3, 8]);
    let reset = ask(&[(ADA, 1)], |request| gate.reset(request));
    assert_eq!((reset, seen(gate.as_ref(), ADA)), (2, vec![4, 9]));
}

/// A reset once made the bucket like a new bucket, which is empty.
fn a_reset_fills_a_bucket_that_begins_empty(case: &Case<'_, dyn Store>) {
    let mut spec = Spec::new(AlgorithmKind::TokenBucket, 20, DAY);
    spec.initial = Some(0);
    let gate = case.gate([
        RuleSpec::new("all", spec).across_slots(),
        case.rule("one", 6).key(["user"]).across_slots(),
    ]);
    let reset = || ask(&[(ADA, 1)], |request| gate.reset(request));
    assert_eq!(
        (reset(), seen(gate.as_ref(), ADA)),
        (2, vec![20, 6]),
        "also before its first request"
    );
    assert!(ask(&[(ADA, 6)], |request| gate.admits(request)));
    assert_eq!(seen(gate.as_ref(), ADA), [14, 0]);
    assert_eq!((reset(), seen(gate.as_ref(), ADA)), (2, vec![20, 6]));
    assert_eq!(admitted(gate.as_ref(), ADA), 6);
}

fn an_answer_near_the_end_of_a_rule_is_marked(case: &Case<'_, dyn Store>) {
    let near = || "0.8".parse().unwrap();
    let tried = case.rule("tried", 4).mode(Mode::Shadow).near(near());
    let gate = case.gate([case.rule("ten", 10).near(near()), case.rule("tight", 11), tried]);
    let marked = |units| {
        ask(&[(&[], units)], |request| {
            let answer = gate.check(request);
            let one = answer.matched().iter().map(|one| one.is_near()).collect::<Vec<_>>();
            (answer.is_near(), one)
        })
    };
    assert_eq!(marked(3), (false, vec![false, false, false]));
    assert_eq!(
        marked(1),
        (false, vec![false, false, true]),
        "a rule in shadow mode marks no answer"
    );
    assert_eq!(marked(3), (false, vec![false, false, false]), "and none that it would refuse");
    assert_eq!(marked(1), (true, vec![true, false, false]));
    assert_eq!(marked(2), (true, vec![true, false, false]));
    assert_eq!(marked(1), (false, vec![false, false, false]), "a refusal is not near");
    assert_eq!(marked(0), (true, vec![true, false, true]), "a request without cost is admitted");
}

fn a_shadow_rule_counts_and_refuses_nobody(case: &Case<'_, dyn Store>) {
    let gate = case.gate([
        case.rule("tried", 2).mode(Mode::Shadow),
        case.rule("live", 5),
        case.rule("off", 0).mode(Mode::Off),
    ]);
    for remaining in [[1, 4], [0, 3], [0, 2], [0, 1], [0, 0]] {
        let answer = ask(&[(&[], 1)], |request| gate.check(request));
        assert_eq!((answer.is_allowed(), left(&answer)), (true, remaining.to_vec()));
        assert_eq!(answer.reported().unwrap().rule().name(), "live");
        assert_eq!(answer.retry_after(), Some(Duration::ZERO));
    }
    let refused = ask(&[(&[], 1)], |request| gate.check(request));
    assert!(!refused.is_allowed() && !refused.matched()[0].decision().is_allowed());
    // The tried rule is not charged for what another rule refuses either.
    let gate = case.gate([case.rule("tried", 9).mode(Mode::Shadow), case.rule("live", 2)]);
    assert_eq!(admitted(gate.as_ref(), &[]), 2);
    assert_eq!(seen(gate.as_ref(), &[]), [7, 0]);
}

fn an_unlimited_rule_reports_nothing(case: &Case<'_, dyn Store>) {
    let free = RuleSpec::new("free", Spec::unlimited(case.algorithm));
    let gate = case.gate([free, case.rule("live", 2).key(["user"])]);
    let answer = ask(&[(&[], 7)], |request| gate.check(request));
    assert!(answer.is_allowed() && answer.is_unlimited() && answer.reported().is_none());
    assert_eq!((answer.reset_after(), answer.delay()), (Duration::ZERO, Duration::ZERO));
    assert_eq!(seen(gate.as_ref(), ADA), [2]);
}

fn the_first_override_whose_entries_are_equal_holds(case: &Case<'_, dyn Store>) {
    let limited = |mut over: OverrideSpec, limit| {
        over.limit = Some(limit);
        over
    };
    let mut both = OverrideSpec::new("user", "ada");
    both.entries.push(("ip".to_owned(), "1".to_owned()));
    // A log has its limit as capacity.
    let rule = RuleSpec::new("r", per_day(AlgorithmKind::SlidingLog, 2)).key(["user", "ip"]);
    let gate = case.gate([rule
        .with_override(limited(both, Limit::Units(3)))
        .with_override(limited(OverrideSpec::new("user", "ada"), Limit::Units(5)))
        .with_override(limited(OverrideSpec::new("user", "root"), Limit::Unlimited))
        .with_override(limited(OverrideSpec::new("user", "eve"), Limit::Units(0)))]);
    let of = |user, ip| admitted(gate.as_ref(), &[("user", user), ("ip", ip)]);
    assert_eq!([of("ada", "1"), of("ada", "2"), of("adam", "1"), of("eve", "1")], [3, 5, 2, 0]);
    let root: &[(&str, &str)] = &[("user", "root"), ("ip", "1")];
    let answer = ask(&[(root, 1_000)], |request| gate.check(request));
    assert!(answer.is_allowed() && answer.is_unlimited());
    let second: &[(&str, &str)] = &[("user", "ada"), ("ip", "2")];
    let variant = ask(&[(second, 0)], |request| gate.check(request).matched()[0].variant());
    assert_eq!(variant, 2);
}

fn a_request_is_settled_with_every_limiter_it_matches(case: &Case<'_, dyn Store>) {
    if case.algorithm.holds_permits() {
        return; // each permit is returned as a whole
    }
    let gate = case.gate([case.rule("all", 100), case.rule("user", 50).key(["user"])]);
    let both = [(ADA, 20), (BOB, 10)];
    let stand = || ask(&both, |request| left(&gate.peek(request)));
    assert!(ask(&both, |request| gate.admits(request)));
    assert_eq!(stand(), [70, 30, 40]);
    assert_eq!(ask(&both, |request| gate.settle(request, None, 15).matched().len()), 3);
    assert_eq!(stand(), [70, 35, 35], "15 for each of both");
    assert!(ask(&[(ADA, 5)], |request| gate.admits(request)));
    let _ = ask(&[(ADA, 5)], |request| left(&gate.settle(request, None, 45)));
    assert_eq!(stand(), [25, 0, 35], "a debt of 10");
    let _ = ask(&[(ADA, 11)], |request| left(&gate.refund(request)));
    assert_eq!(stand(), [36, 1, 35]);
}

fn what_is_available_is_what_the_tightest_limit_has_left(case: &Case<'_, dyn Store>) {
    let gate = case.gate([
        case.rule("all", 10),
        case.rule("user", 4).key(["user"]),
        case.rule("tried", 1).mode(Mode::Shadow),
    ]);
    let look = |user: &str| ask(&[(&[("user", user)], 1)], |one| gate.available(one));
    assert_eq!(look("ada"), 4);
    assert!(ask(&[(ADA, 3)], |request| gate.admits(request)));
    assert!(ask(&[(BOB, 4)], |request| gate.admits(request)));
    assert_eq!([look("ada"), look("bob"), look("eve")], [1, 0, 3]);
    let elsewhere = Request::new("elsewhere", &[]);
    assert_eq!(gate.available(&elsewhere), u64::MAX);
}
