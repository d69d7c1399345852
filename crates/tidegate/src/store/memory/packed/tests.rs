//! Spilled debts use counted memory, and give it back.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{
    AlgorithmKind, Anchor, Decide, FixedWindow, Rule, SlidingCounter, Spec, Timestamp,
};

use super::lines::SPILLED;
use super::*;
use crate::rules::{OnFull, RuleSpec};

const BASE: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);
const HOUR: Duration = Duration::from_secs(3_600);
const DEBT: u64 = 1_000_000;
/// The largest count that fits in a word next to the end of a window.
const LARGEST: u64 = (1 << 14) - 1;

/// A table of 100 units an hour, with memory for a given number of large debts.
fn table(debts: usize) -> Packed<FixedWindow> {
    let mut spec = Spec::new(AlgorithmKind::FixedWindow, 100, HOUR);
    spec.anchor = Some(Anchor::FirstRequest);
    spec.max_debt = Some(u64::MAX);
    let algorithm = FixedWindow::build(&spec, 100, HOUR.into()).unwrap();
    let budget = Budget::new(10);
    let mut caps = RuleSpec::new("", spec).max_keys(10, OnFull::Refuse);
    caps.spec.max_memory = Some((debts * Spilled::<FixedWindow>::BYTES) as u64);
    budget.follow(&caps);
    let rule = Rule::new(spec).unwrap();
    Packed::new(algorithm, BASE, Arc::new(budget), Succession::new(rule, BASE, Vec::new()))
}

fn fingerprint(number: u32) -> Fingerprint {
    Fingerprint::from_words([number, 1, 1]).unwrap()
}

/// A table of many units an hour, in so many bytes; a counter fills half a word.
fn table_of_two_words(max_memory: u64) -> Packed<SlidingCounter, 2, 2> {
    let limit = 1_000_000_000;
    let mut spec = Spec::new(AlgorithmKind::SlidingCounter, limit, HOUR);
    spec.max_debt = Some(u64::MAX);
    let algorithm = SlidingCounter::build(&spec, limit, HOUR.into()).unwrap();
    let budget = Budget::new(1_000_000);
    let mut caps = RuleSpec::new("", spec).max_keys(1_000_000, OnFull::Refuse);
    caps.spec.max_memory = Some(max_memory);
    budget.follow(&caps);
    let rule = Rule::new(spec).unwrap();
    Packed::new(algorithm, BASE, Arc::new(budget), Succession::new(rule, BASE, Vec::new()))
}

fn run<R: Algorithm, const PLACES: usize, const WORDS: usize>(
    table: &Packed<R, PLACES, WORDS>,
    key: u32,
    cost: u64,
    step: Step,
    at: Timestamp,
) -> u64 {
    table
        .one(&Part::alone(fingerprint(key), cost, step), Reading::of(&at))
        .unwrap()
        .decided
        .decision
        .remaining
}

fn owe(table: &Packed<FixedWindow>, key: u32, at: Timestamp) {
    assert_eq!(run(table, key, 0, Step::Settle { actual: DEBT, token: None, since: None }, at), 0);
}

/// Units that a key must get back before it can take one.
fn owed<R: Algorithm, const PLACES: usize, const WORDS: usize>(
    table: &Packed<R, PLACES, WORDS>,
    key: u32,
) -> u64 {
    let chain = table.chains.lock(fingerprint(key)).unwrap();
    let word = chain.find(fingerprint(key)).unwrap().state();
    table.common.rules.algorithm.used(&table.unpack(fingerprint(key), word), BASE)
}

#[test]
fn a_debt_for_which_there_is_no_memory_stops_at_the_largest_count_of_a_word() {
    let table = table(2);
    (1..=3).for_each(|key| owe(&table, key, BASE));
    assert_eq!([1, 2, 3].map(|key| owed(&table, key)), [DEBT, DEBT, LARGEST]);
    owe(&table, 1, BASE);
    assert_eq!(owed(&table, 1), 2 * DEBT, "one that is kept may grow");
}

#[test]
fn a_debt_finds_bytes_beside_as_many_new_keys_as_fit() {
    let table = table_of_two_words(10_000);
    let admits = |key: &u32| table.admits(fingerprint(*key), 1, BASE, &BASE).unwrap();
    let keys = (1..=1_000).filter(admits).count();
    assert!((100..200).contains(&keys), "{keys} keys");
    for key in 1..=5 {
        assert_eq!(
            run(&table, key, 0, Step::Settle { actual: 1 << 40, token: None, since: None }, BASE),
            0
        );
        assert_eq!(owed(&table, key), (1 << 40) + 1);
    }
}

#[test]
fn one_limiter_of_two_words_has_space_and_may_owe_in_any_memory() {
    let table = table_of_two_words(1);
    let admits = |key: u32| table.admits(fingerprint(key), 1, BASE, &BASE).unwrap();
    assert!(admits(1));
    run(&table, 1, 0, Step::Settle { actual: 1 << 40, token: None, since: None }, BASE);
    assert_eq!(owed(&table, 1), (1 << 40) + 1);
    assert!(!admits(2), "all bytes are in use");
    run(&table, 1, 0, Step::Reset { remembers: false }, BASE);
    assert_eq!((table.common.budget.keys(), table.common.budget.bytes()), (0, 0));
}

/// A debt ends by a refund of all or of a part, by a reset, by a sweep, or by a unit that starts another window.
#[test]
fn a_debt_that_ends_gives_its_memory_back() {
    let table = table(1);
    let mut at = BASE;
    for key in 1..=20 {
        owe(&table, key, at);
        let chain = table.chains.lock(fingerprint(key)).unwrap();
        assert_eq!(chain.find(fingerprint(key)).unwrap().state(), [SPILLED], "{key}");
        drop(chain);
        match key % 5 {
            0 => _ = run(&table, key, DEBT, Step::Refund, at),
            1 => assert_eq!(run(&table, key, DEBT - 7, Step::Refund, at), 93),
            2 => _ = run(&table, key, 0, Step::Reset { remembers: false }, at),
            3 => {
                at = at.plus(HOUR);
                assert!(table.admits(fingerprint(key), 1, at, &at).unwrap());
                assert_eq!(run(&table, key, 1, Step::Refund, at), 100);
            }
            _ => {
                at = at.plus(HOUR);
                table.sweep(table.chains.count(), at);
            }
        }
    }
}
