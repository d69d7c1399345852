//! A limiter whose units were taken and undone never admits more than a limiter that nothing was taken from, after any
//! time and any other requests in between.

use crate::server::policies::{laid_out, layouts};
use crate::server::{Client, held, long};
use std::time::Duration;
use testkit::model;
use testkit::traffic::{self, Rng};
use tidegate::script::{Call, CallResult, DecidedStep, ScriptLimiter, ScriptStep};
use tidegate::{AlgorithmKind, Layout, Rule, Spec, Timestamp, Token};

/// A time of our days.
const TODAY_US: u64 = 1_763_700_000_000_000;

fn undo(client: &Client, key: &str, rule: &Rule, cost: u64, times: [u64; 2]) -> DecidedStep {
    let token = Token::from_micros(times[0]);
    let limiters = [ScriptLimiter::new(key.as_bytes(), rule, cost).unwrap().of_permit(token)];
    let [since, at] = times.map(Timestamp::from_micros);
    let call = Call::undo(&limiters, &[since], Some(at));
    client.decide(&call, &limiters)
}

fn ask(client: &Client, key: &str, rule: &Rule, cost: u64, at_us: u64) -> DecidedStep {
    let limiter = ScriptLimiter::new(key.as_bytes(), rule, cost).unwrap();
    client.step(&[limiter], ScriptStep::Ask, Some(Timestamp::from_micros(at_us)))
}

/// A rule of few units, so that it is full now and then.
fn few(rng: &mut Rng, algorithm: model::AlgorithmKind, layout: Layout) -> Rule {
    let mut policy = traffic::policy(rng, algorithm);
    policy.limit = 1 + rng.below(12);
    policy.capacity = policy.capacity.map(|_| 1 + rng.below(12));
    (policy.window_us, policy.buckets, policy.resolution_us) = (120_000, 6, rng.pick([1, 5_000]));
    (policy.initial, policy.anchor_first_request) = (None, false);
    laid_out(&policy, layout)
}

/// Requests that are kept, and others that are undone a while later; requests that the store admits must be admitted by
/// the core as well, which knows only the kept requests.
fn walk(client: &Client, algorithm: model::AlgorithmKind, layout: Layout) {
    let rng = &mut Rng::new(5);
    let (walks, turns) = if long() { (200, 1_000) } else { (10, 300) };
    let (mut admitted, mut early, mut refused) = (0, 0, 0);
    for number in 0..walks {
        let rule = few(rng, algorithm, layout);
        let key = format!("undo:{algorithm:?}:{layout:?}:{number}");
        let mut without = held::limiter(&rule);
        let (mut at_us, mut outstanding) = (TODAY_US, Vec::new());
        for turn in 0..turns {
            at_us += rng.pick([0, 0, 1, 500, 3_000, 10_000, 30_000]);
            let cost = rng.pick([1, 1, 1, 2, 3]);
            if rng.chance(40) {
                if ask(client, &key, &rule, cost, at_us).allowed {
                    outstanding.push((cost, at_us));
                }
            } else if rng.chance(50) && !outstanding.is_empty() {
                let which = usize::try_from(rng.below(outstanding.len() as u64)).unwrap();
                let (cost, since_us) = outstanding.swap_remove(which);
                undo(client, &key, &rule, cost, [since_us, at_us]);
            } else {
                let at = Timestamp::from_micros(at_us);
                let would = without.step(ScriptStep::Peek, at, cost, 0).0;
                if ask(client, &key, &rule, cost, at_us).allowed {
                    assert!(would, "{key} turn {turn}: {cost} at {at_us}, {:?}", rule.spec());
                    let _ = without.step(ScriptStep::Ask, at, cost, 0);
                    admitted += 1;
                } else if would {
                    early += 1;
                } else {
                    refused += 1;
                }
            }
        }
    }
    assert!(admitted > 100 && early > 0 && refused > 0, "{admitted} {early} {refused}");
}

#[test]
fn what_is_undone_never_lets_more_through() {
    let client = Client::start();
    // The later slots of a queue are promised, and permits are returned by their tokens.
    let others = [model::AlgorithmKind::LeakyQueue, model::AlgorithmKind::Concurrency];
    for (algorithm, layout) in layouts().filter(|(one, _)| !others.contains(one)) {
        walk(&client, algorithm, layout);
    }
}

#[test]
fn a_rule_that_changed_meanwhile_gives_nothing_back() {
    let client = Client::start();
    let rule = |limit| {
        Rule::new(Spec::new(AlgorithmKind::TokenBucket, limit, Duration::from_secs(10))).unwrap()
    };
    assert!(ask(&client, "changed", &rule(10), 4, TODAY_US).allowed);
    let (changed, since) = (rule(20), Timestamp::from_micros(TODAY_US));
    let limiters = [ScriptLimiter::new(b"changed", &changed, 4).unwrap()];
    let call = Call::undo(&limiters, &[since], Some(since));
    assert_eq!(call.answer(&limiters, &client.ask(&call)), Ok(CallResult::Changed));
    assert_eq!(ask(&client, "changed", &rule(10), 0, TODAY_US).decisions[0].remaining, 6);
}
