//! Rules that change while steps over several limiters run: all or nothing, before the change or after it,
//! and nobody waits for ever.

use std::sync::Arc;

use tidegate_core::{AlgorithmKind, Spec};

use super::several::{Still, at_once, left, request, store};
use super::{NOW, explore, spec, together};
use crate::clock::Reading;
use crate::rules::{PolicyRule, RuleSpec};
use crate::step::Step;
use crate::store::memory::MemoryStore;

/// The rule of this number with other figures.
fn rule(number: usize, spec: Spec) -> PolicyRule {
    let words = RuleSpec::new(format!("rule-{number}"), spec).key(["user"]);
    PolicyRule::checked(number, words).expect("a sound rule")
}

/// A thread that puts another limit in force.
fn amend(store: &Arc<MemoryStore>, number: usize, spec: Spec) -> Box<dyn FnOnce() -> bool> {
    let store = Arc::clone(store);
    Box::new(move || store.amend(number, &rule(number, spec), Reading::of(&NOW)).is_ok())
}

/// A thread that asks for one unit of each of these limiters.
fn ask(store: &Arc<MemoryStore>, limiters: &[(usize, u32)]) -> Box<dyn FnOnce() -> bool> {
    let (store, met) = (Arc::clone(store), request(limiters));
    Box::new(move || store.step(&met, &Still(NOW), Step::Ask).allowed)
}

#[test]
fn a_step_over_two_rules_comes_before_a_change_or_after_it_and_is_counted_by_both() {
    for changed in [0, 1] {
        explore(2, move || {
            let store = store(&[2, 2]);
            let told =
                together(vec![ask(&store, &[(1, 2), (0, 2)]), amend(&store, changed, spec(3))]);
            assert_eq!(told, [true, true]);
            let mut expected = [1, 1];
            expected[changed] = 2;
            assert_eq!([left(&store, 0, 2), left(&store, 1, 2)], expected);
            assert_eq!(store.keys(), 2);
        });
    }
}

/// The limit that a change leaves is met by one of two who ask, whenever it comes.
#[test]
fn a_refusal_by_a_changed_rule_charges_nobody() {
    explore(2, || {
        let store = store(&[1, 5]);
        assert_eq!(at_once(&store, &[&[(0, 2), (1, 2)]]), [true]);
        let told = together(vec![ask(&store, &[(0, 2), (1, 2)]), amend(&store, 0, spec(2))]);
        assert!(told[1]);
        assert_eq!(left(&store, 0, 2), u64::from(!told[0]));
        assert_eq!(left(&store, 1, 2), 4 - u64::from(told[0]));
    });
}

/// Two changes of two rules, and one who needs both: locks are taken in one order.
#[test]
fn two_changes_and_a_step_over_both_rules_wait_for_nobody_for_ever() {
    explore(1, || {
        let store = store(&[2, 2]);
        let told = together(vec![
            ask(&store, &[(0, 2), (1, 2)]),
            amend(&store, 1, spec(3)),
            amend(&store, 0, spec(4)),
        ]);
        assert_eq!(told, [true, true, true]);
        assert_eq!([left(&store, 0, 2), left(&store, 1, 2)], [3, 2]);
    });
}

/// One rule was changed before, so that what follows it is held; the other is being changed.
#[test]
fn a_step_that_holds_a_changed_rule_meets_another_that_is_changing() {
    explore(2, || {
        let store = store(&[2, 2]);
        assert!(amend(&store, 0, spec(3))());
        let told = together(vec![ask(&store, &[(0, 2), (1, 2)]), amend(&store, 1, spec(5))]);
        assert_eq!(told, [true, true]);
        assert_eq!([left(&store, 0, 2), left(&store, 1, 2)], [2, 4]);
        let told = together(vec![ask(&store, &[(1, 2), (0, 2)]), amend(&store, 0, spec(4))]);
        assert_eq!(told, [true, true]);
        assert_eq!([left(&store, 0, 2), left(&store, 1, 2)], [2, 3]);
    });
}

/// To no limit at all, and from none: what one rule says no more, the other says still.
#[test]
fn a_rule_that_becomes_unlimited_meanwhile_takes_no_charge_from_the_other() {
    explore(2, || {
        let store = store(&[1, 2]);
        assert_eq!(at_once(&store, &[&[(0, 2), (1, 2)]]), [true]);
        let open = Spec::unlimited(AlgorithmKind::FixedWindow);
        let told = together(vec![ask(&store, &[(0, 2), (1, 2)]), amend(&store, 0, open)]);
        assert!(told[1]);
        assert_eq!(left(&store, 1, 2), 1 - u64::from(told[0]));
        assert_eq!(store.keys(), 1, "it has forgotten its limiters");
    });
}

/// A reset of both comes before or after the change, and leaves nothing of either behind.
#[test]
fn limiters_of_a_changing_rule_are_forgotten_together() {
    explore(2, || {
        let store = store(&[3, 3]);
        assert_eq!(at_once(&store, &[&[(0, 2), (1, 2)]]), [true]);
        let forgetting = Arc::clone(&store);
        let forget = move || {
            forgetting.forget(&request(&[(1, 2), (0, 2)]), NOW);
            true
        };
        let told = together(vec![Box::new(forget), amend(&store, 1, spec(4))]);
        assert_eq!(told, [true, true]);
        assert_eq!((left(&store, 0, 2), left(&store, 1, 2), store.keys()), (3, 4, 0));
    });
}
