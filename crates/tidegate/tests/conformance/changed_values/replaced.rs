//! Policies that are replaced while a gate decides, over any store: rules are matched by domain and name, usage carries
//! over, and no caller gets a fresh limit.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use testkit::threads::together;
use tidegate::{AlgorithmKind, Limit, Mode, OverrideSpec, RuleSpec, Spec};

use crate::kit::{every_gate, every_gate_of_one_step};
use crate::subjects::gates::{AnyGate, Ending, Entries, admitted, ask, seen};
use crate::subjects::{Case, DAY, Store};

every_gate! {
    rules_are_matched_by_name_wherever_they_stand,
    what_was_used_stays_used_under_other_values,
    a_rule_that_is_removed_and_added_back_gives_nobody_a_fresh_limit,
    a_rule_without_a_limit_for_a_while_gives_nobody_a_fresh_limit,
    overrides_that_come_and_go_take_what_was_used_with_them,
    a_lower_limit_and_an_override_that_comes_or_goes_keep_no_caller_waiting_longer_than_one_new_window,
    changed_fields_apply_immediately,
    an_answer_keeps_the_policy_that_decided,
    a_charge_is_settled_with_the_rules_that_took_it,
    what_was_reserved_comes_back_whole_under_another_limit,
    eight_callers_are_admitted_the_last_limit_whatever_it_was_before,
}

every_gate_of_one_step! {
    a_request_asked_again_under_its_id_takes_nothing_also_when_its_rule_was_away_meanwhile,
}

const ADA: Entries<'_> = &[("user", "ada")];
const BOB: Entries<'_> = &[("user", "bob")];

fn each(case: &Case<'_, dyn Store>, name: &str, limit: u64) -> RuleSpec {
    case.rule(name, limit).key(["user"])
}

fn admits(gate: &dyn AnyGate, user: Entries<'_>, cost: u64) -> bool {
    ask(&[(user, cost)], |request| gate.check(request).is_allowed())
}

/// The units left by each rule that limits the user, with the rule's name.
fn left(gate: &dyn AnyGate, user: Entries<'_>) -> Vec<(String, u64)> {
    ask(&[(user, 1)], |request| {
        let answer = gate.peek(request);
        let matched = answer.matched().into_iter();
        matched.map(|one| (one.rule().name().to_owned(), one.decision().remaining)).collect()
    })
}

fn known(left: &[(&str, u64)]) -> Vec<(String, u64)> {
    left.iter().map(|(name, left)| ((*name).to_owned(), *left)).collect()
}

fn rules_are_matched_by_name_wherever_they_stand(case: &Case<'_, dyn Store>) {
    let each = |name, limit| each(case, name, limit);
    let gate = case.gate([each("a", 10), each("b", 20)]);
    assert!(admits(&*gate, ADA, 3));
    gate.replace(vec![each("new", 100), each("b", 20), each("c", 5), each("a", 10)]);
    assert_eq!(left(&*gate, ADA), known(&[("new", 100), ("b", 17), ("c", 5), ("a", 7)]));
    assert!(admits(&*gate, ADA, 5) && !admits(&*gate, ADA, 1));
    gate.replace(vec![each("a", 10), each("b", 20)]);
    assert_eq!(left(&*gate, ADA), known(&[("a", 2), ("b", 12)]));
}

fn what_was_used_stays_used_under_other_values(case: &Case<'_, dyn Store>) {
    let gate = case.gate([each(case, "a", 10)]);
    assert!(admits(&*gate, ADA, 6));
    gate.replace(vec![each(case, "a", 30)]);
    assert_eq!(seen(&*gate, ADA), [24]);
    assert!(!admits(&*gate, ADA, 25) && admits(&*gate, ADA, 4));
    gate.replace(vec![each(case, "a", 5)]);
    assert!(!admits(&*gate, ADA, 1) && admits(&*gate, BOB, 5));
    gate.replace(vec![each(case, "a", 15)]);
    assert_eq!((seen(&*gate, ADA), seen(&*gate, BOB)), (vec![5], vec![10]));
    assert_eq!((admitted(&*gate, ADA), admitted(&*gate, BOB)), (5, 10));
}

/// The longest wait for a unit after the limit has become 5: a day, or in a counter as long as under a full limit.
fn longest_wait(case: &Case<'_, dyn Store>) -> Duration {
    if case.algorithm == AlgorithmKind::SlidingCounter { DAY * 6 / 5 } else { DAY }
}

fn a_rule_that_is_removed_and_added_back_gives_nobody_a_fresh_limit(case: &Case<'_, dyn Store>) {
    let gate = case.gate([each(case, "gone", 10), each(case, "all", 1_000)]);
    assert!(admits(&*gate, ADA, 6) && admits(&*gate, BOB, 2));
    gate.replace(vec![each(case, "all", 1_000)]);
    assert!(admits(&*gate, ADA, 100), "it decides nothing");
    gate.replace(vec![each(case, "all", 1_000), each(case, "other", 7)]);
    gate.replace(vec![each(case, "gone", 10), each(case, "all", 1_000)]);
    assert!(!admits(&*gate, ADA, 5));
    assert_eq!((seen(&*gate, ADA)[0], seen(&*gate, BOB)[0]), (4, 8));
    gate.replace(Vec::new());
    assert!(admits(&*gate, ADA, 1_000_000));
    gate.replace(vec![each(case, "gone", 20)]);
    assert!(!admits(&*gate, ADA, 15) && admits(&*gate, BOB, 17), "changed");
}

/// It counts nothing, and what was held before is settled during that time or after it.
fn a_rule_without_a_limit_for_a_while_gives_nobody_a_fresh_limit(case: &Case<'_, dyn Store>) {
    for ends_meanwhile in [false, true] {
        let unlimited = || RuleSpec::new("a", Spec::unlimited(case.algorithm)).key(["user"]);
        let gate = case.gate([each(case, "a", 10)]);
        assert!(admits(&*gate, BOB, 3));
        ask(&[(ADA, 6)], |request| {
            let happens = || {
                gate.replace(vec![unlimited()]);
                assert!(admits(&*gate, ADA, 1_000));
                if !ends_meanwhile {
                    gate.replace(vec![each(case, "a", 20)]);
                    assert_eq!(left(&*gate, ADA), known(&[("a", 14)]));
                }
            };
            assert!(gate.hold_while(request, &happens, Ending::Settled(1)).is_ok());
        });
        gate.replace(vec![each(case, "a", 20)]);
        assert_eq!(left(&*gate, ADA), known(&[("a", 20 - case.kept(1))]), "{ends_meanwhile}");
        assert_eq!(left(&*gate, BOB), known(&[("a", 17)]));
    }
}

fn overrides_that_come_and_go_take_what_was_used_with_them(case: &Case<'_, dyn Store>) {
    let with = |vips: &[(&str, u64)]| {
        vips.iter().fold(each(case, "a", 10), |rule, (user, limit)| {
            let mut vip = OverrideSpec::new("user", *user);
            vip.limit = Some(Limit::Units(*limit));
            vip.capacity = rule.spec.capacity.map(|_| limit - 1);
            rule.with_override(vip)
        })
    };
    let gate = case.gate([with(&[])]);
    assert!(admits(&*gate, ADA, 6) && admits(&*gate, BOB, 6));
    gate.replace(vec![with(&[("ada", 50)])]);
    assert_eq!((seen(&*gate, ADA), seen(&*gate, BOB)), (vec![44], vec![4]));
    assert!(admits(&*gate, ADA, 20) && !admits(&*gate, BOB, 5));
    gate.replace(vec![with(&[("bob", 8), ("ada", 40)])]);
    assert_eq!((seen(&*gate, ADA), seen(&*gate, BOB)), (vec![14], vec![2]));
    gate.replace(vec![with(&[])]);
    assert!(!admits(&*gate, ADA, 1) && admits(&*gate, BOB, 4));
    gate.replace(vec![with(&[("ada", 50)])]);
    assert_eq!((seen(&*gate, ADA), seen(&*gate, BOB)), (vec![24], vec![0]));
}

fn a_lower_limit_and_an_override_that_comes_or_goes_keep_no_caller_waiting_longer_than_one_new_window(
    case: &Case<'_, dyn Store>,
) {
    let with = |limit, own| {
        let mut ada = OverrideSpec::new("user", "ada");
        ada.limit = Some(Limit::Units(own));
        ada.capacity = case.rule("a", limit).spec.capacity.map(|_| own - 1);
        each(case, "a", limit).with_override(ada)
    };
    let limit = |limit| each(case, "a", limit);
    let changes = [(limit(100), limit(5)), (limit(100), with(100, 5)), (with(5, 100), limit(5))];
    for (before, after) in changes {
        let gate = case.gate([before.clone()]);
        assert!(admits(&*gate, ADA, 90));
        gate.replace(vec![after]);
        let wait = ask(&[(ADA, 1)], |request| {
            gate.check(request).reported().and_then(|one| one.decision().retry_after())
        });
        assert!(wait.is_some_and(|wait| wait <= longest_wait(case)), "{wait:?}");
        gate.replace(vec![before]);
        assert!(seen(&*gate, ADA)[0] <= 11, "nothing comes back but what has drained");
    }
}

fn changed_fields_apply_immediately(case: &Case<'_, dyn Store>) {
    let rule = || each(case, "a", 10);
    let gate = case.gate([rule()]);
    assert!(admits(&*gate, ADA, 6));
    gate.replace(vec![rule().mode(Mode::Shadow)]);
    assert!(admits(&*gate, ADA, 6), "it refuses nothing");
    gate.replace(vec![rule().mode(Mode::Off)]);
    assert_eq!(left(&*gate, ADA), []);
    gate.replace(vec![rule().when("user", "ada")]);
    assert_eq!((left(&*gate, ADA), left(&*gate, BOB)), (known(&[("a", 4)]), vec![]));
}

fn an_answer_keeps_the_policy_that_decided(case: &Case<'_, dyn Store>) {
    fn is_sent<T: Send + Sync + std::panic::UnwindSafe + std::panic::RefUnwindSafe>(_: &T) {}
    let gate = case.gate([each(case, "a", 10)]);
    let first = ask(&[(ADA, 1)], |request| gate.check(request));
    is_sent(&first);
    gate.replace(vec![each(case, "b", 20)]);
    let second = ask(&[(ADA, 1)], |request| gate.check(request));
    for (answer, name, limit) in [(&first, "a", 10), (&second, "b", 20)] {
        let matched = answer.reported().unwrap();
        assert_eq!((matched.rule().name(), matched.decision().limit), (name, limit));
        assert_eq!(matched.values().spec().limit, Limit::Units(limit));
    }
    std::thread::scope(|scope| {
        scope.spawn(move || drop((first, second)));
    });
}

/// A reserved cost is settled where its limiters are now: only with those that took it.
fn a_charge_is_settled_with_the_rules_that_took_it(case: &Case<'_, dyn Store>) {
    let each = |name, limit| each(case, name, limit);
    let gate = case.gate([each("a", 10), each("b", 10), each("c", 10)]);
    ask(&[(ADA, 6)], |request| {
        let happens = || {
            gate.replace(vec![each("d", 10), each("c", 20), each("a", 10)]);
            assert!(admits(&*gate, ADA, 2));
        };
        assert!(gate.hold_while(request, &happens, Ending::Settled(1)).is_ok());
    });
    // Of a queue nothing comes back once a later slot is promised, if time has passed.
    let slots_stay = left(&*gate, ADA) == known(&[("d", 8), ("c", 12), ("a", 2)]);
    if case.algorithm.is_queue() && slots_stay {
        return;
    }
    assert_eq!(
        left(&*gate, ADA),
        known(&[("d", 8), ("c", 18 - case.kept(1)), ("a", 8 - case.kept(1))])
    );
    gate.replace(vec![each("b", 10)]);
    assert_eq!(left(&*gate, ADA), known(&[("b", 4)]), "units it took there stay taken");
}

/// Also of a bucket in which other units were used all the time: nothing has drained of a limit of a day.
fn what_was_reserved_comes_back_whole_under_another_limit(case: &Case<'_, dyn Store>) {
    if case.algorithm.is_queue() {
        return; // only its last slots come back
    }
    for limit in [20, 8] {
        let gate = case.gate([each(case, "a", 10)]);
        ask(&[(ADA, 6)], |request| {
            let happens = || {
                let other =
                    ask(&[(ADA, 4)], |request| gate.hold(request, Ending::Released).is_ok());
                assert!(other);
                gate.replace(vec![each(case, "a", limit)]);
                assert!(admits(&*gate, ADA, 2));
            };
            assert!(gate.hold_while(request, &happens, Ending::Released).is_ok());
        });
        assert_eq!(left(&*gate, ADA), known(&[("a", limit - 2)]));
    }
}

/// The limit goes up and down while many ask: no more is admitted than the largest, and nothing is lost.
fn eight_callers_are_admitted_the_last_limit_whatever_it_was_before(case: &Case<'_, dyn Store>) {
    let most = case.kind.asks();
    let rules = |step: u64| match step % 3 {
        0 => vec![each(case, "r", most), each(case, "open", 1_000_000)],
        1 => vec![each(case, "r", most / 4)],
        _ => vec![each(case, "open", 1_000_000), each(case, "r", most / 2)],
    };
    let gate = case.gate(rules(1));
    let admitted = AtomicU64::new(0);
    together(8, |thread, _| {
        for step in 0..case.kind.asks() / 2 {
            if thread == 0 {
                gate.replace(rules(step));
                gate.amend("r", case.rule("r", [0, most / 3][step as usize % 2]).spec.into());
            } else {
                admitted.fetch_add(u64::from(admits(&*gate, ADA, 1)), SeqCst);
            }
        }
    });
    gate.replace(rules(0));
    let admitted = admitted.into_inner();
    assert!(admitted <= most, "{admitted}");
    assert_eq!(seen(&*gate, ADA)[0], most - admitted);
}

fn a_request_asked_again_under_its_id_takes_nothing_also_when_its_rule_was_away_meanwhile(
    case: &Case<'_, dyn Store>,
) {
    let rule = || each(case, "a", 10).dedupe(DAY);
    let gate = case.gate([rule()]);
    let again = || ask(&[(ADA, 2)], |plain| gate.check(&plain.with_id("x").unwrap()).is_repeated());
    assert!(!again());
    gate.replace(vec![each(case, "b", 10)]);
    gate.replace(vec![rule()]);
    assert!(again());
    assert_eq!(seen(&*gate, ADA), [8]);
}
