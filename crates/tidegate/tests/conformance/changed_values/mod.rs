//! Changes of a rule's values, over any store: rules that are amended, and policies that are replaced.
//!
//! Random walks compare all values with naive models; examples here are of identities, waits and reservations.

mod known;
mod threads;
mod waiting;
mod walk;

use std::time::Duration;
use tidegate::{AlgorithmKind, Limit, Mode, OverrideSpec, RuleSpec, Spec};

use crate::kit::{every_gate, every_gate_of_one_step};
use crate::subjects::gates::{AnyGate, Ending, Entries, ask, seen};
use crate::subjects::{Case, DAY, Store, per_day};

every_gate! {
    what_was_used_stays_used_of_every_rule_and_under_every_other_algorithm,
    what_came_back_is_free_at_every_node,
    a_rule_without_a_limit_for_a_while_gives_nobody_a_fresh_limit,
    a_lower_limit_and_an_override_that_comes_or_goes_keep_no_caller_waiting_longer_than_one_new_window,
    changed_fields_apply_immediately,
    an_answer_keeps_the_policy_that_decided,
    a_charge_is_settled_with_the_rules_that_took_it,
    what_was_reserved_comes_back_whole_under_another_limit,
}

every_gate_of_one_step! {
    a_remembered_answer_is_repeated_only_under_the_same_values,
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

/// One limiter for all, and one for each user.
fn all_and_each<'k>(case: &Case<'k, dyn Store>, all: Spec, each: Spec) -> Box<dyn AnyGate + 'k> {
    case.gate([RuleSpec::new("all", all), RuleSpec::new("each", each).key(["user"])])
}

fn what_was_used_stays_used_of_every_rule_and_under_every_other_algorithm(
    case: &Case<'_, dyn Store>,
) {
    let from = case.algorithm;
    for to in case.kind.algorithms() {
        let gate = all_and_each(case, per_day(from, 1_000), per_day(from, 100));
        assert!(admits(&*gate, ADA, 60) && admits(&*gate, BOB, 30));
        gate.amend("each", per_day(to, 120).into());
        assert_eq!(seen(&*gate, ADA), [910, 60], "to {to}");
        assert_eq!(seen(&*gate, BOB), [910, 90], "to {to}");
        gate.amend("all", per_day(to, 50).into());
        assert_eq!(seen(&*gate, ADA), [0, 60], "to {to}: debt");
        assert!(!admits(&*gate, &[("user", "new")], 1));
        gate.amend("all", per_day(from, 1_000).into());
        gate.amend("each", per_day(from, 100).into());
        assert_eq!(seen(&*gate, ADA), [910, 40], "to {to} and back");
        assert!(admits(&*gate, ADA, 40) && !admits(&*gate, ADA, 1));
        assert_eq!(seen(&*gate, BOB), [870, 70], "a refused request takes nothing");
    }
}

/// Ways in which units come back to a limiter. The nodes are asked in turn.
#[derive(Clone, Copy, Debug)]
enum Back {
    Refunded,
    /// Under changed values.
    Amended,
    /// And once more under changed values, of a limiter in which nothing is left.
    Again,
    /// A reset after a refund.
    Reset,
    /// Released under changed values, after another node was told of the units.
    Released,
}

/// A node that knew of the units once took them for lost, because the limiter was gone without a note.
fn what_came_back_is_free_at_every_node(case: &Case<'_, dyn Store>) {
    use Back::{Again, Amended, Refunded, Released, Reset};
    for back in [Refunded, Amended, Again, Reset, Released] {
        let gate = case.gate([each(case, "a", 8)]);
        let gate = &*gate;
        let amend = || gate.amend("a", case.rule("a", 9).spec.into());
        let next_node = || assert!(admits(gate, BOB, 1));
        ask(&[(ADA, 8)], |request| {
            if matches!(back, Released) {
                let happens = || {
                    assert_eq!(seen(gate, ADA), [0]);
                    amend();
                };
                assert!(gate.hold_while(request, &happens, Ending::Released).is_ok());
                return;
            }
            assert!(gate.check(request).is_allowed());
            if matches!(back, Amended) {
                amend();
            }
            gate.refund(request);
            match back {
                Again => {
                    amend();
                    next_node();
                    gate.refund(request);
                }
                Reset => {
                    next_node();
                    gate.reset(request);
                }
                _ => {}
            }
        });
        let limit = if matches!(back, Refunded | Reset) { 8 } else { 9 };
        assert_eq!([seen(gate, ADA), seen(gate, ADA)], [[limit], [limit]], "{back:?}");
    }
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

/// The longest wait for a unit after the limit has become 5: a day, or in a counter as long as under a full limit.
fn longest_wait(case: &Case<'_, dyn Store>) -> Duration {
    if case.algorithm == AlgorithmKind::SlidingCounter { DAY * 6 / 5 } else { DAY }
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

fn a_remembered_answer_is_repeated_only_under_the_same_values(case: &Case<'_, dyn Store>) {
    let spec = |limit| per_day(case.algorithm, limit);
    let each = RuleSpec::new("each", spec(100)).key(["user"]).dedupe(Duration::from_secs(60));
    let gate = case.gate([RuleSpec::new("all", spec(1_000)), each]);
    let repeated =
        || ask(&[(ADA, 1)], |plain| gate.check(&plain.with_id("x").unwrap()).is_repeated());
    assert_eq!([repeated(), repeated()], [false, true]);
    gate.amend("all", spec(900).into());
    assert_eq!([repeated(), repeated()], [false, true]);
    assert_eq!(seen(&*gate, ADA), [898, 98]);
    gate.amend("all", spec(800).into());
    gate.amend("all", spec(900).into());
    assert!(repeated(), "the same values again");
    // If only the other rule can refuse, nothing is remembered.
    gate.amend("each", Spec::unlimited(case.algorithm).into());
    assert_eq!([repeated(), repeated()], [false, false]);
    assert_eq!(seen(&*gate, ADA), [896]);
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
