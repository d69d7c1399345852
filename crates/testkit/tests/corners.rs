//! Cases that the definitions leave open, as the models settle them.

use testkit::model::{AlgorithmKind, Model, Policy};

const MS: u64 = 1_000;
const S: u64 = 1_000_000;

fn ten_per_second(algorithm: AlgorithmKind) -> Policy {
    let mut policy = Policy::new(algorithm, 10, S);
    policy.capacity = algorithm.has_capacity().then_some(10);
    policy
}

/// The missing tokens count as taken at its creation, so a clock before that time is clamped to it.
#[test]
fn a_bucket_that_starts_part_full_is_not_waited_for_from_behind_its_birth() {
    let mut policy = ten_per_second(AlgorithmKind::TokenBucket);
    policy.initial = Some(0);
    let mut model = Model::new(policy);
    assert!(!model.step(3600 * S, 1).allowed);
    assert_eq!(model.step(3600 * S - 50 * MS, 1).retry_after_us, Some(150 * MS));
    assert_eq!(model.step(10 * S, 1).retry_after_us, Some(100 * MS));
}

/// Levels and slots are lines through the time of the refund, and hold shortly before it too.
#[test]
fn a_refund_fills_no_further_than_its_own_time() {
    for algorithm in
        [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket, AlgorithmKind::LeakyQueue]
    {
        let mut model = Model::new(ten_per_second(algorithm));
        model.step(0, 6);
        model.refund(100 * MS, 50);
        assert_eq!(model.used(100 * MS), 0, "{}", algorithm.name());
        assert_eq!(model.peek(50 * MS, 0).reset_after_us, 50 * MS, "{}", algorithm.name());
    }
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

/// So a caller who opened a window cannot move it by giving its units back.
#[test]
fn an_anchored_window_emptied_by_a_refund_stays() {
    let mut policy = ten_per_second(AlgorithmKind::FixedWindow);
    policy.anchor_first_request = true;
    let mut model = Model::new(policy);
    model.step(0, 3);
    model.refund(400 * MS, 3);
    assert_eq!(model.peek(400 * MS, 1).reset_after_us, 600 * MS);
    assert_eq!(model.step(500 * MS, 1).reset_after_us, 500 * MS);
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

/// A store may have dropped the limiter, so that must make no difference.
#[test]
fn what_comes_after_a_limit_of_0_with_nothing_used_begins_as_new() {
    let mut policy = ten_per_second(AlgorithmKind::TokenBucket);
    policy.initial = Some(3);
    for window_us in [S, 0] {
        let mut model = Model::new(Policy { limit: 0, window_us, ..policy.clone() });
        model.step(0, 0);
        model.amend(0, policy.clone());
        assert_eq!(model.step(0, 0).remaining, 3);
    }
}

/// The same holds for a bucket that had filled up before: nothing of it is used, so it may have
/// been dropped. A partly used bucket keeps its level.
#[test]
fn a_bucket_that_had_filled_up_begins_with_initial_again_after_a_limit_of_0() {
    let mut policy = ten_per_second(AlgorithmKind::TokenBucket);
    policy.initial = Some(0);
    for (used, left) in [(0, 0), (1, 9), (6, 4)] {
        let mut model = Model::new(policy.clone());
        model.step(0, 0);
        model.step(S, used);
        assert_eq!(model.peek(S, 0).remaining, 10 - used);
        model.amend(S, Policy { limit: 0, ..policy.clone() });
        model.amend(S, policy.clone());
        assert_eq!(model.step(S, 0).remaining, left);
    }
}

/// A wait is counted on the clock that was read, a delay is not.
#[test]
fn a_clock_a_little_back_waits_for_what_it_lacks_as_well() {
    let mut model = Model::new(ten_per_second(AlgorithmKind::LeakyQueue));
    model.step(S, 11);
    let (there, back) = (model.peek(S, 1), model.peek(S - 300 * MS, 1));
    assert_eq!((there.retry_after_us, there.reset_after_us), (Some(100 * MS), 1_100 * MS));
    assert_eq!((back.retry_after_us, back.reset_after_us), (Some(400 * MS), 1_400 * MS));
    assert!(!model.peek(S + 100 * MS - 1, 1).allowed);
    let admitted = model.step(S + 100 * MS, 1);
    model.refund(S + 100 * MS, 1);
    assert_eq!(model.step(S - 300 * MS, 1).delay_us, admitted.delay_us);
}

/// A look at a limiter that does not exist shows a fresh one, and does not create it.
#[test]
fn a_look_creates_nothing() {
    let mut policy = ten_per_second(AlgorithmKind::TokenBucket);
    policy.initial = Some(3);
    let mut model = Model::new(policy);
    assert_eq!((model.peek(0, 1).remaining, model.used(0)), (3, 7));
    model.refund(0, 5);
    assert_eq!(model.step(S, 0).remaining, 3);
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
