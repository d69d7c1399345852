//! A changed rule: used units stay used. Never a credit, never a reset.

use crate::common::{self, Limiter};
use crate::greedy::{arrivals, grab, most_within};
use crate::{MANY, policy};
use crate::{STEPS, for_many_policies};
use testkit::model::{AlgorithmKind, Policy};
use testkit::traffic::{self, Rng};

/// A limiter after some traffic, and the time of the last request.
fn after_traffic(rng: &mut Rng, policy: &Policy) -> (Box<dyn Limiter>, u64) {
    let mut limiter = common::limiter(policy);
    let requests = traffic::trace(rng, policy, 30);
    for (at_us, cost) in &requests {
        grab(rng, limiter.as_mut(), *at_us, *cost);
    }
    let at_us = requests.last().map_or(0, |(at_us, _)| *at_us);
    (limiter, at_us)
}

/// Units in use; without debts, the limit less the available units.
fn used(limiter: &mut dyn Limiter, at_us: u64) -> u64 {
    let now = limiter.peek(at_us, 0);
    now.limit - now.remaining
}

/// Another rule of any algorithm, whose buckets start full.
fn any_rule(rng: &mut Rng) -> Policy {
    let algorithm = rng.pick(AlgorithmKind::ALL);
    Policy { initial: None, ..limited(policy(rng, algorithm)) }
}

fn limited(policy: Policy) -> Policy {
    Policy { limit: policy.limit.max(1), ..policy }
}

/// The rule with another limit, and for a bucket another capacity.
fn another_limit(rng: &mut Rng, old: &Policy) -> Policy {
    let limit = rng.between(1, 2 * old.limit.min(400_000_000));
    let capacity = old.capacity.map(|capacity| rng.between(1, 2 * capacity.clamp(1, 400_000_000)));
    let next = Policy { limit, capacity, initial: None, ..old.clone() };
    if common::rule(&next).is_ok() { next } else { old.clone() }
}

fn for_many_changes(
    seed: u64,
    next: impl Fn(&mut Rng, &Policy) -> Policy,
    mut check: impl FnMut(&mut Rng, &Policy, &Policy),
) {
    for_many_policies(seed, 2 * MANY, |rng, old| {
        let old = Policy { initial: None, ..limited(old) };
        let new = next(rng, &old);
        check(rng, &old, &new);
    });
}

/// Pitfall: each reload filled every bucket.
#[test]
fn what_was_used_stays_used_under_any_other_rule() {
    let any = |rng: &mut Rng, _: &Policy| any_rule(rng);
    for_many_changes(901, any, |rng, old, new| {
        let (mut limiter, at_us) = after_traffic(rng, old);
        let used = used(limiter.as_mut(), at_us);
        let left = limiter.amend(at_us, new).peek(at_us, 0).remaining;
        assert_eq!(left, new.decision_limit().saturating_sub(used), "{old:?} {new:?}");
    });
}

#[test]
fn no_interval_across_a_change_of_limit_holds_more_than_the_larger_rule_allows() {
    for_many_changes(903, another_limit, |rng, old, new| {
        let mut limiter = common::limiter(old);
        let requests = traffic::trace(rng, old, STEPS);
        let mut got = Vec::new();
        let mut change_at = rng.below(STEPS as u64);
        for (at_us, cost) in requests {
            if change_at == 0 {
                limiter = limiter.amend(at_us, new);
            }
            change_at = change_at.wrapping_sub(1);
            got.extend(grab(rng, limiter.as_mut(), at_us, cost));
        }
        // A queue admits like a bucket with its capacity; its departures have a test of their own.
        let larger = |value: fn(&Policy) -> u64| value(old).max(value(new));
        let bound = match old.algorithm {
            AlgorithmKind::SlidingLog | AlgorithmKind::Concurrency => larger(|p| p.limit),
            AlgorithmKind::SlidingWindow if old.strict => larger(|p| p.limit),
            _ if old.algorithm.has_capacity() => {
                larger(Policy::decision_limit) + larger(|p| p.limit)
            }
            _ => 2 * larger(|p| p.limit),
        };
        let most = most_within(&arrivals(&got), old.window_us);
        assert!(most <= u128::from(bound), "{most} of {bound}: {old:?} {new:?}");
    });
}

/// With another algorithm or window, used units count as taken at the change.
#[test]
fn a_changed_shape_counts_what_was_used_as_taken_now() {
    let any = |rng: &mut Rng, _: &Policy| any_rule(rng);
    for_many_changes(904, any, |rng, old, new| {
        if old.algorithm == new.algorithm || one_algorithm(old.algorithm, new.algorithm) {
            return;
        }
        let (mut limiter, from_us) = after_traffic(rng, old);
        let used = used(limiter.as_mut(), from_us);
        let mut limiter = limiter.amend(from_us, new);
        let mut events = vec![(from_us, used)];
        for (later_us, cost) in traffic::trace(rng, new, STEPS) {
            let at_us = from_us + later_us % (3 * new.window_us);
            let at_us = at_us.max(events.last().map_or(from_us, |(at_us, _)| *at_us));
            events.extend(grab(rng, limiter.as_mut(), at_us, cost).map(|one| (at_us, one.cost)));
        }
        let bound = match new.algorithm {
            AlgorithmKind::LeakyQueue => new.decision_limit() + new.limit,
            _ => limiter.bound(1),
        };
        let most = most_within(&events, new.window_us);
        assert!(most <= u128::from(bound.max(used + new.limit)), "{most}: {old:?} {new:?}");
    });
}

/// Token and leaky bucket are one algorithm, and a state of one is a state of the other.
fn one_algorithm(a: AlgorithmKind, b: AlgorithmKind) -> bool {
    let bucket =
        |algorithm| matches!(algorithm, AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket);
    bucket(a) && bucket(b)
}

/// A limiter under which nothing is used needs no state, so a table may drop it.
#[test]
fn a_closed_limiter_is_forgotten_just_when_nothing_is_used() {
    for_many_policies(910, MANY, |rng, policy| {
        let window_us = policy.window_us * rng.below(2);
        let shut = Policy { limit: 0, window_us, max_debt: Some(1), ..policy.clone() };
        let (mut closed, at_us) = (common::limiter(&shut), 9 * policy.window_us);
        closed.step(at_us, 1);
        assert!(closed.forget_if_new(at_us), "{shut:?}");
        if shut.algorithm == AlgorithmKind::Concurrency {
            return; // a settlement takes nothing
        }
        closed.settle(at_us, 0, 1);
        assert!(!closed.forget_if_new(at_us), "{shut:?}");
        closed.refund(at_us, 1);
        let ends_us = if keeps_its_window(&shut) { at_us + shut.window_us } else { at_us };
        assert!(closed.forget_if_new(ends_us), "{shut:?}");
    });
}

/// Returns whether a window that has begun runs to its end, even if its units are given back.
fn keeps_its_window(policy: &Policy) -> bool {
    policy.algorithm == AlgorithmKind::FixedWindow && policy.anchor_first_request
}

/// A valid rule stays valid with a limit of 0 and no other field changed.
#[test]
fn any_sound_rule_can_be_closed() {
    for_many_policies(911, 2 * MANY, |_, policy| {
        let closed = common::rule(&Policy { limit: 0, ..policy.clone() });
        assert!(closed.is_ok(), "{policy:?}: {closed:?}");
    });
}
