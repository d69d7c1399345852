//! What the definitions leave open, as the models settle it.

use testkit::model::{Algorithm, Model, Policy};

const MS: u64 = 1_000;
const S: u64 = 1_000_000;

fn ten_per_second(algorithm: Algorithm) -> Policy {
    let mut policy = Policy::new(algorithm, 10, S);
    policy.capacity = algorithm.has_capacity().then_some(10);
    policy
}

/// The tokens it lacks count as taken at its birth, so a clock behind it is held to it.
#[test]
fn a_bucket_that_starts_part_full_is_not_waited_for_from_behind_its_birth() {
    let mut policy = ten_per_second(Algorithm::TokenBucket);
    policy.initial = Some(0);
    let mut model = Model::new(policy);
    assert!(!model.step(3600 * S, 1).allowed);
    assert_eq!(model.step(3600 * S - 50 * MS, 1).retry_after_us, Some(100 * MS));
    assert_eq!(model.step(10 * S, 1).retry_after_us, Some(100 * MS));
}

/// Levels and slots are lines through the time of the refund, and hold shortly before it too.
#[test]
fn a_refund_fills_no_further_than_its_own_time() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket, Algorithm::LeakyQueue] {
        let mut model = Model::new(ten_per_second(algorithm));
        model.step(0, 6);
        model.refund(100 * MS, 50);
        assert_eq!(model.used(100 * MS), 0, "{}", algorithm.name());
        assert_eq!(model.peek(50 * MS, 0).reset_after_us, 50 * MS, "{}", algorithm.name());
    }
}

#[test]
fn a_refund_of_nothing_and_a_change_of_nothing_leave_nothing_used() {
    for algorithm in Algorithm::ALL {
        let mut model = Model::new(ten_per_second(algorithm));
        model.step(0, 1);
        model.refund(900 * MS, 1);
        model.refund(900 * MS, 1);
        let used = model.used(500 * MS);
        model.reset();
        model.step(0, 0);
        model.amend(900 * MS, Policy { limit: 20, ..ten_per_second(algorithm) });
        assert_eq!((used, model.used(500 * MS)), (0, 0), "{}", algorithm.name());
    }
}

/// So that a limiter with nothing used may be dropped: a new one would decide the same.
#[test]
fn an_anchored_window_emptied_by_a_refund_is_as_good_as_none() {
    let mut policy = ten_per_second(Algorithm::FixedWindow);
    policy.anchor_first_request = true;
    let mut model = Model::new(policy);
    model.step(0, 3);
    model.refund(400 * MS, 3);
    assert_eq!(model.peek(400 * MS, 1).reset_after_us, 0);
    assert_eq!(model.step(500 * MS, 1).reset_after_us, S);
}

#[test]
fn what_comes_after_a_limit_of_0_begins_as_new() {
    for algorithm in Algorithm::ALL {
        let policy = ten_per_second(algorithm);
        let mut model = Model::new(policy.clone());
        model.step(0, 10);
        model.amend(0, Policy { limit: 0, ..policy.clone() });
        model.settle(0, 0, 5);
        assert_eq!(model.used(0), 0, "{}", algorithm.name());
        model.amend(0, policy);
        assert!(model.step(0, 10).allowed, "{}", algorithm.name());
    }
}

/// A look at a limiter that does not exist shows it as new, and does not create it.
#[test]
fn a_look_creates_nothing() {
    let mut policy = ten_per_second(Algorithm::TokenBucket);
    policy.initial = Some(3);
    let mut model = Model::new(policy);
    assert_eq!((model.peek(0, 1).remaining, model.used(0)), (3, 7));
    model.refund(0, 5);
    assert_eq!(model.step(S, 0).remaining, 3);
}

/// The fresh limiter starts with `initial` and owes what was used besides.
#[test]
fn a_limiter_begun_anew_by_a_change_starts_with_initial() {
    let mut model = Model::new(ten_per_second(Algorithm::SlidingLog));
    model.step(0, 4);
    let initial = Some(6);
    model.amend(0, Policy { initial, ..ten_per_second(Algorithm::TokenBucket) });
    assert_eq!(model.peek(0, 0).remaining, 2);
}

#[test]
fn the_shift_of_a_clock_far_back_happens_in_a_look_too() {
    for algorithm in Algorithm::ALL {
        let mut model = Model::new(ten_per_second(algorithm));
        model.step(3600 * S, 10);
        let seen = model.peek(5 * S, 1);
        assert_eq!(model.peek(4500 * MS, 1), seen, "{}", algorithm.name());
        assert_eq!(model.used(10 * S), 0, "{}", algorithm.name());
    }
}
