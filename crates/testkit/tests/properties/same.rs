//! Different ways to the same state decide the same.

use crate::{POLICIES, STEPS, answers, for_many_policies};
use testkit::model::{AlgorithmKind, Model, Policy};
use testkit::traffic::{self, Rng};

#[test]
fn a_denied_request_changes_no_later_decision() {
    for_many_policies(14, |rng, policy| {
        let mut requests = traffic::trace(rng, &policy, STEPS);
        requests[0].1 = 0; // the birth, whatever its outcome, stays
        let all = answers(&policy, &requests);
        let (kept, want): (Vec<_>, Vec<_>) =
            requests.into_iter().zip(all).filter(|(_, answer)| answer.allowed).unzip();
        assert_eq!(answers(&policy, &kept), want, "{policy:?}");
    });
}

#[test]
fn what_the_definitions_call_the_same_is_the_same() {
    let mut rng = Rng::new(17);
    for _ in 0..POLICIES {
        let mut aligned = traffic::policy(&mut rng, AlgorithmKind::FixedWindow);
        aligned.anchor_first_request = false;
        let one_bucket =
            Policy { algorithm: AlgorithmKind::SlidingWindow, buckets: 1, ..aligned.clone() };
        assert_same(&mut rng, &aligned, &one_bucket);

        let leaky = traffic::policy(&mut rng, AlgorithmKind::LeakyBucket);
        let token = Policy { algorithm: AlgorithmKind::TokenBucket, ..leaky.clone() };
        assert_same(&mut rng, &leaky, &token);

        let mut log = traffic::policy(&mut rng, AlgorithmKind::SlidingLog);
        log.resolution_us = 1;
        let buckets = log.window_us;
        let finest = Policy { algorithm: AlgorithmKind::SlidingWindow, buckets, ..log.clone() };
        assert_same(&mut rng, &log, &finest);
    }
}

fn assert_same(rng: &mut Rng, one: &Policy, other: &Policy) {
    let requests = traffic::jumpy_trace(rng, one, STEPS);
    assert_eq!(answers(one, &requests), answers(other, &requests), "{one:?} {other:?}");
}

#[test]
fn a_forgotten_limiter_is_a_new_one() {
    for_many_policies(21, |rng, policy| {
        let mut model = Model::new(policy.clone());
        for (at_us, cost) in traffic::jumpy_trace(rng, &policy, 20) {
            model.step(at_us, cost);
        }
        model.forget();
        let requests = traffic::jumpy_trace(rng, &policy, 20);
        let again: Vec<_> = requests.iter().map(|(at, cost)| model.step(*at, *cost)).collect();
        assert_eq!(again, answers(&policy, &requests));
    });
}
