//! Several limiters in one script: all enforced limiters admit, or none is charged; shadow rules count and never
//! refuse. A random walk compares it with the core's own step over several.
//!
//! `TIDEGATE_LONG=1` walks 200,000 steps.

use crate::server::policies::{rule_of, small};
use crate::server::{Client, held, long};
use std::time::Duration;
use testkit::model;
use testkit::traffic::Rng;
use tidegate::script::{ScriptLimiter, ScriptStep};
use tidegate::{AlgorithmKind, Decision, Rule, Spec, Timestamp};
use tidegate_core::look_at_all;

/// One limiter of a walk.
struct Part {
    key: String,
    rule: Rule,
    core: Box<dyn held::Limiter>,
    enforced: bool,
    cost: u64,
    /// It is asked for one unit, and none is taken.
    looks: bool,
}

/// The core's answer to a report: each limiter by itself, and true if all enforced limiters admit one unit more.
fn reported(parts: &mut [Part], at: Timestamp) -> (bool, Vec<Decision>) {
    let (mut allowed, mut decisions) = (true, Vec::new());
    for part in parts {
        let (admits, decision) = match (part.looks, part.cost) {
            (true, _) => part.core.look(at),
            (false, 0) => part.core.step(ScriptStep::Ask, at, 0, 0),
            (false, cost) => part.core.step(ScriptStep::Report, at, cost, 0),
        };
        allowed &= admits || !part.enforced;
        decisions.push(decision);
    }
    (allowed, decisions)
}

/// The core's answer, including each limiter's decision.
fn by_the_core(parts: &mut [Part], step: ScriptStep, at: Timestamp) -> (bool, Vec<Decision>) {
    if step == ScriptStep::Report {
        return reported(parts, at);
    }
    let (goes_on, decisions, took) = {
        let looks: Vec<_> = parts.iter().map(|part| part.looks).collect();
        let held = parts
            .iter_mut()
            .map(|part| part.core.hold(at, if part.looks { 1 } else { part.cost }, part.enforced));
        let mut held: Vec<_> = held.collect();
        let goes_on = look_at_all(&mut held, at);
        let admits = held.iter().map(|one| goes_on && one.verdict().is_allowed());
        let took =
            admits.zip(looks).map(|(admits, looks)| step == ScriptStep::Ask && admits && !looks);
        let took: Vec<_> = took.collect();
        held.iter_mut().zip(&took).filter(|(_, took)| **took).for_each(|(one, _)| one.take());
        (goes_on, held.iter().map(|one| one.report()).collect(), took)
    };
    for (part, took) in parts.iter_mut().zip(took) {
        part.core.release(at, took && part.cost > 0);
    }
    (goes_on, decisions)
}

#[test]
fn a_step_over_several_is_that_of_the_core() {
    let client = Client::start();
    let rng = &mut Rng::new(77);
    let (walks, steps) = if long() { (400, 500) } else { (15, 200) };
    let (mut admitted, mut refused) = (0, 0);
    for walk in 0..walks {
        let mut parts: Vec<Part> = (0..rng.between(2, 5))
            .map(|number| {
                let algorithm = rng.pick(model::AlgorithmKind::ALL);
                let rule = rule_of(&small(rng, algorithm));
                let core = held::limiter(&rule);
                let key = format!("several:{walk}:{number}");
                Part { key, rule, core, enforced: rng.chance(80), cost: 0, looks: false }
            })
            .collect();
        let mut at_us = 1_763_700_000_000_000;
        for turn in 0..steps {
            at_us += rng.pick([0, 1, 1_000, 10_000, 100_000, 3_000_000]);
            if rng.chance(3) {
                at_us -= rng.pick([1, 5_000, 400_000, 90_000_000]);
            }
            let at = Timestamp::from_micros(at_us);
            for part in &mut parts {
                part.cost = rng.pick([0, 1, 1, 1, 2, 5]);
                part.looks = part.cost == 0 && rng.chance(50);
            }
            let step = rng.pick([
                ScriptStep::Ask,
                ScriptStep::Ask,
                ScriptStep::Ask,
                ScriptStep::Peek,
                ScriptStep::Report,
            ]);
            let answer = {
                let limiters: Vec<_> = parts.iter().map(limiter_of).collect();
                client.step(&limiters, step, Some(at))
            };
            let (goes_on, decisions) = by_the_core(&mut parts, step, at);
            assert_eq!(answer.decisions, decisions, "walk {walk} turn {turn} {step:?} at {at_us}");
            assert_eq!(answer.allowed, goes_on);
            if goes_on { admitted += 1 } else { refused += 1 }
        }
    }
    assert!(admitted > 100 && refused > 100, "{admitted} admitted, {refused} refused");
}

fn limiter_of(part: &Part) -> ScriptLimiter<'_> {
    let limiter = ScriptLimiter::new(part.key.as_bytes(), &part.rule, part.cost).unwrap();
    let limiter = if part.looks { limiter.looking() } else { limiter };
    if part.enforced { limiter } else { limiter.shadow() }
}

#[test]
fn none_is_charged_when_one_refuses_and_a_changed_one_is_amended_in_the_same_step() {
    let client = Client::start();
    let rule =
        |algorithm, limit| Rule::new(Spec::new(algorithm, limit, Duration::from_secs(60))).unwrap();
    let (wide, narrow) = (rule(AlgorithmKind::SlidingLog, 10), rule(AlgorithmKind::TokenBucket, 2));
    let ask = |wide: &Rule, cost| {
        let both =
            [ScriptLimiter::new(b"wide", wide, cost), ScriptLimiter::new(b"narrow", &narrow, cost)];
        client.step(&both.map(Option::unwrap), ScriptStep::Ask, None)
    };
    assert!(ask(&wide, 2).allowed);
    let refused = ask(&wide, 1);
    assert!(!refused.allowed);
    assert_eq!(refused.decisions[0].remaining, 8, "the limiter that would admit is not charged");

    let wider = rule(AlgorithmKind::SlidingWindow, 20);
    let amended = ask(&wider, 1);
    assert!(!amended.allowed);
    assert_eq!(client.changed.get(), 1);
    assert_eq!(amended.decisions[0].remaining, 18, "usage carries over");
    ask(&wider, 1);
    assert_eq!(client.changed.get(), 1, "amended once and for all");
}
