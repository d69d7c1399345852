//! Operations that change nothing: refusals, looks, costs of 0, and dropping an idle state.
//!
//! The clocks here go forward, because a reading far in the past moves the state, with any verb.

use crate::{MANY, STEPS, answers, common, for_many_policies};
use testkit::model::Policy;

use testkit::traffic;

#[test]
fn a_refusal_changes_no_later_decision() {
    for_many_policies(401, 2 * MANY, |rng, policy| {
        let mut requests = traffic::trace(rng, &policy, STEPS);
        requests[0].1 = 0; // the birth, whatever its outcome, stays
        let all = answers(&policy, &requests);
        let pairs = requests.into_iter().zip(all);
        let (kept, want): (Vec<_>, Vec<_>) = pairs.filter(|(_, answer)| answer.allowed).unzip();
        assert_eq!(answers(&policy, &kept), want, "{policy:?}");
    });
}

#[test]
fn a_refused_request_is_refused_again_with_the_same_values() {
    for_many_policies(402, MANY, |rng, policy| {
        let mut limiter = common::limiter(&policy);
        for (at_us, cost) in traffic::trace(rng, &policy, STEPS) {
            let answer = limiter.step(at_us, cost);
            if !answer.allowed {
                assert_eq!(limiter.step(at_us, cost), answer, "{policy:?}");
            }
        }
    });
}

#[test]
fn looking_changes_nothing() {
    for_many_policies(403, MANY, |rng, policy| {
        let requests = traffic::trace(rng, &policy, STEPS);
        let want = answers(&policy, &requests);
        let mut limiter = common::limiter(&policy);
        for ((at_us, cost), want) in requests.into_iter().zip(want) {
            limiter.peek(at_us, cost);
            limiter.peek(at_us + rng.below(3 * policy.window_us), rng.clone().skewed(u64::MAX));
            assert_eq!(limiter.step(at_us, cost), want, "{policy:?}");
            limiter.peek(at_us, 1);
        }
    });
}

/// This includes a look at a later time than the next request. The usage left by a change stays, and so do the units
/// that may be given back.
#[test]
fn looking_changes_nothing_where_the_rule_has_changed() {
    let mut eased = 0;
    for_many_policies(408, 4 * MANY, |rng, policy| {
        let mut policy = Policy { initial: None, ..policy };
        let mut limiters = [common::limiter(&policy), common::limiter(&policy)];
        let mut held = Vec::new();
        for (at_us, cost) in traffic::trace(rng, &policy, STEPS) {
            let later_us = at_us + rng.below(3 * policy.window_us);
            limiters[1].peek(later_us, 1);
            let what = rng.below(10);
            if what == 0 {
                let limit = rng.pick([policy.limit.div_ceil(10), policy.limit, policy.limit * 2]);
                let next = Policy { limit, ..policy.clone() };
                if common::rule(&next).is_ok() {
                    policy = next;
                    limiters = limiters.map(|limiter| limiter.amend(at_us, &policy));
                    eased += 1;
                }
            } else if what < 4 {
                let [(want, since_us), seen] =
                    limiters.each_mut().map(|limiter| limiter.reserve(at_us, cost));
                assert_eq!(seen, (want, since_us), "{policy:?}");
                held.extend(want.allowed.then_some((since_us, cost)));
            } else if let (7.., Some((since_us, cost))) = (what, held.pop()) {
                let [want, seen] = limiters
                    .each_mut()
                    .map(|limiter| limiter.settle_since(at_us, since_us, cost, cost / 2));
                assert_eq!(seen, want, "{policy:?}");
            }
            let [want, seen] = limiters.each_mut().map(|limiter| limiter.step(at_us, cost));
            assert_eq!(seen, want, "{policy:?}");
        }
    });
    assert!(eased > 1_000, "only {eased} changes");
}

#[test]
fn a_look_says_what_the_request_is_then_answered() {
    for_many_policies(404, MANY, |rng, policy| {
        let mut limiter = common::limiter(&policy);
        for (at_us, cost) in traffic::trace(rng, &policy, STEPS) {
            let (seen, answer) = (limiter.peek(at_us, cost), limiter.step(at_us, cost));
            assert_eq!(
                (seen.allowed, seen.retry_after_us, seen.delay_us),
                (answer.allowed, answer.retry_after_us, answer.delay_us),
                "{policy:?}"
            );
            if answer.allowed {
                assert_eq!(seen.remaining - cost, answer.remaining, "{policy:?}");
            }
        }
    });
}

/// The creation of a bucket that starts with fewer tokens is an exception, so all limiters are
/// created first here.
#[test]
fn a_cost_of_nothing_is_always_admitted_and_changes_nothing() {
    for_many_policies(405, MANY, |rng, policy| {
        let mut requests = traffic::trace(rng, &policy, STEPS);
        requests[0].1 = 0;
        let want = answers(&policy, &requests);
        let mut limiter = common::limiter(&policy);
        for ((at_us, cost), want) in requests.into_iter().zip(want) {
            assert_eq!(limiter.step(at_us, cost), want, "{policy:?}");
            let nothing = limiter.step(at_us, 0);
            assert!(nothing.allowed && nothing.retry_after_us == Some(0), "{policy:?}");
            assert_eq!(nothing.remaining, want.remaining, "{policy:?}");
        }
    });
}

#[test]
fn forgetting_what_is_idle_changes_nothing() {
    let mut forgotten = 0;
    for_many_policies(406, 2 * MANY, |rng, policy| {
        let requests = traffic::trace(rng, &policy, STEPS);
        let want = answers(&policy, &requests);
        let mut limiter = common::limiter(&policy);
        for ((at_us, cost), want) in requests.into_iter().zip(want) {
            if rng.chance(50) {
                forgotten += u64::from(limiter.forget_if_new(at_us));
            }
            assert_eq!(limiter.step(at_us, cost), want, "{policy:?}");
        }
    });
    assert!(forgotten > 1_000, "only {forgotten} were forgotten: the property says little");
}

#[test]
fn what_is_given_back_was_never_taken_by_an_empty_limiter() {
    for_many_policies(407, MANY, |rng, policy| {
        let mut limiter = common::limiter(&policy);
        limiter.step(0, 0);
        let before = limiter.peek(0, 1);
        if before.remaining == before.limit {
            limiter.refund(0, rng.skewed(u64::MAX));
            assert_eq!(limiter.peek(0, 1), before, "{policy:?}");
        }
    });
}
