//! Permits: returned and renewed by their tokens, next to the naive model and by the promises of the definition.
//!
//! `TIDEGATE_LONG=1` walks twenty times as far.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use testkit::model::{AlgorithmKind, Model, Policy};
use testkit::traffic::{self, Rng};

const SECOND_US: u64 = 1_000_000;

fn walks() -> u64 {
    if testkit::threads::long() { 8_000 } else { 400 }
}

/// Asks, returns, renews, refunds and changes of limit and life, with a clock that steps both ways: the same answers
/// and tokens as the model.
#[test]
fn a_random_walk_of_permits_agrees_with_the_model() {
    let (mut late, mut renewed, mut returned) = (0, 0, 0);
    for seed in 0..walks() {
        let rng = &mut Rng::new(3_000_000 + seed);
        let mut policy = traffic::policy(rng, AlgorithmKind::Concurrency);
        policy.limit = policy.limit.clamp(1, 60);
        let (mut model, mut limiter) = (Model::new(policy.clone()), common::limiter(&policy));
        let mut tokens = Vec::new();
        for (number, (at_us, cost)) in
            traffic::jumpy_trace(rng, &policy, 150).into_iter().enumerate()
        {
            let rule = format!("{policy:?}");
            let context = || format!("seed {seed}, step {number} at {at_us} cost {cost}, {rule}");
            let (token, units) = tokens
                .get(rng.below(1 + tokens.len() as u64) as usize)
                .copied()
                .unwrap_or((rng.clone().below(2 * at_us + 1) + 1, 1));
            match rng.below(10) {
                0..4 => {
                    let taken = limiter.token_of(at_us, cost);
                    let asked = model.step(at_us, cost);
                    let by_model = model.token().filter(|_| asked.allowed && cost > 0);
                    assert_eq!(taken, by_model, "{}", context());
                    tokens.extend(taken.map(|token| (token, cost)));
                }
                4 | 5 => {
                    returned += 1;
                    limiter.return_permit(at_us, token, units);
                    model.return_permit(at_us, token, units);
                }
                6 | 7 => {
                    let is_out = limiter.renew(at_us, token);
                    assert_eq!(is_out, model.renew(at_us, token), "{}", context());
                    (late, renewed) = (late + u64::from(!is_out), renewed + u64::from(is_out));
                }
                8 => {
                    let units = rng.below(3);
                    limiter.refund(at_us, units);
                    model.refund(at_us, units);
                }
                _ if rng.chance(30) => {
                    policy.limit = rng.between(1, 60);
                    policy.window_us = policy.window_us * rng.between(1, 4) / 2;
                    policy.window_us = policy.window_us.clamp(1_000, 86_400 * SECOND_US);
                    limiter = limiter.amend(at_us, &policy);
                    model.amend(at_us, policy.clone());
                }
                _ => {}
            }
            let any = rng.between(1, 60);
            assert_eq!(limiter.peek(at_us, any), model.peek(at_us, any), "{}", context());
        }
    }
    assert!(late > 1_000 && renewed > 1_000 && returned > 1_000, "{late} {renewed} {returned}");
}

/// The clock steps at random; if it never steps back, idle states are dropped as well.
#[test]
fn tokens_grow_whatever_the_clock_does() {
    let mut forgotten = 0;
    for seed in 0..walks() {
        let rng = &mut Rng::new(4_000_000 + seed);
        let policy = Policy::new(AlgorithmKind::Concurrency, rng.between(1, 5), 2_000);
        let mut limiter = common::limiter(&policy);
        let mut last = 0;
        let steps_back = rng.chance(50);
        let trace = if steps_back { traffic::jumpy_trace } else { traffic::trace };
        for (at_us, _) in trace(rng, &policy, 200) {
            if !steps_back {
                forgotten += u64::from(limiter.forget_if_new(at_us));
            }
            if let Some(token) = limiter.token_of(at_us, 1) {
                assert!(token > last, "{token} after {last} at {at_us}, seed {seed}");
                last = token;
                if rng.chance(60) {
                    limiter.return_permit(at_us, token, 1);
                }
            }
        }
    }
    assert!(forgotten > 500, "only {forgotten} were forgotten: the property says little");
}

/// A history by instants: the units that all holders have by their answers are never more than N together.
#[test]
fn never_more_than_the_limit_is_out_by_what_holders_know() {
    for seed in 0..walks() {
        let rng = &mut Rng::new(5_000_000 + seed);
        let policy = Policy::new(AlgorithmKind::Concurrency, rng.between(1, 12), SECOND_US);
        let mut limiter = common::limiter(&policy);
        // The end of each permit that its holder has not returned, and its token and units.
        let mut held: Vec<(u64, u64, u64)> = Vec::new();
        let mut lost: Vec<(u64, u64)> = Vec::new();
        let mut at_us = 7;
        for _ in 0..300 {
            at_us += rng.below(SECOND_US / 5);
            let cost = rng.between(1, policy.limit);
            match rng.below(5) {
                0 | 1 => {
                    let token = limiter.token_of(at_us, cost);
                    held.extend(token.map(|token| (at_us + SECOND_US, token, cost)));
                }
                // A holder crashes: its permit is not renewed or returned, and is out until it ends.
                4 if !held.is_empty() => {
                    let (end_us, _, units) =
                        held.swap_remove(rng.below(held.len() as u64) as usize);
                    lost.push((end_us, units));
                }
                2 if !held.is_empty() => {
                    let one = rng.below(held.len() as u64) as usize;
                    let (end_us, token, _) = &mut held[one];
                    let is_out = limiter.renew(at_us, *token);
                    assert_eq!(is_out, *end_us > at_us, "a late renewal is reported");
                    if is_out {
                        *end_us = at_us + SECOND_US;
                    }
                }
                _ if !held.is_empty() => {
                    let one = rng.below(held.len() as u64) as usize;
                    let gone = held.swap_remove(one);
                    limiter.return_permit(at_us, gone.1, gone.2);
                    limiter.return_permit(at_us, gone.1, gone.2);
                }
                _ => {}
            }
            let out = held.iter().map(|(end_us, _, units)| (*end_us, *units));
            let out = out.chain(lost.iter().copied()).filter(|(end_us, _)| *end_us > at_us);
            let out: u64 = out.map(|(_, units)| units).sum();
            assert!(out <= policy.limit, "{out} of {} at {at_us}, seed {seed}", policy.limit);
            assert_eq!(limiter.peek(at_us, 0).remaining, policy.limit - out, "seed {seed}");
        }
    }
}
