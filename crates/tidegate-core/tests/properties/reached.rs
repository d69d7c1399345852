//! The bounds are exact: traffic that knows the rule reaches them.

use crate::{common, for_many_of};
use testkit::model::{AlgorithmKind, Policy};

const RULES: u64 = 200;

/// The units taken when each `(at_us, cost)` is asked for in turn; all must be admitted.
fn all_admitted(policy: &Policy, requests: &[(u64, u64)]) -> u64 {
    let mut limiter = common::limiter(policy);
    for (at_us, cost) in requests {
        assert!(limiter.step(*at_us, *cost).allowed, "{cost} at {at_us}: {policy:?}");
    }
    requests.iter().map(|(_, cost)| cost).sum()
}

fn for_rules_of(algorithm: AlgorithmKind, seed: u64, mut check: impl FnMut(Policy)) {
    for_many_of(algorithm, seed, RULES, &mut |_, policy| {
        if policy.limit > 0 {
            check(policy);
        }
    });
}

/// The whole of one window in its last microsecond, the whole of the next in its first.
#[test]
fn fixed_windows_are_made_to_admit_twice_the_limit() {
    for_rules_of(AlgorithmKind::FixedWindow, 201, |policy| {
        let policy = Policy { anchor_first_request: false, ..policy };
        let (n, w) = (policy.limit, policy.window_us);
        let got = all_admitted(&policy, &[(5 * w - 1, n), (5 * w, n)]);
        assert_eq!(got, common::limiter(&policy).bound(n), "{policy:?}");
    });
}

/// One unit opens the window, the rest comes in its last microsecond, then all of the next.
#[test]
fn a_window_that_begins_at_its_first_unit_is_made_to_admit_one_less_than_twice_the_limit() {
    for_rules_of(AlgorithmKind::FixedWindow, 202, |policy| {
        let policy = Policy { anchor_first_request: true, ..policy };
        let (n, w) = (policy.limit, policy.window_us);
        let got = all_admitted(&policy, &[(0, 1), (w - 1, n - 1), (w, n)]) - 1;
        let bound = common::limiter(&policy).bound(n);
        assert_eq!(got, bound, "all but the first within (0, W]: {policy:?}");
    });
}

/// The last microsecond of a bucket, and the first in which it no longer counts.
#[test]
fn a_sliding_window_is_made_to_admit_twice_the_limit_unless_it_is_strict() {
    for_rules_of(AlgorithmKind::SlidingWindow, 203, |policy| {
        let (n, w) = (policy.limit, policy.window_us);
        let width = w / policy.buckets;
        let span = if policy.strict { policy.buckets + 1 } else { policy.buckets };
        let (first, second) = (3 * w + width - 1, 3 * w + span * width);
        let got = all_admitted(&policy, &[(first, n), (second, n)]);
        if second - first < w {
            assert_eq!(got, common::limiter(&policy).bound(n), "{policy:?}");
        }
        assert_eq!(second - first >= w, policy.strict || width == 1, "{policy:?}");
    });
}

#[test]
fn strict_windows_and_logs_admit_the_whole_limit_at_once() {
    for_rules_of(AlgorithmKind::SlidingWindow, 204, |policy| {
        let policy = Policy { strict: true, ..policy };
        let got = all_admitted(&policy, &[(policy.window_us, policy.limit)]);
        assert_eq!(got, common::limiter(&policy).bound(1), "{policy:?}");
    });
    for_rules_of(AlgorithmKind::SlidingLog, 205, |policy| {
        let got = all_admitted(&policy, &[(policy.window_us, policy.limit)]);
        assert_eq!(got, common::limiter(&policy).bound(1), "{policy:?}");
    });
}

/// All units at the end of one window; at the end of the next nearly nothing of them counts.
#[test]
fn a_sliding_counter_is_made_to_admit_one_less_than_twice_the_limit() {
    for_rules_of(AlgorithmKind::SlidingCounter, 206, |policy| {
        let (n, w) = (policy.limit, policy.window_us);
        if 2 * n <= w {
            let got = all_admitted(&policy, &[(w - 1, n), (2 * w - 2, n - 1)]);
            assert_eq!(got, common::limiter(&policy).bound(n), "{policy:?}");
        }
    });
}

/// A closed interval of length W holds capacity + N. A half-open interval is a microsecond shorter, and lacks the
/// inflow of that microsecond.
#[test]
fn a_bucket_is_made_to_admit_its_capacity_and_the_limit() {
    for algorithm in [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket] {
        for_rules_of(algorithm, 207, |policy| {
            let policy = Policy { capacity: None, initial: None, ..policy };
            let (n, w, capacity) = (policy.limit, policy.window_us, policy.capacity());
            let bound = common::limiter(&policy).bound(n);
            assert_eq!(all_admitted(&policy, &[(9, capacity), (9 + w, n)]), bound, "{policy:?}");
            let half_open = n - n.div_ceil(w);
            let got = all_admitted(&policy, &[(9, capacity), (9 + w - 1, half_open)]);
            assert_eq!(got, bound - n.div_ceil(w), "{policy:?}");
        });
    }
}

/// N - 1 units in the slots of one window, then a request whose units all leave in the Nth.
#[test]
fn a_queue_is_made_to_let_n_and_a_request_leave_within_a_window() {
    for_rules_of(AlgorithmKind::LeakyQueue, 208, |policy| {
        let n = policy.limit.min(200);
        let cost = policy.capacity().clamp(1, 1_000);
        let policy = Policy { limit: n, capacity: Some(n + cost), ..policy };
        if common::rule(&policy).is_err() {
            return; // so slow that the longer queue could not be told
        }
        let mut limiter = common::limiter(&policy);
        for _ in 1..n {
            assert!(limiter.step(7, 1).allowed, "{policy:?}");
        }
        let last = limiter.step(7, cost);
        assert!(last.allowed && last.delay_us < policy.window_us, "{last:?}: {policy:?}");
        assert_eq!(n - 1 + cost, limiter.bound(cost), "{policy:?}");
    });
}
