//! Rules and overrides whose values are changed while a gate decides, over any store: usage carries over, also to other
//! algorithms, and each verb uses the values of now.

use std::time::Duration;
use tidegate::{AlgorithmKind, Limit, OverrideSpec, RuleSpec, Spec};

use crate::kit::{every_gate, every_gate_of_one_step};
use crate::subjects::gates::{AnyGate, Entries, ask, seen};
use crate::subjects::{Case, Store, per_day};

every_gate! {
    what_was_used_stays_used_of_every_rule_and_under_every_other_algorithm,
    an_unlimited_rule_counts_nothing_forgets_nothing_and_reports_nothing,
    an_override_goes_on_changing_what_it_changed_and_is_changed_by_its_entries,
}

every_gate_of_one_step! {
    a_remembered_answer_is_repeated_only_under_the_same_values,
}

const ADA: Entries<'_> = &[("user", "ada")];
const BOB: Entries<'_> = &[("user", "bob")];

/// One limiter for all, and one for each user.
fn all_and_each<'k>(case: &Case<'k, dyn Store>, all: Spec, each: Spec) -> Box<dyn AnyGate + 'k> {
    case.gate([RuleSpec::new("all", all), RuleSpec::new("each", each).key(["user"])])
}

fn admits(gate: &dyn AnyGate, user: Entries<'_>, cost: u64) -> bool {
    ask(&[(user, cost)], |request| gate.admits(request))
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

fn an_unlimited_rule_counts_nothing_forgets_nothing_and_reports_nothing(
    case: &Case<'_, dyn Store>,
) {
    let algorithm = case.algorithm;
    let gate = all_and_each(case, Spec::unlimited(algorithm), per_day(algorithm, 10));
    let counts = |keys| gate.keys().is_none_or(|counted| counted == keys);
    assert!(admits(&*gate, ADA, 6));
    assert!(seen(&*gate, ADA) == [4] && counts(1));
    gate.amend("each", Spec::unlimited(algorithm).into());
    assert!(admits(&*gate, ADA, 1_000));
    assert!(seen(&*gate, ADA).is_empty() && counts(1));
    let open = ask(&[(ADA, 7)], |request| {
        let answer = gate.check(request);
        (answer.is_unlimited(), gate.peek(request).remaining(), gate.reset(request))
    });
    assert_eq!(open, (true, None, 0));
    // The rule was loaded unlimited and is limited now: a step over both.
    gate.amend("all", per_day(algorithm, 5).into());
    assert!(admits(&*gate, ADA, 2));
    assert!(seen(&*gate, ADA) == [3] && counts(2));
    gate.amend("each", per_day(algorithm, 10).into());
    assert_eq!(seen(&*gate, ADA), [3, 4]);
    assert!(admits(&*gate, ADA, 2) && !admits(&*gate, ADA, 2));
    assert!(seen(&*gate, ADA) == [1, 2] && counts(2));
    gate.amend("all", Spec::unlimited(algorithm).into());
    assert_eq!(seen(&*gate, ADA), [2]);
}

fn an_override_goes_on_changing_what_it_changed_and_is_changed_by_its_entries(
    case: &Case<'_, dyn Store>,
) {
    const VIP: Entries<'_> = &[("user", "vip")];
    let vip = |limit| {
        let mut vip = OverrideSpec::new("user", "vip");
        vip.limit = Some(Limit::Units(limit));
        vip.capacity = case.algorithm.is_queue().then(|| limit - 1);
        vip
    };
    let log = per_day(AlgorithmKind::SlidingLog, 10);
    let own = if case.algorithm.is_queue() { per_day(case.algorithm, 10) } else { log };
    let gate = case.gate([RuleSpec::new("each", own).key(["user"]).with_override(vip(50))]);
    assert!(admits(&*gate, VIP, 30) && admits(&*gate, ADA, 3));
    gate.amend("each", per_day(case.algorithm, 20).into());
    assert_eq!((seen(&*gate, VIP), seen(&*gate, ADA)), (vec![20], vec![17]));
    gate.amend("each", vip(40).into());
    assert_eq!((seen(&*gate, VIP), seen(&*gate, ADA)), (vec![10], vec![17]));
    ask(&[(VIP, 0)], |request| {
        let answer = gate.check(request);
        let in_force = answer.reported().unwrap().rule().spec().clone();
        assert_eq!(in_force.spec, per_day(case.algorithm, 20));
        assert_eq!(in_force.overrides, [vip(40)]);
    });
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
