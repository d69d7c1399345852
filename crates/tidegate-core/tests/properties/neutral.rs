//! Operations that change nothing: refusals, dropping an idle state, and giving back what was never taken.
//!
//! The clocks here go forward, because a reading far in the past moves the state, with any verb.

use crate::{MANY, STEPS, answers, common, for_many_policies};

use testkit::traffic;

/// Pitfall: refused requests still counted, and a caller that kept asking was never admitted again.
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
