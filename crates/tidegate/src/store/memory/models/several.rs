//! Several limiters for one request: all of them or none, and no thread waits for ever.

use std::sync::Arc;

use super::{BASE, NOW, explore, fingerprint, spec, together};
use crate::clock::Clock;
use crate::rules::{Policy, RuleSpec};
use crate::step::{Ask, AskKind, AskValues, DescriptorSet, Done, Lineage, Step, TakenUnits};
use crate::store::memory::MemoryStore;
use tidegate_core::Timestamp;

/// The clock of the threads: states are packed, and no time passes.
pub(super) struct Still(pub(super) Timestamp);

impl Clock for Still {
    fn now(&self) -> Timestamp {
        self.0
    }

    fn never_steps_back(&self) -> bool {
        true
    }
}

/// A store with one rule of each limit.
pub(super) fn store(limits: &[u64]) -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(policy(limits), &Still(BASE)))
}

/// A policy with one rule of each limit.
pub(super) fn policy(limits: &[u64]) -> Policy {
    let rule = |(number, limit): (usize, &u64)| {
        RuleSpec::new(format!("rule-{number}"), spec(*limit)).key(["user"])
    };
    Policy::new(limits.iter().enumerate().map(rule).collect()).expect("a sound policy")
}

/// One step of a request in the newest generation.
pub(super) fn step(store: &MemoryStore, asks: &[Ask], step: Step) -> Done {
    store.ask(|generation| store.step(generation, asks, &Still(NOW), step)).1
}

/// A request of one unit from each of these limiters, by rule and key, in this order.
pub(super) fn request(limiters: &[(usize, u32)]) -> Vec<Ask> {
    let asks = |(rule, key): &(usize, u32)| Ask {
        lineage: Lineage::of_rule(*rule as u32),
        rule: *rule,
        values: AskValues::of_variant(0),
        fingerprint: fingerprint(*key),
        cost: 1,
        kind: AskKind::Question,
        enforced: true,
        by: DescriptorSet::one(0),
        reserves: false,
        taken: TakenUnits::default(),
    };
    limiters.iter().map(asks).collect()
}

/// Forgets limiters in the newest generation.
pub(super) fn forget_all(store: &MemoryStore, asks: &[Ask]) {
    store.ask(|generation| store.reset(generation, asks, &NOW));
}

type Limiters = &'static [(usize, u32)];

/// Runs the requests concurrently; returns which were admitted.
pub(super) fn at_once(store: &Arc<MemoryStore>, requests: &[Limiters]) -> Vec<bool> {
    let ask = |limiters: &Limiters| {
        let (store, asks) = (Arc::clone(store), request(limiters));
        Box::new(move || step(&store, &asks, Step::Ask).allowed) as Box<dyn FnOnce() -> bool>
    };
    together(requests.iter().map(ask).collect())
}

pub(super) fn left(store: &MemoryStore, rule: usize, key: u32) -> u64 {
    let done = step(store, &request(&[(rule, key)]), Step::Peek);
    done.decisions.first().expect("a peek has values").decision.remaining
}

#[test]
fn two_tables_named_in_opposite_orders_are_charged_together_or_not_at_all() {
    explore(2, || {
        let store = store(&[2, 1]);
        let admitted = at_once(&store, &[&[(0, 2), (1, 2)], &[(1, 2), (0, 2)]]);
        assert_ne!(admitted[0], admitted[1], "the second rule admits one request");
        assert_eq!((left(&store, 0, 2), left(&store, 1, 2)), (1, 0));
        assert_eq!(store.keys(), 2);
    });
}

#[test]
fn two_keys_of_one_table_named_in_opposite_orders_are_charged_together_or_not_at_all() {
    explore(2, || {
        let store = store(&[1]);
        let admitted = at_once(&store, &[&[(0, 2), (0, 3)], &[(0, 3), (0, 2)]]);
        assert_ne!(admitted[0], admitted[1]);
        assert_eq!((left(&store, 0, 2), left(&store, 0, 3)), (0, 0));
        assert_eq!(store.keys(), 2);
    });
}

/// One thread takes a unit that the other's request also needs: the other is refused, and its other limiter is
/// unchanged.
#[test]
fn nobody_is_charged_for_a_refusal_by_another_rule() {
    explore(2, || {
        let store = store(&[1, 1]);
        let admitted = at_once(&store, &[&[(0, 2), (1, 2)], &[(1, 2)]]);
        assert_ne!(admitted[0], admitted[1]);
        assert_eq!(left(&store, 1, 2), 0);
        assert_eq!(left(&store, 0, 2), u64::from(!admitted[0]));
        assert_eq!(store.keys(), 1 + usize::from(admitted[0]), "no limiter for a refusal");
    });
}

/// Limiters that exist are charged by replacing their words: one request takes the last unit of the second, and the
/// other leaves the first as it is.
#[test]
fn limiters_that_exist_are_charged_together_or_not_at_all() {
    explore(2, || {
        let store = store(&[4, 2]);
        let both: Limiters = &[(0, 2), (1, 2)];
        assert!(step(&store, &request(both), Step::Ask).allowed);
        let admitted = at_once(&store, &[both, both]);
        assert_ne!(admitted[0], admitted[1]);
        assert_eq!((left(&store, 0, 2), left(&store, 1, 2)), (2, 0));
        assert_eq!(store.keys(), 2);
    });
}

/// Tables grow one after another while they are unlocked: a request that waits for the last must not hold the first.
#[test]
fn tables_that_grow_as_a_request_lets_go_of_them_block_nobody() {
    explore(1, || {
        let store = store(&[1, 1]);
        assert_eq!(at_once(&store, &[&[(0, 2), (1, 2)]]), [true]);
        let admitted = at_once(&store, &[&[(0, 3), (1, 3)], &[(0, 4), (1, 4)]]);
        assert_eq!(admitted, [true, true]);
        for key in 2..5 {
            assert_eq!((left(&store, 0, key), left(&store, 1, key)), (0, 0), "{key}");
        }
        assert_eq!(store.keys(), 6);
    });
}

/// A reset comes before or after a request over the same limiters, never between two of them.
#[test]
fn limiters_of_several_tables_are_forgotten_together() {
    explore(2, || {
        let store = store(&[3, 3]);
        let both = [(0, 2), (1, 2)];
        assert!(step(&store, &request(&both), Step::Ask).allowed);
        let (asking, forgetting) = (Arc::clone(&store), Arc::clone(&store));
        let ask = move || step(&asking, &request(&both), Step::Ask).allowed;
        let forget = move || {
            forget_all(&forgetting, &request(&[(1, 2), (0, 2)]));
            true
        };
        let results = together(vec![Box::new(ask) as Box<dyn FnOnce() -> bool>, Box::new(forget)]);
        assert_eq!(results, [true, true]);
        let left = [left(&store, 0, 2), left(&store, 1, 2)];
        assert!(left == [2, 2] || left == [3, 3], "{left:?}");
    });
}
