//! Bans at a gate: counted in each process, and denied before any limiter is asked.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::{Answer, Micros, Mode, OnExcess, OnFull, Request, RuleSpec};

use crate::kit::{every_gate, every_gate_of_one_step};
use crate::subjects::gates::{AnyGate, Banning, Entries, ask, left};
use crate::subjects::{Case, DAY, Store};

every_gate! {
    a_banned_key_is_denied_before_any_limiter_is_asked,
    a_reset_lifts_the_ban,
    a_rule_in_shadow_mode_bans_no_key_and_a_cost_that_never_fits_gets_never,
    refusals_of_another_rule_are_not_counted,
}

every_gate_of_one_step! {
    who_waited_in_vain_is_counted_and_who_is_banned_does_not_wait,
    nobody_is_banned_for_what_others_took,
    what_was_admitted_under_an_id_is_answered_so_to_who_was_banned_since,
}

const ADA: Entries<'_> = &[("user", "ada")];
const BOB: Entries<'_> = &[("user", "bob")];

impl<'k> Case<'k, dyn Store> {
    /// A gate whose rule `user` bans after so many refusals.
    fn banning(&self, refusals: u64, rules: impl Into<Vec<RuleSpec>>) -> Box<dyn AnyGate + 'k> {
        let ban = Banning { rule: "user", refusals };
        self.kind.of_one_process(rules.into(), Some(ban))
    }

    fn per_user(&self, limit: u64) -> RuleSpec {
        self.rule("user", limit).key(["user"])
    }
}

/// No limiter of these tests has a wait as long as a ban.
fn is_banned(answer: &Answer<'_>) -> bool {
    let far = Duration::from_micros(2 * Micros::from(DAY).as_micros());
    !answer.is_allowed() && answer.retry_after().is_some_and(|wait| wait > far)
}

fn check<'g>(gate: &'g dyn AnyGate, user: &str, cost: u64) -> Answer<'g> {
    ask(&[(&[("user", user)], cost)], |request| gate.check(request))
}

/// The answer to a request that may wait, and does not.
fn at_once<'g>(gate: &'g dyn AnyGate, request: Request<'g>) -> Answer<'g> {
    let mut acquire = gate.acquire(request);
    loop {
        let polled = acquire.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        match polled {
            Poll::Ready(answer) => return answer,
            // A store's answer may still be on its way.
            Poll::Pending => assert_eq!(gate.waiting(&request), 0, "it waits"),
        }
        std::thread::yield_now();
    }
}

fn a_banned_key_is_denied_before_any_limiter_is_asked(case: &Case<'_, dyn Store>) {
    let gate = case.banning(2, [case.per_user(1), case.rule("all", 100)]);
    let gate = gate.as_ref();
    assert!(check(gate, "ada", 1).is_allowed());
    for _ in 0..2 {
        let refused = check(gate, "ada", 1);
        assert!(!refused.is_allowed() && !is_banned(&refused));
    }
    let descriptors = [tidegate::Descriptor::new(ADA)];
    let request = Request::new(Request::DEFAULT_DOMAIN, &descriptors);
    assert!(is_banned(&gate.check(&request)) && is_banned(&gate.peek(&request)));
    assert!(!gate.admits(&request) && is_banned(&at_once(gate, request)));
    assert!(gate.hold(&request, crate::subjects::gates::Ending::Kept).is_err());
    assert_eq!(gate.available(&request), 0);
    assert!(check(gate, "ada", 5).is_never(), "a cost that can never fit gets `never`");
    assert!(check(gate, "ada", 0).is_allowed(), "a request without cost");
    let others = check(gate, "bob", 1);
    assert_eq!(left(&others), [0, 98], "nothing was charged but what was admitted");
}

fn a_reset_lifts_the_ban(case: &Case<'_, dyn Store>) {
    let gate = case.banning(2, [case.per_user(1), case.rule("all", 100)]);
    let gate = gate.as_ref();
    (0..4).for_each(|_| _ = check(gate, "ada", 1));
    assert!(is_banned(&check(gate, "ada", 1)));
    assert_eq!(ask(&[(ADA, 1)], |request| gate.reset(request)), 2);
    assert!(check(gate, "ada", 1).is_allowed());
    assert!(!is_banned(&check(gate, "ada", 1)), "the first refusal");
}

fn a_rule_in_shadow_mode_bans_no_key_and_a_cost_that_never_fits_gets_never(
    case: &Case<'_, dyn Store>,
) {
    let tried = case.per_user(1).mode(Mode::Shadow);
    let gate = case.banning(1, [tried, case.rule("all", 100)]);
    assert!((0..9).all(|_| check(gate.as_ref(), "ada", 1).is_allowed()));
    for _ in 0..3 {
        assert!(!check(gate.as_ref(), "ada", 99).is_allowed(), "the other rule refuses as well");
    }
    assert!(check(gate.as_ref(), "ada", 1).is_allowed());
    let gate = case.banning(2, [case.per_user(3)]);
    assert!([(); 2].iter().all(|()| check(gate.as_ref(), "ada", 4).is_never()));
    assert!(is_banned(&check(gate.as_ref(), "ada", 1)), "and counted");
}

fn refusals_of_another_rule_are_not_counted(case: &Case<'_, dyn Store>) {
    let gate = case.banning(1, [case.per_user(9), case.rule("all", 1)]);
    for _ in 0..5 {
        assert!(!is_banned(&check(gate.as_ref(), "ada", 1)));
    }
}

fn who_waited_in_vain_is_counted_and_who_is_banned_does_not_wait(case: &Case<'_, dyn Store>) {
    let wait = OnExcess::Wait { wait: Duration::from_millis(1), max_waiters: 9 };
    let gate = case.banning(1, [case.per_user(1).on_excess(wait)]);
    let descriptors = [tidegate::Descriptor::new(ADA)];
    let request = Request::new(Request::DEFAULT_DOMAIN, &descriptors);
    assert!(gate.check(&request).is_allowed());
    let answers = [(); 2].map(|()| is_banned(&at_once(gate.as_ref(), request)));
    assert_eq!(answers, [false, true]);
}

/// A key that the overflow limiter refuses pays for what others took: such a refusal does not count for its ban.
fn nobody_is_banned_for_what_others_took(case: &Case<'_, dyn Store>) {
    for on_full in [OnFull::Share, OnFull::Refuse] {
        let gate = case.banning(2, [case.per_user(1).max_keys(1, on_full)]);
        let gate = gate.as_ref();
        (0..2).for_each(|_| _ = check(gate, "first", 1));
        for user in ["second", "third", "third", "third"] {
            _ = check(gate, user, 1);
        }
        let refused = check(gate, "third", 1);
        assert!(!refused.is_allowed() && refused.is_overflow() && !is_banned(&refused));
        _ = check(gate, "first", 1);
        assert!(is_banned(&check(gate, "first", 1)), "{on_full:?}");
    }
}

fn what_was_admitted_under_an_id_is_answered_so_to_who_was_banned_since(
    case: &Case<'_, dyn Store>,
) {
    let gate = case.banning(1, [case.per_user(1).dedupe(DAY)]);
    let under = |id| ask(&[(BOB, 1)], |request| gate.check(&request.with_id(id).unwrap()));
    assert!(under("a").is_allowed());
    assert!(!is_banned(&under("b")));
    assert!(is_banned(&under("b")));
    let again = under("a");
    assert!(again.is_allowed() && again.is_repeated());
}
