//! Rules of a gate that are changed while it is in use: every verb uses the new rule, and no unit is admitted twice.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::{DAY, Still, admits, amend, ask, left, per_day, still};
use crate::packed::{TODAY_US, TestClock, long, together};
use std::time::Duration;
use testkit::traffic::Rng;
use tidegate::{
    AlgorithmKind, AmendError, Ban, Descriptor, Gate, Limit, OnFull, OverrideSpec, Policy, Request,
    RuleSpec, Setup, Spec,
};

/// One limiter for all, and one for each user.
fn all_and_each(all: Spec, each: Spec) -> Still {
    still([RuleSpec::new("all", all), RuleSpec::new("each", each).key(["user"])])
}

#[test]
fn an_invalid_change_is_reported_with_its_place_and_changes_nothing() {
    let mut vip = OverrideSpec::new("user", "vip");
    vip.window = Some(Duration::from_secs(1));
    let first = RuleSpec::new("first", per_day(AlgorithmKind::SlidingLog, 10));
    let rule = RuleSpec::new("each", per_day(AlgorithmKind::SlidingWindow, 10)).key(["user"]);
    let gate = still([first, rule.with_override(vip)]);
    assert!(admits(&gate, "ada", 4));
    let mut wrong = per_day(AlgorithmKind::SlidingWindow, 10);
    wrong.buckets = Some(999);
    let message = gate.amend("default", "each", wrong).unwrap_err().to_string();
    assert!(message.starts_with("rule 2 (`each`)") && message.contains("override 1"), "{message}");
    let mut initial = per_day(AlgorithmKind::TokenBucket, 10);
    initial.initial = Some(0);
    assert!(gate.amend("default", "each", initial).unwrap_err().to_string().contains("`initial`"));
    let message = gate.amend("default", "eech", initial).unwrap_err();
    assert!(matches!(message, AmendError::NoSuchRule(_)), "{message}");
    assert_eq!(left(&gate, "ada"), [6, 6]);
}

/// States that grow by the change must fit into the memory that the new values allow, together with the states of all
/// overrides; otherwise nothing changes.
#[test]
fn a_change_that_would_not_fit_in_memory_is_refused_and_loses_nothing() {
    let mut vip = OverrideSpec::new("kind", "vip");
    vip.limit = Some(Limit::Units(20));
    let rule = RuleSpec::new("each", per_day(AlgorithmKind::TokenBucket, 10)).key(["kind", "user"]);
    let gate = still([rule.with_override(vip)]);
    let used = |kind: &str, user: u64, cost: u64| {
        let user = user.to_string();
        let answer =
            gate.check(Descriptor::new(&[("kind", kind), ("user", user.as_str())]).cost(cost));
        assert!(answer.is_allowed());
        let one = answer.matched()[0].decision();
        one.limit - one.remaining
    };
    for user in 0..500 {
        assert_eq!(used("vip", user, 1 + user % 10), 1 + user % 10);
        assert_eq!(used("any", user, 1 + user % 10), 1 + user % 10);
    }
    let mut large = per_day(AlgorithmKind::SlidingWindow, 10);
    (large.buckets, large.max_memory) = (Some(1_000), Some(3_000_000));
    for _ in 0..2 {
        let message = gate.amend("default", "each", large).unwrap_err().to_string();
        assert!(message.contains("max_memory") && message.contains("1000 limiters"), "{message}");
        assert_eq!(gate.counts().keys, 1_000);
        assert!((0..500).all(|user| used("vip", user, 0) == 1 + user % 10));
        assert!((0..500).all(|user| used("any", user, 0) == 1 + user % 10));
    }
    large.max_memory = Some(20_000_000);
    gate.amend("default", "each", large).unwrap();
    assert_eq!((gate.counts().keys, used("vip", 7, 0), used("any", 9, 0)), (1_000, 8, 10));
}

/// A cap over all rules counts the limiters of changed rules once, through all their tables.
#[test]
fn a_common_cap_counts_the_limiters_of_changed_rules_once() {
    let rules = ["one", "two"].map(|name| {
        let spec = per_day(AlgorithmKind::FixedWindow, 10);
        RuleSpec::new(name, spec).key([name]).max_keys(60, OnFull::Refuse)
    });
    let most = NonZeroUsize::new(100).unwrap();
    let policy = Policy::new(rules.into()).unwrap().with_max_keys(most);
    let gate = Gate::with_clock(policy, TestClock::at(TODAY_US));
    let comes = |rule: &str, key: u64| {
        let key = key.to_string();
        let entries = [(rule, key.as_str())];
        gate.admits(&Request::new("default", &[Descriptor::new(&entries)]))
    };
    let how_many = |rule, keys: std::ops::Range<u64>| keys.filter(|key| comes(rule, *key)).count();
    assert_eq!((how_many("one", 0..80), gate.counts().keys), (60, 60));
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        amend(&gate, "one", per_day(algorithm, 1_000));
        assert_eq!(gate.counts().keys, 60, "{algorithm}");
    }
    assert_eq!((how_many("two", 0..80), gate.counts().keys), (40, 100));
    assert_eq!(how_many("one", 100..200), 0, "no room, with any former tables");
    amend(&gate, "one", Spec::unlimited(AlgorithmKind::TokenBucket));
    assert_eq!((gate.counts().keys, how_many("two", 80..100)), (100, 0), "usage is known");
    amend(&gate, "one", per_day(AlgorithmKind::SlidingLog, 5));
    assert_eq!((how_many("one", 0..80), gate.counts().keys), (60, 100));
}

/// The overflow limiter is carried over with what keys without room have taken.
#[test]
fn the_limiter_shared_by_keys_without_space_is_carried_over() {
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        let each = RuleSpec::new("each", per_day(algorithm, 10)).key(["user"]);
        let all = RuleSpec::new("all", per_day(algorithm, 1_000));
        let gate = still([all, each.max_keys(1, OnFull::Share)]);
        assert!(admits(&gate, "own", 1) && admits(&gate, "beyond", 7));
        amend(&gate, "each", per_day(AlgorithmKind::FixedWindow, 10));
        assert_eq!((left(&gate, "another")[1], left(&gate, "own")[1]), (3, 9), "{algorithm}");
        assert!(!admits(&gate, "another", 4) && admits(&gate, "own", 4));
    }
}

#[test]
fn a_cost_that_was_held_is_settled_where_its_limiter_is_now() {
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        let gate = all_and_each(per_day(algorithm, 100), per_day(algorithm, 10));
        let entries = [("user", "ada")];
        let request = Request::from(Descriptor::new(&entries).cost(6));
        let held = [gate.hold(&request).unwrap()];
        amend(&gate, "each", per_day(AlgorithmKind::SlidingLog, 20));
        amend(&gate, "all", Spec::unlimited(algorithm));
        assert_eq!(left(&gate, "ada"), [14]);
        held.into_iter().for_each(|charge| charge.settle(2));
        assert_eq!(left(&gate, "ada"), [18], "{algorithm}");

        // A request that matched fewer rules gives nothing back to the others.
        let held = gate.hold(&request).unwrap();
        amend(&gate, "all", per_day(algorithm, 100));
        assert!(admits(&gate, "bob", 8));
        held.release();
        // Permits come back as a whole.
        let of_all = if algorithm.holds_permits() { [92, 98, 100] } else { [90, 87, 93] };
        assert_eq!(left(&gate, "ada"), [of_all[0], 18], "{algorithm}");
        let _ = gate.settle(&request, None, &[9]);
        assert_eq!(left(&gate, "ada"), [of_all[1], 15], "{algorithm}");
        let _ = gate.refund(&request);
        assert_eq!(left(&gate, "ada"), [of_all[2], 20], "{algorithm}");
    }
}

#[test]
fn a_ban_ends_where_its_rule_is_unlimited() {
    let clock = TestClock::at(TODAY_US);
    let spec = per_day(AlgorithmKind::FixedWindow, 1);
    let rules = vec![RuleSpec::new("each", spec).key(["user"])];
    let ban = Ban::with_clock(1, DAY, DAY, clock.clone()).unwrap();
    let setup = Setup::new(Policy::new(rules).unwrap()).ban("default", "each", ban).unwrap();
    let gate = Gate::with_clock(setup, clock);
    assert!(admits(&gate, "ada", 1) && !admits(&gate, "ada", 1));
    amend(&gate, "each", per_day(AlgorithmKind::FixedWindow, 10));
    assert!(!admits(&gate, "ada", 1), "banned still");
    amend(&gate, "each", Spec::unlimited(AlgorithmKind::FixedWindow));
    assert!(admits(&gate, "ada", 100));
}

/// Seven threads take and give back, under two rules together, while an eighth changes both rules: each unit is
/// counted by both rules or by none, and no more is admitted than the largest limits.
fn eight_threads(algorithms: impl Fn(u64) -> AlgorithmKind + Sync) {
    const MOST: [u64; 2] = [3_000, 1_200];
    let spec = |turn: u64, limit| per_day(algorithms(turn), limit);
    let gate = all_and_each(spec(0, 500), spec(0, 300));
    let taken = [(); 3].map(|()| AtomicU64::new(0));
    let users = ["ada", "bob", "eve"];
    let left_to_run = AtomicU64::new(7);
    let take = |rng: &mut Rng| {
        let (user, cost) = (rng.below(3) as usize, rng.between(1, 3));
        let entries = [("user", users[user])];
        let request = Request::from(Descriptor::new(&entries).cost(cost));
        if rng.chance(20) {
            if let Ok(charge) = gate.hold(&request) {
                if algorithms(0) == algorithms(1) {
                    charge.release();
                } else {
                    // Nothing comes back to another algorithm but what names no time.
                    charge.keep();
                    let _ = gate.refund(&request);
                }
            }
            return;
        }
        let admitted = match rng.chance(30) {
            true => gate.check(&request).is_allowed(),
            false => gate.admits(&request),
        };
        taken[user].fetch_add(cost * u64::from(admitted), SeqCst);
    };
    together(8, |thread, rng| {
        if thread == 7 {
            for turn in 1.. {
                amend(&gate, "all", spec(turn, [3_000, 700, 0, 2_000][turn as usize % 4]));
                amend(&gate, "each", spec(turn + 1, [400, 1_200, 100][turn as usize % 3]));
                if left_to_run.load(SeqCst) == 0 {
                    return;
                }
            }
        }
        (0..1_500).for_each(|_| take(rng));
        left_to_run.fetch_sub(1, SeqCst);
    });
    amend(&gate, "all", spec(0, MOST[0]));
    amend(&gate, "each", spec(1, MOST[1]));
    let taken = taken.map(AtomicU64::into_inner);
    let sum: u64 = taken.iter().sum();
    assert!(sum <= MOST[0] && taken.iter().all(|taken| *taken <= MOST[1]), "{taken:?}");
    for (user, taken) in users.iter().zip(taken) {
        assert_eq!(
            left(&gate, user),
            [MOST[0] - sum, MOST[1] - taken],
            "each unit is counted once"
        );
    }
}

#[test]
fn rules_that_move_while_eight_threads_take_charge_all_or_none() {
    for _ in 0..if long() { 20 } else { 1 } {
        for algorithm in AlgorithmKind::ALL.iter().copied() {
            eight_threads(|_| algorithm);
        }
    }
}

#[test]
fn algorithms_that_change_while_eight_threads_take_lose_no_unit() {
    for _ in 0..if long() { 40 } else { 2 } {
        eight_threads(|turn| AlgorithmKind::ALL[turn as usize % AlgorithmKind::ALL.len()]);
    }
}

/// Two threads each change a rule while others ask for both rules, in either order.
#[test]
fn two_who_change_two_rules_wait_for_nobody_for_ever() {
    let gate = all_and_each(
        per_day(AlgorithmKind::SlidingLog, 10),
        Spec::unlimited(AlgorithmKind::FixedWindow),
    );
    together(6, |thread, rng| {
        for turn in 0..if long() { 20_000 } else { 500 } {
            let rule = ["all", "each"][(thread + turn) as usize % 2];
            match thread {
                0 | 1 if rng.chance(20) => {
                    amend(&gate, rule, Spec::unlimited(AlgorithmKind::TokenBucket))
                }
                0 | 1 => amend(&gate, rule, per_day(AlgorithmKind::FixedWindow, 1 + turn % 9)),
                _ => {
                    let user = ["ada", "bob"][rng.below(2) as usize];
                    admits(&gate, user, rng.below(2));
                    ask(user, 1, |request| gate.refund(request).is_allowed());
                }
            }
        }
    });
    amend(&gate, "all", per_day(AlgorithmKind::FixedWindow, 10));
    amend(&gate, "each", per_day(AlgorithmKind::FixedWindow, 10));
    assert!(left(&gate, "ada").iter().all(|left| *left <= 10));
    ask("ada", 1, |request| assert_eq!(gate.reset(request), 2));
    assert_eq!(left(&gate, "ada"), [10, 10]);
}
