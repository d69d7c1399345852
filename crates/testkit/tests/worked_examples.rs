//! The worked examples of the definitions, request by request.

use testkit::model::{AlgorithmKind, Model, Policy};

const MS: u64 = 1_000;
const S: u64 = 1_000_000;

#[test]
fn sliding_log_of_two_per_second() {
    let mut model = Model::new(Policy::new(AlgorithmKind::SlidingLog, 2, S));
    let answers = [100, 400, 500, 1100].map(|at| model.step(at * MS, 1));
    assert_eq!(answers.map(|answer| answer.allowed), [true, true, false, true]);
    assert_eq!(answers[2].retry_after_us, Some(600 * MS));
}

#[test]
fn two_hundred_on_each_side_of_a_minute() {
    let admitted = |algorithm| {
        let mut policy = Policy::new(algorithm, 200, 60 * S);
        policy.buckets = 6;
        let mut model = Model::new(policy);
        let sides = [59_900 * MS, 60 * S];
        let times = sides.into_iter().flat_map(|side| (0..200).map(move |i| side + i));
        times.filter(|at_us| model.step(*at_us, 1).allowed).count()
    };
    assert_eq!(admitted(AlgorithmKind::FixedWindow), 400);
    for algorithm in [
        AlgorithmKind::SlidingWindow,
        AlgorithmKind::SlidingCounter,
        AlgorithmKind::SlidingLog,
        AlgorithmKind::TokenBucket,
        AlgorithmKind::LeakyBucket,
    ] {
        assert_eq!(admitted(algorithm), 200, "{}", algorithm.name());
    }
}

/// Units of each bucket differ in size, so the sum shows which buckets count.
#[test]
fn a_decision_at_180_adds_four_buckets_of_25() {
    let mut policy = Policy::new(AlgorithmKind::SlidingWindow, 100_000, 100 * MS);
    policy.buckets = 4;
    let mut model = Model::new(policy);
    for (at, cost) in [(99, 10_000), (100, 1_000), (149, 100), (150, 10), (178, 1)] {
        assert!(model.step(at * MS, cost).allowed);
    }
    assert_eq!(model.used(180 * MS), 1_111);
}

#[test]
fn a_unit_at_27_lies_in_the_bucket_that_began_at_20() {
    let mut policy = Policy::new(AlgorithmKind::SlidingWindow, 1, 40 * MS);
    policy.buckets = 4;
    let mut model = Model::new(policy);
    assert_eq!(model.step(27 * MS, 1).reset_after_us, (20 + 40 - 27) * MS);
}

/// A caller that comes back after each `retry_after`, which is as often as tokens come.
#[test]
fn a_bucket_of_seven_per_second_saturated_over_a_closed_day() {
    let day_us = 86_400 * S;
    let mut model = Model::new(Policy::new(AlgorithmKind::TokenBucket, 7, S));
    let (mut at_us, mut admitted) = (0, 0_u64);
    while at_us <= day_us {
        let answer = model.step(at_us, 1);
        admitted += u64::from(answer.allowed);
        at_us += answer.retry_after_us.unwrap();
    }
    assert_eq!(admitted, 7 + 604_800);
}

#[test]
fn two_requests_in_one_tick_both_count() {
    for algorithm in AlgorithmKind::ALL {
        let mut policy = Policy::new(algorithm, 2, S);
        policy.capacity = Some(if algorithm == AlgorithmKind::LeakyQueue { 1 } else { 2 });
        let mut model = Model::new(policy);
        let answers = [(); 3].map(|()| model.step(5 * S, 1).allowed);
        assert_eq!(answers, [true, true, false], "{}", algorithm.name());
    }
}
