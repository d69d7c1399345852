//! The keyed table: it grows and drops idle limiters during steps, and neither loses nor doubles a limiter.

use std::sync::Arc;

use tidegate_core::{FixedWindow, Timestamp};

use super::{BASE, NOW, WINDOW, explore, fingerprint, left, table, together};
use crate::clock::Reading;
use crate::step::{One, Step};
use crate::store::memory::Part;
use crate::store::memory::packed::Packed;
use crate::store::memory::table::Table;

type Limiters = Packed<FixedWindow>;

/// A thread that asks for one unit of a key.
fn ask(table: &Arc<Limiters>, key: u32, at: Timestamp) -> Box<dyn FnOnce() -> bool> {
    let table = Arc::clone(table);
    Box::new(move || admits(&table, key, at))
}

fn admits(table: &Limiters, key: u32, at: Timestamp) -> bool {
    table.admits(fingerprint(key), 1, at, &at).expect("the only table")
}

fn one(table: &Limiters, part: &Part<'_>) -> One {
    table.one(part, Reading::of(&NOW)).expect("the only table")
}

/// A thread that gives one unit back.
fn refund(table: &Arc<Limiters>, key: u32) -> Box<dyn FnOnce() -> bool> {
    let table = Arc::clone(table);
    let part = Part::alone(fingerprint(key), 1, Step::Refund);
    Box::new(move || one(&table, &part).verdict.is_allowed())
}

#[test]
fn two_threads_that_bring_the_same_key_get_one_limiter() {
    explore(3, || {
        let table = table(1, 4);
        let admitted = together(vec![ask(&table, 2, NOW), ask(&table, 2, NOW)]);
        assert_ne!(admitted[0], admitted[1]);
        assert_eq!((left(&*table, fingerprint(2)), table.common.budget.keys()), (0, 1));
    });
}

/// Each thread asks twice, for the same two new keys in opposite orders.
#[test]
fn two_threads_with_the_same_new_keys_get_one_limiter_for_each() {
    explore(2, || {
        let table = table(1, 4);
        let both = |keys: [u32; 2]| {
            let table = Arc::clone(&table);
            let asks = move || keys.map(|key| admits(&table, key, NOW));
            Box::new(asks) as Box<dyn FnOnce() -> [bool; 2]>
        };
        let admitted = together(vec![both([2, 3]), both([3, 2])]);
        assert_ne!(admitted[0][0], admitted[1][1], "key 2");
        assert_ne!(admitted[0][1], admitted[1][0], "key 3");
        assert_eq!((left(&*table, fingerprint(2)), left(&*table, fingerprint(3))), (0, 0));
        assert_eq!(table.common.budget.keys(), 2);
    });
}

/// The second key makes the table grow from one chain to two, and moves a key in use.
#[test]
fn a_key_in_use_is_neither_lost_nor_doubled_while_its_chain_is_split() {
    for (first, second) in [(2, 3), (3, 2), (2, 4), (3, 5)] {
        explore(2, move || {
            let table = table(2, 8);
            assert!(admits(&table, first, NOW));
            let admitted = together(vec![ask(&table, second, NOW), ask(&table, first, NOW)]);
            assert_eq!(admitted, [true, true]);
            assert_eq!(left(&*table, fingerprint(first)), 0, "both units are remembered");
            assert_eq!(left(&*table, fingerprint(second)), 1);
            assert_eq!(table.common.budget.keys(), 2);
        });
    }
}

#[test]
fn keys_added_while_the_table_grows_are_all_there() {
    explore(2, || {
        let table = table(1, 8);
        assert!(admits(&table, 2, NOW));
        let admitted = together(vec![ask(&table, 3, NOW), ask(&table, 5, NOW)]);
        assert_eq!(admitted, [true, true]);
        let left: Vec<_> = [2, 3, 5].map(|key| left(&*table, fingerprint(key))).into();
        assert_eq!((left, table.common.budget.keys()), (vec![0; 3], 3));
    });
}

/// A full table has an idle limiter and a limiter in use. A new key gets the place of the idle limiter, even while
/// requests ask the other.
#[test]
fn a_sweep_drops_what_can_go_and_nothing_else() {
    explore(2, || {
        let table = table(2, 2);
        assert!(admits(&table, 2, BASE), "idle by now");
        assert!(admits(&table, 3, NOW));
        let admitted = together(vec![ask(&table, 5, NOW), ask(&table, 3, NOW)]);
        assert_eq!(admitted, [true, true]);
        assert_eq!(left(&*table, fingerprint(3)), 0, "both units are remembered");
        assert_eq!(left(&*table, fingerprint(5)), 1);
        assert_eq!(table.common.budget.keys(), 2);
    });
}

/// The idle limiter is asked during the sweep: it is dropped first and starts fresh, or it is in use and stays.
#[test]
fn a_limiter_asked_while_it_is_swept_is_there_afterwards() {
    explore(2, || {
        let table = table(2, 2);
        assert!(admits(&table, 2, BASE), "idle by now");
        assert!(admits(&table, 3, NOW));
        let admitted = together(vec![ask(&table, 5, NOW), ask(&table, 2, NOW)]);
        assert!(admitted[0] | admitted[1], "there is room for one of them");
        for (key, admitted) in [(5, admitted[0]), (2, admitted[1])] {
            let of_its_own = u64::from(admitted);
            assert_eq!(
                left(&*table, fingerprint(key)),
                of_its_own,
                "{key}: without a limiter it is refused"
            );
        }
        assert_eq!(left(&*table, fingerprint(3)), 1);
        let own = admitted.iter().filter(|yes| **yes).count();
        assert_eq!(table.common.budget.keys(), 1 + own);
    });
}

/// A limiter to which everything was given back remembers since when it counts, so it keeps its place for the rest of
/// its window, and then leaves it to another key.
#[test]
fn a_limiter_that_got_all_units_back_keeps_its_place_until_its_window_ends() {
    explore(2, || {
        let table = table(1, 1);
        assert!(admits(&table, 2, NOW));
        let admitted = together(vec![ask(&table, 3, NOW), refund(&table, 2)]);
        assert_eq!(admitted, [false, true]);
        assert_eq!((left(&*table, fingerprint(2)), left(&*table, fingerprint(3))), (1, 0));
        assert_eq!(table.common.budget.keys(), 1);
        assert!(admits(&table, 3, NOW.plus(WINDOW)));
        assert_eq!(table.common.budget.keys(), 1);
    });
}

/// A debt too large for a word, settled while the same key is asked, or another key that makes the table grow: it
/// counts once, and moves with its key.
#[test]
fn a_debt_too_large_for_a_word_is_owed_once_and_by_its_key() {
    const LARGE: u64 = 100_000;
    for other in [2, 3, 4] {
        explore(2, move || {
            let table = table(2, 8);
            assert!(admits(&table, 2, NOW));
            let owing = Arc::clone(&table);
            let owe = move || {
                let step = Step::Settle { actual: LARGE, token: None, since: None };
                let part = Part::alone(fingerprint(2), 0, step);
                one(&owing, &part).decided.decision.remaining == 0
            };
            let results = together(vec![Box::new(owe), ask(&table, other, NOW)]);
            let asked = 1 + u64::from(other == 2 && results[1]);
            assert!(results[0] && (other == 2 || results[1]));
            let part = |units| Part::alone(fingerprint(2), units, Step::Refund);
            let refund = |units| one(&table, &part(units));
            let _ = refund(LARGE + asked - 1);
            assert_eq!(left(&*table, fingerprint(2)), 1, "one is owed still");
            let _ = refund(1);
            assert_eq!(table.common.budget.keys(), 1 + usize::from(other != 2));
        });
    }
}
