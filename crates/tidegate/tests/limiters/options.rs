//! Plans and supplied rules as options of a keyed limiter, next to its other options and verbs.

use std::time::Duration;
use tidegate::{AlgorithmKind, KeyedLimiter, OnFull, Rule, Spec, Statistics, Under};

const DAY: Duration = Duration::from_secs(86_400);

fn log(limit: u64) -> Rule {
    Rule::new(Spec::new(AlgorithmKind::SlidingLog, limit, DAY)).unwrap()
}

fn keyed(limit: u64) -> KeyedLimiter {
    KeyedLimiter::new(*log(limit).spec()).unwrap()
}

/// Five for callers who have paid.
fn planned(limit: u64) -> KeyedLimiter {
    let paid = log(5);
    keyed(limit).with_plans(move |key| key.starts_with(b"paid").then(|| paid.clone()))
}

#[test]
fn a_limiter_that_does_not_ask_for_supplied_rules_ignores_them() {
    let (limiter, large) = (keyed(2), log(100));
    assert_eq!(limiter.check(Under(&large, "ada"), 1).limit, 2);
    let batch = limiter.check_many(&["ada", "ada"]);
    assert_eq!((batch, limiter.peek("ada", 0).limit), (vec![true, false], 2));
}

#[test]
fn a_reset_key_begins_with_nothing_in_use() {
    let mut spec = Spec::new(AlgorithmKind::TokenBucket, 9, DAY);
    spec.initial = Some(0);
    let planned = Rule::new(spec).unwrap();
    let plans = move |key: &[u8]| key.starts_with(b"paid").then(|| planned.clone());
    for limiter in [KeyedLimiter::new(spec).unwrap(), keyed(2).with_plans(plans)] {
        for key in ["paid ada", "paid bob"] {
            assert_eq!(
                (limiter.check(key, 1).is_allowed(), limiter.peek(key, 1).remaining),
                (false, 0)
            );
        }
        limiter.reset("paid ada");
        limiter.reset("paid eve");
        let left = ["paid ada", "paid bob", "paid eve"].map(|key| limiter.peek(key, 1).remaining);
        assert_eq!(left, [9, 0, 9]);
    }
}

#[test]
fn a_change_of_the_rule_of_all_keys_is_none_of_their_plans() {
    let limiter = planned(2);
    for key in ["paid ada", "bob"] {
        assert!(limiter.admits(key, 2));
    }
    limiter.amend(*log(9).spec()).unwrap();
    assert_eq!((limiter.peek("paid ada", 0).limit, limiter.peek("paid ada", 1).remaining), (5, 3));
    assert_eq!(
        (limiter.peek("bob", 0).limit, limiter.peek("bob", 1).remaining),
        (9, 7),
        "usage carries over"
    );
    assert!(limiter.check("bob", 7).is_allowed() && !limiter.admits("bob", 1));
    limiter.amend(*log(3).spec()).unwrap();
    assert_eq!((limiter.peek("bob", 1).remaining, limiter.peek("eve", 1).remaining), (0, 3));
}

#[test]
fn keys_without_space_share_the_changed_rule_under_a_cap_that_keeps_the_plans() {
    let limiter = planned(2).with_max_keys(1, OnFull::Share);
    limiter.amend(*log(4).spec()).unwrap();
    assert_eq!(limiter.check("paid ada", 1).limit, 5);
    assert_eq!(limiter.check("bob", 3).remaining, 1);
    assert!(!limiter.check("eve", 2).is_allowed(), "they share one");
}

#[test]
fn decisions_under_plans_are_counted_and_made_in_batches_as_all_others() {
    let (limiter, statistics) = (planned(1), Statistics::new());
    let keys = ["paid ada", "paid ada", "bob", "bob"];
    assert_eq!(limiter.check_many(&keys), [true, true, true, false]);
    assert!(limiter.admits_counted("paid ada", 2, &statistics));
    assert!(!limiter.admits_counted(Under(&log(3), "paid ada"), 1, &statistics));
    let minute = statistics.minute();
    assert_eq!((minute.pass, minute.block), (2, 1));
    limiter.reset("bob");
    assert!(limiter.admits("bob", 1));
}
