//! Giving back what was taken before: over everything that limits in memory, under every algorithm.

use std::time::Duration;

use testkit::model::Model;
use testkit::threads::long;
use testkit::traffic::{self, Rng};
use tidegate::{AlgorithmKind, ManualClock, Spec, Timestamp};

use crate::kit::every_subject_in_memory;
use crate::packed::{answered, spec_of};
use crate::subjects::{Case, InMemory, Settle};
use crate::walk::HORIZON_US;

every_subject_in_memory! {
    what_was_taken_long_ago_is_not_given_back_to_the_window_of_today,
    reservations_that_are_held_are_settled_as_by_the_models,
}

const SECOND: Duration = Duration::from_secs(1);

fn what_was_taken_long_ago_is_not_given_back_to_the_window_of_today(case: &Case<'_, dyn InMemory>) {
    let clock = ManualClock::new();
    let subject = case.by(&clock, Spec::new(case.algorithm, 10, SECOND));
    let key = subject.keys()[0];
    let held: Vec<_> = (0..15)
        .map(|_| {
            let held = subject.reserve(key, 10).ok().unwrap();
            clock.advance(2 * SECOND);
            held
        })
        .collect();
    assert!(subject.check(key, 10).is_allowed());
    for settle in held {
        let _ = settle(0);
        assert!(!subject.check(key, 10).is_allowed(), "it was taken seconds ago");
    }
}

/// A reservation that is held: the key, its settlement, the time when it was taken, and its units.
type Held<'s> = (usize, Settle<'s>, u64, u64);

/// Reservations are settled in any order, at any later time, between other verbs.
fn reservations_that_are_held_are_settled_as_by_the_models(case: &Case<'_, dyn InMemory>) {
    if case.algorithm == AlgorithmKind::Concurrency {
        return; // its permits have walks of their own
    }
    let mut settled = 0;
    for seed in 0..40 * if long() { 20 } else { 1 } {
        let rng = &mut Rng::new(7_000 + seed);
        let mut policy = traffic::policy(rng, case.model());
        policy.limit = policy.limit.min(1_000);
        policy.capacity = policy.capacity.map(|capacity| capacity.min(1_000));
        policy.initial = None;
        let trace = traffic::trace(rng, &policy, 250);
        let began_us = trace[0].0;
        let clock = ManualClock::starting_at(Timestamp::from_micros(began_us));
        let subject = case.by(&clock, spec_of(&policy));
        let keys = subject.keys();
        let mut models = keys.iter().map(|_| Model::new(policy.clone())).collect::<Vec<_>>();
        let mut all_held: Vec<Held<'_>> = Vec::new();
        let within = trace.into_iter().take_while(|(at_us, _)| at_us - began_us < HORIZON_US);
        for (number, (at_us, cost)) in within.enumerate() {
            let context = || format!("seed {seed}, step {number} at {at_us}: {policy:?}");
            clock.advance_to(Timestamp::from_micros(at_us));
            let place = rng.below(keys.len() as u64) as usize;
            let (key, model) = (keys[place], &mut models[place]);
            match rng.below(100) {
                0..35 => assert_eq!(
                    answered(&subject.check(key, cost)),
                    model.step(at_us, cost),
                    "{}",
                    context()
                ),
                35..65 => {
                    let (want, held) = (model.reserve(at_us, cost), subject.reserve(key, cost));
                    assert_eq!(held.is_ok(), want.allowed, "{}", context());
                    let since_us = model.last_us().unwrap_or(at_us);
                    all_held.extend(held.ok().map(|settle| (place, settle, since_us, cost)));
                }
                65..97 if !all_held.is_empty() => {
                    let which = rng.below(all_held.len() as u64) as usize;
                    let (place, settle, since_us, cost) = all_held.swap_remove(which);
                    let (model, actual) = (&mut models[place], rng.skewed(cost + 1));
                    model.settle_since(at_us, since_us, cost, actual);
                    assert_eq!(answered(&settle(actual)), model.peek(at_us, 0), "{}", context());
                    settled += 1;
                }
                65..97 => {}
                97..99 => {
                    let _ = subject.refund(key, cost);
                    model.refund(at_us, cost);
                }
                _ => {
                    subject.reset(key);
                    model.reset(at_us);
                }
            }
            let (key, model) = (keys[place], &mut models[place]);
            assert_eq!(answered(&subject.peek(key, 1)), model.peek(at_us, 1), "{}", context());
        }
    }
    assert!(settled > 500, "only {settled} were settled");
}
