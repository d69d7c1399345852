//! One limiter by itself: the word that is replaced, and the two words under a lock bit.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_core::{Rule, Spec};

use super::{BASE, NOW, explore, spec, together, two_words};
use crate::clock::Reading;
use crate::store::memory::{Cell, Step, cell_of};

/// What each thread asks for, at once.
fn asked(spec: Spec, costs: &[u64], figures: bool) -> (Arc<dyn Cell>, Vec<bool>) {
    let rule = Rule::new(spec).expect("a sound rule");
    let cell: Arc<dyn Cell> = Arc::from(rule.visit(cell_of(Some(BASE))).expect("limited"));
    let ask = |cost: &u64| {
        let (cell, cost) = (Arc::clone(&cell), *cost);
        let ask = move || match figures {
            true => cell.step(cost, Step::Ask, Reading::of(&NOW)).verdict.is_allowed(),
            false => cell.admits(cost, Reading::of(&NOW)),
        };
        Box::new(ask) as Box<dyn FnOnce() -> bool>
    };
    let admitted = together(costs.iter().map(ask).collect());
    (cell, admitted)
}

fn left(cell: &dyn Cell) -> u64 {
    cell.step(1, Step::Peek, Reading::of(&NOW)).decision.expect("a peek has figures").remaining
}

/// The verdicts that some order of these costs gives, one after another.
fn serial(limit: u64, costs: &[u64]) -> BTreeSet<Vec<bool>> {
    let numbers: Vec<_> = (0..costs.len()).collect();
    let verdicts = orders(&numbers).into_iter().map(|order| {
        let (mut left, mut verdicts) = (limit, vec![false; costs.len()]);
        for number in order {
            verdicts[number] = costs[number] <= left;
            left -= costs[number] * u64::from(verdicts[number]);
        }
        verdicts
    });
    verdicts.collect()
}

fn orders(of: &[usize]) -> Vec<Vec<usize>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    let begun_with = |first: &usize| {
        let rest: Vec<_> = of.iter().filter(|one| *one != first).copied().collect();
        let begin = |rest: Vec<usize>| [vec![*first], rest].concat();
        orders(&rest).into_iter().map(begin).collect::<Vec<_>>()
    };
    of.iter().flat_map(begun_with).collect()
}

/// Each interleaving gives the verdicts of some serial order, and what is left is what that order
/// leaves.
fn is_serial(make: fn(u64) -> Spec, limit: u64, costs: &'static [u64], figures: bool) {
    let expected = serial(limit, costs);
    explore(3, move || {
        let (cell, admitted) = asked(make(limit), costs, figures);
        assert!(expected.contains(&admitted), "{costs:?} of {limit}: {admitted:?}");
        let taken: u64 =
            costs.iter().zip(&admitted).map(|(cost, yes)| cost * u64::from(*yes)).sum();
        assert_eq!(left(&*cell), limit - taken, "{costs:?} of {limit}: {admitted:?}");
    });
}

#[test]
fn of_a_limit_of_one_two_threads_get_one() {
    for figures in [false, true] {
        is_serial(spec, 1, &[1, 1], figures);
        is_serial(two_words, 1, &[1, 1], figures);
    }
}

/// Three only where nobody waits: of two who wait for a third, the model checker lets each make way
/// for the other for ever.
#[test]
fn of_a_limit_of_two_three_threads_get_two() {
    is_serial(spec, 2, &[1, 1, 1], false);
    is_serial(two_words, 2, &[1, 1], false);
}

#[test]
fn different_costs_end_as_in_some_order() {
    for figures in [false, true] {
        is_serial(spec, 2, &[1, 2, 1], figures);
        is_serial(two_words, 2, &[2, 1], figures);
    }
}

/// What one gives back while another asks is there or not there yet, never there twice.
#[test]
fn a_refund_is_seen_whole_or_not_at_all() {
    for make in [spec, two_words] {
        explore(3, move || {
            let rule = Rule::new(make(2)).expect("a sound rule");
            let cell: Arc<dyn Cell> = Arc::from(rule.visit(cell_of(Some(BASE))).expect("limited"));
            assert!(cell.admits(2, Reading::of(&NOW)));
            let (first, second) = (Arc::clone(&cell), Arc::clone(&cell));
            let admitted = together(vec![
                Box::new(move || {
                    first.step(1, Step::Refund, Reading::of(&NOW)).verdict.is_allowed()
                }),
                Box::new(move || second.admits(1, Reading::of(&NOW))),
            ]);
            assert_eq!(left(&*cell), 1 - u64::from(admitted[1]));
        });
    }
}

/// Forgetting between two units leaves both gone, or the later one. (A word is forgotten by one store,
/// of which the model checker does not know that it comes before or after an exchange, never between.)
#[test]
fn two_words_forgotten_while_they_are_asked_are_new_or_one_unit_old() {
    explore(3, || {
        let rule = Rule::new(two_words(2)).expect("a sound rule");
        let cell: Arc<dyn Cell> = Arc::from(rule.visit(cell_of(Some(BASE))).expect("limited"));
        assert!(cell.admits(1, Reading::of(&NOW)));
        let (first, second) = (Arc::clone(&cell), Arc::clone(&cell));
        let forget = move || {
            first.forget();
            true
        };
        let admitted =
            together(vec![Box::new(forget), Box::new(move || second.admits(1, Reading::of(&NOW)))]);
        assert_eq!(admitted, [true, true]);
        assert!([1, 2].contains(&left(&*cell)));
    });
}
