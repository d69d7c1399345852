//! The shaping queue: when requests leave, by its definition in exact fractions.

use crate::greedy::{Admitted, greedy};
use crate::{STEPS, for_many_of};
use testkit::model::{AlgorithmKind, Policy};

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
