//! Random walks: every verb, step by step, compared with the naive model in every value.
//!
//! Random policies of every algorithm, with states that fit in one word, two or none. `TIDEGATE_LONG=1` walks ten
//! times as far.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use testkit::model::{self, Model};
use testkit::threads::{long, together};
use testkit::traffic::{self, Rng};
use tidegate::{Clock, ManualClock, Timestamp};

use crate::kit::every_subject_in_memory;
use crate::packed::{answered, spec_of};
use crate::subjects::{Case, InMemory, Subject};

every_subject_in_memory! {
    a_random_walk_is_answered_as_by_the_models,
    eight_callers_get_what_the_model_has_as_time_passes,
}

/// The number of policies of each algorithm, and of the steps of each.
const POLICIES: u64 = 60;
const STEPS: usize = 250;
/// A clock that never steps back may be read at most this long after its first reading.
pub(crate) const HORIZON_US: u64 = 1 << 48;
const SECOND_US: u64 = 1_000_000;

/// One verb on the subject and on the model of its key.
fn step(subject: &dyn Subject, model: &mut Model, key: &str, at_us: u64, rng: &mut Rng, cost: u64) {
    match rng.below(100) {
        0..50 => assert_eq!(answered(&subject.check(key, cost)), model.step(at_us, cost), "check"),
        50..65 => assert_eq!(subject.admits(key, cost), model.step(at_us, cost).allowed, "admits"),
        65..78 => assert_eq!(answered(&subject.peek(key, cost)), model.peek(at_us, cost), "peek"),
        78..87 => {
            let _ = subject.refund(key, cost);
            model.refund(at_us, cost);
        }
        // Some subjects name the permit, and some give back what ends first.
        87..97 if !model.policy().holds_permits() => {
            let (want, actual) = (model.reserve(at_us, cost), rng.skewed(2 * cost.min(1_000) + 1));
            let reserved = subject.reserve(key, cost);
            assert_eq!(reserved.is_ok(), want.allowed, "reserve");
            if let Ok(settle) = reserved {
                let _ = settle(actual);
                let since_us = model.last_us().unwrap_or(at_us);
                model.settle_since(at_us, since_us, cost, actual);
            }
        }
        _ => {
            subject.reset(key);
            model.reset(at_us);
        }
    }
    assert_eq!(answered(&subject.peek(key, 1)), model.peek(at_us, 1), "as it stands then");
}

fn a_random_walk_is_answered_as_by_the_models(case: &Case<'_, dyn InMemory>) {
    let mut steps = 0;
    for seed in 0..POLICIES * if long() { 10 } else { 1 } {
        let rng = &mut Rng::new(seed);
        let mut policy = traffic::policy(rng, case.model());
        if !case.kind.has_initial() {
            policy.initial = None;
        }
        let trace = traffic::trace(rng, &policy, STEPS);
        let began_us = trace[0].0;
        let clock = ManualClock::starting_at(Timestamp::from_micros(began_us));
        let subject = case.by(&clock, spec_of(&policy));
        let keys = subject.keys();
        let mut models = keys.iter().map(|_| Model::new(policy.clone())).collect::<Vec<_>>();
        let within = trace.into_iter().take_while(|(at_us, _)| at_us - began_us < HORIZON_US);
        for (number, (at_us, cost)) in within.enumerate() {
            clock.advance_to(Timestamp::from_micros(at_us));
            steps += 1;
            let key = rng.below(keys.len() as u64) as usize;
            let took = std::panic::AssertUnwindSafe(|| {
                step(&*subject, &mut models[key], keys[key], at_us, rng, cost);
            });
            let equal = std::panic::catch_unwind(took).is_ok();
            assert!(equal, "seed {seed}, step {number} at {at_us}: {policy:?}");
        }
    }
    assert!(steps > 10_000, "{steps} steps: too short a walk");
}

/// Rules with a state in one word, in two (a large prime of units in half a year, or more of them than one word can
/// count), or in none.
fn policies(case: &Case<'_, dyn InMemory>) -> Vec<model::Policy> {
    let algorithm = case.model();
    let small = model::Policy::new(algorithm, 200, SECOND_US);
    let mut all = vec![small.clone()];
    match algorithm {
        model::AlgorithmKind::FixedWindow => {
            all.push(model::Policy { anchor_first_request: true, ..small });
        }
        algorithm if algorithm.has_capacity() => {
            let large = model::Policy::new(algorithm, 999_999_937, 20_000_000 * SECOND_US);
            all.push(model::Policy { capacity: Some(200), ..large });
            if case.kind.has_initial() && algorithm == model::AlgorithmKind::TokenBucket {
                all.push(model::Policy { initial: Some(100), ..small });
            }
        }
        _ => {}
    }
    all
}

/// The callers take all there is, then time passes, again and again; each time new keys make tables grow.
fn eight_callers_get_what_the_model_has_as_time_passes(case: &Case<'_, dyn InMemory>) {
    for policy in policies(case) {
        let clock = ManualClock::new();
        let subject = case.by(&clock, spec_of(&policy));
        let (key, has_others) = (subject.keys()[0], subject.keys().len() > 1);
        let (mut model, rng) = (Model::new(policy.clone()), &mut Rng::new(policy.limit));
        let others = AtomicU64::new(0);
        for step in 0..24 * if long() { 20 } else { 1 } {
            let got = AtomicU64::new(0);
            together(8, |_, rng| {
                let mut refused = 0;
                while refused < 3 {
                    if has_others {
                        let other = others.fetch_add(1, Relaxed).to_string();
                        assert!(subject.admits(&other, 1), "each of them comes once");
                    }
                    let admitted = match rng.chance(50) {
                        true => subject.check(key, 1).is_allowed(),
                        false => subject.admits(key, 1),
                    };
                    got.fetch_add(u64::from(admitted), Relaxed);
                    refused += u64::from(!admitted);
                }
            });
            let now_us = clock.now().as_micros();
            let there = std::iter::repeat_with(|| model.step(now_us, 1).allowed);
            let want = there.take_while(|allowed| *allowed).count() as u64;
            assert_eq!(got.into_inner(), want, "step {step}: {policy:?}");
            let pauses = [1, 5_000, 40_000, 300_000, SECOND_US - 1, SECOND_US, 3 * SECOND_US];
            clock.advance(Duration::from_micros(rng.pick(pauses)));
        }
    }
}
