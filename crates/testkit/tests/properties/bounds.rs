//! The models keep the bounds of the definitions.

use crate::{STEPS, answers, for_many_policies, would};
use testkit::admissions::{self, Admission};
use testkit::model::{AlgorithmKind, Model, Policy};
use testkit::traffic;

/// Units that the rule may admit within an interval of length W, without debt and steps of the
/// clock.
fn bound(policy: &Policy) -> u64 {
    let n = policy.limit;
    match policy.algorithm {
        AlgorithmKind::SlidingLog | AlgorithmKind::Concurrency => n,
        AlgorithmKind::SlidingWindow if policy.strict => n,
        AlgorithmKind::FixedWindow
        | AlgorithmKind::SlidingWindow
        | AlgorithmKind::SlidingCounter => 2 * n,
        AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket | AlgorithmKind::LeakyQueue => {
            policy.decision_limit() + n
        }
    }
}

fn most_within(taken: &[(u64, u64)], length_us: u64) -> u64 {
    let taken: Vec<_> = taken.iter().map(|(at_us, cost)| Admission::at(*at_us, *cost)).collect();
    admissions::most_within(&taken, length_us).0
}

#[test]
fn no_interval_of_a_window_admits_more_than_the_bound() {
    for_many_policies(15, |rng, policy| {
        let requests = traffic::trace(rng, &policy, STEPS);
        let all = answers(&policy, &requests);
        let pairs = requests.into_iter().zip(all);
        let taken: Vec<_> = pairs.filter(|(_, answer)| answer.allowed).map(|pair| pair.0).collect();
        assert!(most_within(&taken, policy.window_us) <= bound(&policy), "{policy:?}");
        if policy.algorithm == AlgorithmKind::SlidingWindow && policy.buckets > 1 {
            let shorter = policy.window_us - policy.window_us / policy.buckets;
            assert!(most_within(&taken, shorter) <= policy.limit, "{policy:?}");
        }
    });
}

/// Times are moved by whole buckets, so the wait may grow to the rest of one more bucket or tick.
#[test]
fn nobody_waits_longer_because_the_clock_stepped_back() {
    for_many_policies(16, |rng, policy| {
        let fill = u128::from(policy.decision_limit()) * u128::from(policy.window_us);
        let fill_us = u64::try_from(fill.div_ceil(u128::from(policy.limit.max(1)))).unwrap();
        let longest_us = match policy.algorithm {
            _ if policy.algorithm.has_capacity() => fill_us + 1,
            AlgorithmKind::FixedWindow => policy.window_us,
            _ => 2 * policy.window_us,
        };
        let mut model = Model::new(policy.clone());
        for (at_us, cost) in traffic::jumpy_trace(rng, &policy, STEPS) {
            let answer = model.step(at_us, cost);
            let Some(wait_us) = answer.retry_after_us.filter(|_| !answer.allowed) else {
                continue;
            };
            let back_us = policy.window_us; // the wait counts on a clock that may lack so much
            assert!(wait_us <= back_us + longest_us + policy.resolution_us, "{wait_us} {policy:?}");
            assert!(would(&model, at_us + wait_us, cost), "{policy:?}");
            assert!(!would(&model, at_us + wait_us - 1, cost), "{policy:?}");
        }
    });
}
