//! The shaping queue: when requests leave, by its definition in exact fractions.

use crate::greedy::{Admitted, greedy};
use crate::{STEPS, common, for_many_of};
use testkit::model::{AlgorithmKind, Policy};
use testkit::traffic;

const RULES: u64 = 300;

/// An admitted request leaves at max(t, next_free), and next_free moves on by c x W/N. Times here
/// are N-ths of a microsecond.
fn check_departures(policy: &Policy, admitted: &[Admitted]) {
    let n = u128::from(policy.limit);
    let mut next_free = 0_u128;
    for one in admitted.iter().filter(|one| one.cost > 0) {
        let now = u128::from(one.at_us) * n;
        let leaves = now.max(next_free);
        assert_eq!(u128::from(one.delay_us), (leaves - now).div_ceil(n), "{one:?}: {policy:?}");
        next_free = leaves + u128::from(one.cost) * u128::from(policy.window_us);
    }
}

#[test]
fn a_queue_lets_each_request_leave_at_the_next_free_slot() {
    for_many_of(AlgorithmKind::LeakyQueue, 301, RULES, &mut |rng, policy| {
        check_departures(&policy, &greedy(rng, &policy, STEPS));
    });
}

/// Times in replies are rounded up to the microsecond, so two of them may stand up to one closer.
#[test]
fn units_leave_a_queue_in_order_and_a_slot_apart() {
    for_many_of(AlgorithmKind::LeakyQueue, 302, RULES, &mut |rng, policy| {
        let mut limiter = common::limiter(&policy);
        let mut leaves_us = Vec::new();
        for (at_us, _) in traffic::trace(rng, &policy, STEPS) {
            let answer = limiter.step(at_us, 1);
            leaves_us.extend(answer.allowed.then_some(at_us + answer.delay_us));
        }
        for (i, early) in leaves_us.iter().enumerate() {
            for (slots, late) in leaves_us[i..].iter().enumerate().skip(1) {
                let apart = u128::from(late - early + 1) * u128::from(policy.limit);
                assert!(apart > slots as u128 * u128::from(policy.window_us), "{policy:?}");
            }
        }
    });
}

#[test]
fn nobody_is_held_longer_than_a_full_queue_takes() {
    for_many_of(AlgorithmKind::LeakyQueue, 303, RULES, &mut |rng, policy| {
        let full = u128::from(policy.capacity()) * u128::from(policy.window_us);
        let longest = full.div_ceil(u128::from(policy.limit.max(1)));
        let admitted = greedy(rng, &policy, STEPS);
        assert!(admitted.iter().all(|one| u128::from(one.delay_us) <= longest), "{policy:?}");
    });
}

#[test]
fn only_a_queue_holds_what_it_admits() {
    crate::for_many_policies(304, 60, |rng, policy| {
        if policy.algorithm != AlgorithmKind::LeakyQueue {
            let admitted = greedy(rng, &policy, STEPS);
            assert!(admitted.iter().all(|one| one.delay_us == 0), "{policy:?}");
        }
    });
}
