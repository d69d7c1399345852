//! The memory store under the model checker: every interleaving of two or three threads, within a bound on the number
//! of interruptions.
//!
//! The clock stands still in each of them, so that admitted requests can be counted to the unit.
#![allow(clippy::expect_used, clippy::panic, reason = "a model fails by panicking")]

mod cells;
mod changed;
mod several;
mod tables;

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{
    AlgorithmKind, Anchor, Decide, FixedWindow, Pack, Packing, Rule, Spec, Timestamp,
};

use super::build::budget_of;
use super::packed::Packed;
use super::succession::Succession;
use super::table::Table;
use super::{Limiters, Part};
use crate::clock::Reading;
use crate::key::Fingerprint;
use crate::rules::{OnFull, RuleSpec};
use crate::step::Step;

/// The base of packed times.
const BASE: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);
/// The window of all limiters.
const WINDOW: Duration = Duration::from_secs(1);
/// The instant at which the threads run.
const NOW: Timestamp = Timestamp::from_micros(BASE.as_micros() + 1_000_000);

/// Runs a model under every interleaving with at most `interruptions` of a thread that could go on.
fn explore(interruptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(interruptions);
    builder.max_branches = 4_000;
    builder.check(model);
}

/// Runs each on a thread of its own; returns their results in order.
fn together<T: 'static>(threads: Vec<Box<dyn FnOnce() -> T>>) -> Vec<T> {
    let mut threads = threads.into_iter();
    let Some(own) = threads.next() else { return Vec::new() };
    let others: Vec<_> = threads.map(loom::thread::spawn).collect();
    let own = own();
    let joined = others.into_iter().map(|thread| thread.join().expect("a thread failed"));
    [own].into_iter().chain(joined).collect()
}

/// A spec of `limit` units per window; a window starts with its first unit.
fn spec(limit: u64) -> Spec {
    let mut spec = Spec::new(AlgorithmKind::FixedWindow, limit, WINDOW);
    spec.anchor = Some(Anchor::FirstRequest);
    // Debts are of any size, so that they need space next to a word.
    spec.max_debt = Some(u64::MAX);
    spec
}

/// A table of such limiters, with room for `most_keys`; further keys are refused.
fn table(limit: u64, most_keys: usize) -> Arc<Packed<FixedWindow>> {
    let algorithm = FixedWindow::build(&spec(limit), limit, WINDOW.into()).expect("a sound rule");
    let caps = RuleSpec::new("", spec(limit)).max_keys(most_keys, OnFull::Refuse);
    let rule = Rule::new(spec(limit)).expect("a sound rule");
    let succession = Succession::new(rule, BASE, Vec::new());
    Arc::new(Packed::new(algorithm, BASE, budget_of(&caps, None), succession))
}

/// The limiters of such a rule, which may be changed; keys above `most_keys` share one.
fn limiters(limit: u64, most_keys: usize) -> Arc<Limiters> {
    let rule = Rule::new(spec(limit)).expect("a sound rule");
    Arc::new(Limiters::new(&rule, &caps(limit, most_keys), Some(BASE)))
}

fn caps(limit: u64, most_keys: usize) -> RuleSpec {
    RuleSpec::new("", spec(limit)).max_keys(most_keys, OnFull::Share)
}

/// A fingerprint whose lowest bit chooses its chain among two.
const fn fingerprint(number: u32) -> Fingerprint {
    Fingerprint::from_words([number, 1, 1]).expect("not an empty place")
}

/// The units that a key's limiter still admits.
fn left(table: &dyn Table, fingerprint: Fingerprint) -> u64 {
    let peeked = table.one(&Part::alone(fingerprint, 1, Step::Peek), Reading::of(&NOW));
    peeked.expect("the only table").decided.decision.remaining
}

/// The cost of one unit in tests that need a word for the count alone.
const MANY: u64 = 10_000;

/// A spec of `limit` times as many units per window, with a state of two words.
fn two_words(limit: u64) -> Spec {
    let spec = spec(limit * MANY);
    let algorithm = FixedWindow::build(&spec, limit * MANY, WINDOW.into()).expect("a sound rule");
    assert_eq!(algorithm.packing(), Packing::Two);
    spec
}
