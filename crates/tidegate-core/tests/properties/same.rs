//! Algorithms that the definitions call equal decide the same, to the last value.

use crate::{MANY, STEPS, answers, for_many_of, policy, times_as_many};
use testkit::model::{AlgorithmKind, Policy};
use testkit::traffic::{self, Rng};

fn assert_same(rng: &mut Rng, one: &Policy, other: &Policy) {
    let requests = traffic::jumpy_trace(rng, one, STEPS);
    assert_eq!(answers(one, &requests), answers(other, &requests), "{one:?} {other:?}");
}

#[test]
fn an_aligned_fixed_window_is_a_sliding_window_of_one_bucket() {
    for_many_of(AlgorithmKind::FixedWindow, 601, 2 * MANY, &mut |rng, policy| {
        let aligned = Policy { anchor_first_request: false, ..policy };
        let one_bucket =
            Policy { algorithm: AlgorithmKind::SlidingWindow, buckets: 1, ..aligned.clone() };
        assert_same(rng, &aligned, &one_bucket);
    });
}

#[test]
fn a_leaky_bucket_is_a_token_bucket() {
    for_many_of(AlgorithmKind::LeakyBucket, 602, 2 * MANY, &mut |rng, leaky| {
        let token = Policy { algorithm: AlgorithmKind::TokenBucket, ..leaky.clone() };
        assert_same(rng, &leaky, &token);
    });
}

#[test]
fn gcra_is_the_token_bucket_by_another_name() {
    use tidegate_core::AlgorithmKind;
    assert_eq!(AlgorithmKind::from_name("gcra"), Some(AlgorithmKind::TokenBucket));
}

/// The cell rate algorithm of ITU-T I.371, as it is written: an increment T = W/N, a tolerance of
/// (capacity - 1) increments, and a theoretical arrival time. In N-ths of a microsecond.
#[test]
fn a_token_bucket_is_the_cell_rate_algorithm() {
    for_many_of(AlgorithmKind::TokenBucket, 603, 2 * MANY, &mut |rng, policy| {
        let policy = Policy { initial: None, limit: policy.limit.max(1), ..policy };
        let requests = traffic::trace(rng, &policy, STEPS);
        let (n, w) = (i128::from(policy.limit), i128::from(policy.window_us));
        let tolerance = (i128::from(policy.capacity()) - 1) * w;
        let mut arrival = 0;
        let unit_costs: Vec<_> = requests.iter().map(|(at_us, _)| (*at_us, 1)).collect();
        for ((at_us, _), answer) in unit_costs.iter().zip(answers(&policy, &unit_costs)) {
            let now = i128::from(*at_us) * n;
            let conforms = now >= arrival - tolerance;
            if conforms {
                arrival = arrival.max(now) + w;
            }
            assert_eq!(answer.allowed, conforms, "at {at_us}: {policy:?}");
        }
    });
}

/// A thousand buckets in a millisecond are as fine as the clock.
#[test]
fn a_sliding_window_as_fine_as_the_clock_is_the_log() {
    let mut rng = Rng::new(604);
    for _ in 0..times_as_many(2 * MANY) {
        let limit = policy(&mut rng, AlgorithmKind::SlidingLog).limit;
        let log = Policy::new(AlgorithmKind::SlidingLog, limit, 1_000);
        let finest =
            Policy { algorithm: AlgorithmKind::SlidingWindow, buckets: 1_000, ..log.clone() };
        assert_same(&mut rng, &log, &finest);
    }
}
