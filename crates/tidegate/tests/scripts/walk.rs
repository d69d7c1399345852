//! A random walk compares every script with the core: the verdict and every value, at every step; with clocks that step
//! back, costs of nothing and of too much, debts, refunds, and rules that change.
//!
//! The time is an argument here, so that both use the same. `TIDEGATE_LONG=1` walks 200,000 steps of each algorithm.

use crate::server::policies::{checked, layouts, rule_of};
use crate::server::{Client, held, long, one, policies};
use std::time::Duration;
use testkit::model::{self, Policy};
use testkit::traffic::{self, Rng};
use tidegate::script::ScriptStep;
use tidegate::{AlgorithmKind, Layout, Rule, Timestamp};

const SEED: u64 = 20_261_121;
/// Steps under one policy before the next begins, on a key of its own.
const STEPS_OF_A_POLICY: usize = 250;

/// Waits that a script cannot report, and the smallest wait that it reports then.
const END: Duration = Duration::from_micros((1 << 53) - 1);
const MUCH: Duration = Duration::from_micros(1 << 52);

fn steps() -> usize {
    if long() { 200_000 } else { 3_000 }
}

/// A limit of 0 without a window.
fn closed(policy: &Policy) -> Rule {
    let mut spec = *rule_of(policy).spec();
    (spec.limit, spec.window) = (tidegate::Limit::Units(0), None);
    Rule::new(spec).unwrap_or_else(|_| policies::closed())
}

/// The rule after a change: another limit, none, or all of another policy.
fn another(rng: &mut Rng, policy: &mut Policy) -> Rule {
    match rng.below(10) {
        0..5 => {
            let limit = rng.pick([0, 1, policy.limit / 2, policy.limit * 2, policy.limit + 1]);
            let mut changed = policy.clone();
            changed.limit = limit.min(1_000_000_000);
            if let Ok(rule) = checked(&changed) {
                *policy = changed;
                return rule;
            }
        }
        5 => return closed(policy),
        _ => {
            let algorithm = rng.pick(model::AlgorithmKind::ALL);
            *policy = traffic::policy(rng, algorithm);
        }
    }
    rule_of(policy)
}

/// The same rule, its log in a sorted set, or now and then not, where rules are changed.
fn laid_out(rng: &mut Rng, rule: Rule, amends: bool) -> Rule {
    let mut spec = *rule.spec();
    if spec.algorithm == AlgorithmKind::SlidingLog && spec.window.is_some() {
        let as_string = amends && rng.chance(20);
        spec.layout = Some(if as_string { Layout::String } else { Layout::SortedSet });
    }
    Rule::new(spec).unwrap()
}

fn step_of(rng: &mut Rng) -> ScriptStep {
    match rng.below(100) {
        0..50 => ScriptStep::Ask,
        50..70 => ScriptStep::Decide,
        70..80 => ScriptStep::Peek,
        80..90 => ScriptStep::Report,
        _ => ScriptStep::Settle,
    }
}

/// The actual cost of a request: less, nothing, or more, but without an enormous debt.
fn actual_of(rng: &mut Rng, policy: &Policy, cost: u64) -> u64 {
    let more = policy.limit.min(cost / 2 + 3);
    let above = cost + rng.below(more + 1);
    rng.pick([0, 0, cost / 2, cost, cost + 1, above])
}

fn walk(client: &Client, algorithm: model::AlgorithmKind, amends: bool, layout: Layout) {
    let rng = &mut Rng::new(SEED);
    let sorted_set = layout == Layout::SortedSet;
    let (mut number, mut compared) = (0, 0);
    while compared < steps() {
        number += 1;
        let mut policy = traffic::policy(rng, algorithm);
        let key = format!("walk:{}:{layout:?}:{amends}:{number}", algorithm.name());
        let mut rule = rule_of(&policy);
        if sorted_set {
            rule = laid_out(rng, rule, amends);
        }
        let mut core = held::limiter(&rule);
        let trace = traffic::jumpy_trace(rng, &policy, STEPS_OF_A_POLICY);
        for (turn, (at_us, cost)) in trace.into_iter().enumerate() {
            let at = Timestamp::from_micros(at_us);
            if amends && rng.chance(4) {
                let mut next = another(rng, &mut policy);
                if sorted_set {
                    next = laid_out(rng, next, amends);
                }
                // A rule that says the same is no change.
                let meaning =
                    |rule: &Rule| rule.script_input(0).map(|it| (it.script.kind, it.parameters));
                if meaning(&next) != meaning(&rule) {
                    core = core.amend(at, &next);
                }
                rule = next;
            }
            if rng.chance(1) {
                client.run(&[b"DEL", key.as_bytes()]).unwrap();
                core.reset();
            }
            // Units that are used next to the level are unknown, and may count again.
            if core.eased_for(at) >= END {
                break;
            }
            // Limits and costs reach thousands of millions; a settlement is modest.
            let cost = cost.min(1 << 40);
            let (step, actual) = (step_of(rng), actual_of(rng, &policy, cost));
            if matches!(step, ScriptStep::Settle | ScriptStep::Report)
                && core.reset_after(at) >= END
            {
                // Usage has become an enormous debt: the script's debt stops at 2^53 us, and units given back are
                // subtracted from that.
                let limiter = one(&key, &rule, 0);
                let answer = client.step(&[limiter], ScriptStep::Peek, Some(at));
                assert!(
                    answer.decisions.iter().all(|decided| decided.reset_after() >= MUCH),
                    "{answer:?}"
                );
                break;
            }
            let cost = if step == ScriptStep::Report { actual.max(1) } else { cost };
            let looks = step == ScriptStep::Ask && rng.chance(20);
            let limiter = one(&key, &rule, cost).turned_out(actual);
            let limiter = if looks { limiter.looking() } else { limiter };
            let answer = client.step(&[limiter], step, Some(at));
            let (allowed, decision) =
                if looks { core.look(at) } else { core.step(step, at, cost, actual) };
            if decision.reset_after() >= END {
                // A debt beyond all telling: the script's stops at 2^53 us.
                assert!(
                    answer.decisions.iter().all(|decided| decided.reset_after() >= MUCH),
                    "{answer:?}"
                );
                break;
            }
            compared += 1;
            let context = || {
                format!(
                    "{key} turn {turn}: {step:?} {looks} {cost} ({actual}) at {at_us}; {:?}",
                    rule.spec()
                )
            };
            assert_eq!(answer.allowed, allowed, "{}", context());
            match step {
                ScriptStep::Decide => assert!(answer.decisions.is_empty()),
                _ => assert_eq!(answer.decisions, [decision], "{}", context()),
            }
        }
    }
}

#[test]
fn every_script_decides_as_the_core() {
    let client = Client::start();
    layouts().for_each(|(algorithm, layout)| walk(&client, algorithm, false, layout));
}

#[test]
fn every_script_decides_as_the_core_under_rules_that_change() {
    for (algorithm, layout) in layouts() {
        let client = Client::start();
        walk(&client, algorithm, true, layout);
        assert!(client.changed.get() > 0, "{algorithm:?}: no rule was found changed");
    }
}
