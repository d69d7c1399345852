//! Policies that are replaced while steps run: each step comes before or after the change, all or nothing, each key
//! has one limiter, and no thread waits for ever.

use std::sync::Arc;

use tidegate_core::{AlgorithmKind, Rule, Spec};

use super::several::{at_once, forget_all, left, policy, request, step, store};
use super::{NOW, caps, explore, fingerprint, limiters, spec, together};
use crate::clock::Reading;
use crate::rules::{Policy, PolicyErrors, with_values};
use crate::step::Step;
use crate::store::memory::{Limiters, MemoryStore, Part};

/// A thread's work.
type Work = Box<dyn FnOnce() -> bool>;

/// A thread that replaces the policy.
fn replace(store: &Arc<MemoryStore>, policy: Policy) -> Work {
    let store = Arc::clone(store);
    Box::new(move || store.change(|| NOW, |_| Ok::<_, PolicyErrors>(policy), |_| ()).is_ok())
}

/// A thread that changes one rule of the policy.
fn amend(store: &Arc<MemoryStore>, number: usize, spec: Spec) -> Work {
    let store = Arc::clone(store);
    let name = format!("rule-{number}");
    Box::new(move || {
        let next = |policy: &Policy| with_values(policy, ("default", &name), spec.into());
        store.change(|| NOW, next, |_| ()).is_ok()
    })
}

/// A thread that asks for one unit of each of these limiters.
fn ask(store: &Arc<MemoryStore>, limiters: &[(usize, u32)]) -> Work {
    let (store, asks) = (Arc::clone(store), request(limiters));
    Box::new(move || step(&store, &asks, Step::Ask).allowed)
}

/// A thread that asks for one unit of a key of a rule that is alone.
fn ask_alone(limiters: &Arc<Limiters>, key: u32) -> Work {
    let limiters = Arc::clone(limiters);
    Box::new(move || limiters.admits(fingerprint(key), 1, NOW, &NOW))
}

/// A thread that changes the limit of a rule that is alone.
fn amend_alone(limiters: &Arc<Limiters>, limit: u64, most_keys: usize) -> Work {
    let limiters = Arc::clone(limiters);
    let rule = Rule::new(spec(limit)).expect("a sound rule");
    Box::new(move || limiters.amend(&rule, &caps(limit, most_keys), || NOW, || ()).is_ok())
}

fn left_alone(limiters: &Limiters, key: u32) -> u64 {
    let part = Part::alone(fingerprint(key), 1, Step::Peek);
    limiters.one(&part, Reading::of(&NOW)).decided.decision.remaining
}

/// One key is asked while its rule changes: the step or the sweep moves it, and it exists once.
#[test]
fn a_key_that_is_asked_while_it_moves_is_counted_once() {
    explore(3, || {
        let limiters = limiters(2, 8);
        assert!(limiters.admits(fingerprint(2), 1, NOW, &NOW));
        let results = together(vec![ask_alone(&limiters, 2), amend_alone(&limiters, 3, 8)]);
        assert_eq!(results, [true, true]);
        assert_eq!((left_alone(&limiters, 2), limiters.keys()), (1, 1));
    });
}

/// Two threads ask for one key that is in the old table: one of them moves it.
#[test]
fn two_threads_that_ask_for_a_moving_key_take_from_one_limiter() {
    explore(1, || {
        let limiters = limiters(1, 8);
        assert!(limiters.admits(fingerprint(2), 1, NOW, &NOW));
        let results = together(vec![
            ask_alone(&limiters, 2),
            ask_alone(&limiters, 2),
            amend_alone(&limiters, 2, 8),
        ]);
        let admitted = results.iter().take(2).filter(|yes| **yes).count() as u64;
        assert!(results[2] && admitted <= 1);
        assert_eq!((left_alone(&limiters, 2), limiters.keys()), (1 - admitted, 1));
    });
}

/// One key exists and another is new, in the same chain or in a new chain: both end up in the new table, each with its
/// units.
#[test]
fn a_key_that_comes_while_the_rule_changes_is_in_the_table_that_succeeds() {
    for (first, second) in [(2, 3), (2, 4)] {
        explore(2, move || {
            let limiters = limiters(2, 8);
            assert!(limiters.admits(fingerprint(first), 1, NOW, &NOW));
            let results =
                together(vec![ask_alone(&limiters, second), amend_alone(&limiters, 3, 8)]);
            assert_eq!(results, [true, true]);
            assert_eq!((left_alone(&limiters, first), left_alone(&limiters, second)), (2, 2));
            assert_eq!(limiters.keys(), 2);
        });
    }
}

/// Two concurrent changes, swept one after the other: usage carries over both.
#[test]
fn a_change_during_a_sweep_comes_after_it_and_loses_nothing() {
    explore(2, || {
        let limiters = limiters(1, 8);
        assert!(limiters.admits(fingerprint(2), 1, NOW, &NOW));
        let results = together(vec![amend_alone(&limiters, 3, 8), amend_alone(&limiters, 4, 8)]);
        assert_eq!(results, [true, true]);
        let left = left_alone(&limiters, 2);
        assert!((left == 2 || left == 3) && limiters.keys() == 1, "{left}");
    });
}

/// A key without room takes from the overflow limiter, and the units move with that limiter.
#[test]
fn what_is_taken_without_space_while_the_rule_changes_is_counted_once() {
    explore(2, || {
        let limiters = limiters(2, 1);
        assert!(limiters.admits(fingerprint(2), 1, NOW, &NOW));
        let results = together(vec![ask_alone(&limiters, 3), amend_alone(&limiters, 3, 1)]);
        assert_eq!(results, [true, true]);
        assert_eq!((left_alone(&limiters, 5), left_alone(&limiters, 2)), (2, 2));
        assert_eq!(limiters.keys(), 1);
    });
}

#[test]
fn a_step_over_one_rule_comes_before_a_change_or_after_it() {
    explore(3, || {
        let store = store(&[1]);
        assert_eq!(at_once(&store, &[&[(0, 2)]]), [true]);
        let results = together(vec![ask(&store, &[(0, 2)]), amend(&store, 0, spec(2))]);
        assert!(results[1]);
        assert_eq!((left(&store, 0, 2), store.keys()), (u64::from(!results[0]), 1));
    });
}

#[test]
fn a_step_over_two_rules_comes_before_a_change_or_after_it_and_is_counted_by_both() {
    for changed in [0, 1] {
        explore(2, move || {
            let store = store(&[2, 2]);
            let results =
                together(vec![ask(&store, &[(1, 2), (0, 2)]), amend(&store, changed, spec(3))]);
            assert_eq!(results, [true, true]);
            let mut expected = [1, 1];
            expected[changed] = 2;
            assert_eq!([left(&store, 0, 2), left(&store, 1, 2)], expected);
            assert_eq!(store.keys(), 2);
        });
    }
}

/// One of two requests takes the unit that the change leaves, whenever the change comes.
#[test]
fn a_refusal_by_a_changed_rule_charges_nobody() {
    explore(2, || {
        let store = store(&[1, 5]);
        assert_eq!(at_once(&store, &[&[(0, 2), (1, 2)]]), [true]);
        let results = together(vec![ask(&store, &[(0, 2), (1, 2)]), amend(&store, 0, spec(2))]);
        assert!(results[1]);
        assert_eq!(left(&store, 0, 2), u64::from(!results[0]));
        assert_eq!(left(&store, 1, 2), 4 - u64::from(results[0]));
    });
}

/// Two changes of two rules, and a request that needs both: locks are taken in one order.
#[test]
fn two_changes_and_a_step_over_both_rules_wait_for_nobody_for_ever() {
    explore(1, || {
        let store = store(&[2, 2]);
        let results = together(vec![
            ask(&store, &[(0, 2), (1, 2)]),
            amend(&store, 1, spec(3)),
            amend(&store, 0, spec(4)),
        ]);
        assert_eq!(results, [true, true, true]);
        assert_eq!([left(&store, 0, 2), left(&store, 1, 2)], [3, 2]);
    });
}

#[test]
fn a_rule_that_is_removed_and_added_back_while_it_is_asked_mints_nothing() {
    explore(2, || {
        let store = store(&[9, 1]);
        assert_eq!(at_once(&store, &[&[(0, 2), (1, 2)]]), [true]);
        let changing = Arc::clone(&store);
        let change = move || {
            replace(&changing, policy(&[9]))();
            replace(&changing, policy(&[9, 2]))()
        };
        let results = together(vec![ask(&store, &[(0, 2)]), Box::new(change)]);
        assert_eq!(results, [true, true]);
        assert_eq!((left(&store, 0, 2), left(&store, 1, 2), store.keys()), (7, 1, 2));
    });
}

/// One rule becomes unlimited: the other rule still limits the request, and the units of the first are remembered.
#[test]
fn limiters_of_a_rule_that_becomes_unlimited_meanwhile_refuse_nothing_and_are_kept() {
    explore(2, || {
        let store = store(&[3, 3]);
        assert_eq!(at_once(&store, &[&[(0, 2), (1, 2)]]), [true]);
        let open = Spec::unlimited(AlgorithmKind::FixedWindow);
        let results = together(vec![ask(&store, &[(1, 2)]), amend(&store, 0, open)]);
        assert_eq!(results, [true, true]);
        assert_eq!((left(&store, 1, 2), store.keys()), (1, 2));
    });
}

/// A reset of both comes before or after the change, and leaves no unit of either. Both limiters remember the reset.
#[test]
fn limiters_of_a_changing_rule_are_forgotten_together() {
    explore(2, || {
        let store = store(&[3, 3]);
        assert_eq!(at_once(&store, &[&[(0, 2), (1, 2)]]), [true]);
        let forgetting = Arc::clone(&store);
        let forget = move || {
            forget_all(&forgetting, &request(&[(1, 2), (0, 2)]));
            true
        };
        let results = together(vec![Box::new(forget) as Work, amend(&store, 1, spec(4))]);
        assert_eq!(results, [true, true]);
        assert_eq!((left(&store, 0, 2), left(&store, 1, 2), store.keys()), (3, 4, 2));
    });
}
