//! Cases that the definitions leave open, as the models settle them.

use testkit::model::{AlgorithmKind, Model, Policy};

const MS: u64 = 1_000;
const S: u64 = 1_000_000;

fn ten_per_second(algorithm: AlgorithmKind) -> Policy {
    let mut policy = Policy::new(algorithm, 10, S);
    policy.capacity = algorithm.has_capacity().then_some(10);
    policy
}

#[test]
fn a_refund_of_nothing_and_a_change_of_nothing_leave_nothing_used() {
    for algorithm in AlgorithmKind::ALL {
        let mut model = Model::new(ten_per_second(algorithm));
        model.step(0, 1);
        model.refund(900 * MS, 1);
        model.refund(900 * MS, 1);
        let used = model.used(500 * MS);
        model.forget();
        model.step(0, 0);
        model.amend(900 * MS, Policy { limit: 20, ..ten_per_second(algorithm) });
        assert_eq!((used, model.used(500 * MS)), (0, 0), "{}", algorithm.name());
    }
}

/// Used units stay used, and can be settled, through a limit of 0 with or without a window.
#[test]
fn a_limit_of_0_keeps_what_was_used() {
    for algorithm in AlgorithmKind::ALL {
        for window_us in [S, 0] {
            let policy = ten_per_second(algorithm);
            let mut model = Model::new(policy.clone());
            model.step(0, 6);
            model.amend(
                0,
                Policy { limit: 0, window_us, max_debt: Some(u64::MAX), ..policy.clone() },
            );
            model.settle(0, 0, 5);
            model.refund(0, 2);
            // Units settled above the reservation take no permit.
            let settled = if model.policy().holds_permits() { 0 } else { 5 };
            assert_eq!(model.used(0), 4 + settled, "{}", algorithm.name());
            assert_eq!(model.step(0, 1).retry_after_us, None, "{}", algorithm.name());
            model.amend(0, policy.clone());
            let left = policy.decision_limit() - 4 - settled;
            assert_eq!(model.peek(0, 0).remaining, left, "{}", algorithm.name());
        }
    }
}

/// Time passes under a limit of 0: units leave with the window, if there is one; at a rate of 0 per
/// window nothing drains, and `reset_after` is the time until the last instant.
#[test]
fn units_leave_a_window_of_limit_0_but_no_level_and_not_without_a_window() {
    for algorithm in AlgorithmKind::ALL {
        for window_us in [S, 0] {
            let mut model = Model::new(ten_per_second(algorithm));
            model.step(0, 6);
            model.amend(0, Policy { limit: 0, window_us, ..ten_per_second(algorithm) });
            let stays = algorithm.has_capacity() || window_us == 0;
            assert_eq!(model.used(2 * S), if stays { 6 } else { 0 }, "{}", algorithm.name());
            let reset_us = model.peek(2 * S, 0).reset_after_us;
            let last_us = (1 << 53) - 1;
            assert_eq!(reset_us, if stays { last_us - 2 * S } else { 0 }, "{}", algorithm.name());
        }
    }
}

/// The fresh limiter starts with `initial` and also owes the units used before.
#[test]
fn a_limiter_begun_anew_by_a_change_starts_with_initial() {
    let mut model = Model::new(ten_per_second(AlgorithmKind::SlidingLog));
    model.step(0, 4);
    let initial = Some(6);
    model.amend(0, Policy { initial, ..ten_per_second(AlgorithmKind::TokenBucket) });
    assert_eq!(model.peek(0, 0).remaining, 2);
}

#[test]
fn the_shift_of_a_clock_far_back_happens_in_a_look_too() {
    for algorithm in AlgorithmKind::ALL {
        let mut model = Model::new(ten_per_second(algorithm));
        model.step(3600 * S, 10);
        let seen = model.peek(5 * S, 1);
        let before = model.peek(4500 * MS, 1);
        assert_eq!(before.remaining, seen.remaining, "{}", algorithm.name());
        let later = |wait_us| if wait_us > 0 { wait_us + 500 * MS } else { 0 };
        let waits = (seen.retry_after_us.map(later), later(seen.reset_after_us));
        assert_eq!((before.retry_after_us, before.reset_after_us), waits, "{}", algorithm.name());
        assert_eq!(model.used(10 * S), 0, "{}", algorithm.name());
    }
}
