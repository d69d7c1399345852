//! A random walk holds the scripts that take leases and give them back equal to the core, among requests and under
//! clocks that step back.

use std::slice::from_ref;

use crate::server::policies::{laid_out, layouts};
use crate::server::{Client, held, long, one};
use std::time::Duration;
use testkit::model;
use testkit::traffic::{self, Rng};
use tidegate::script::{Call, GivenBack, LeaseRecord, ScriptStep};
use tidegate::{AlgorithmKind, Layout, Micros, Rule, Timestamp};
use tidegate_core::Leasable;

const STEPS_OF_A_POLICY: usize = 150;
/// A wait that no script can return.
const MUCH: Duration = Duration::from_micros(1 << 52);

/// A rule of the algorithm, with a log in a sorted set if that is asked for.
fn rule(rng: &mut Rng, policy: &mut model::Policy, layout: Layout) -> Rule {
    if rng.chance(50) {
        // Few units, so that it is full now and then, and slow enough for a lease to end before.
        policy.limit = 1 + rng.below(40);
        policy.capacity = policy.capacity.map(|_| 1 + rng.below(40));
        policy.initial = None;
    }
    laid_out(policy, layout)
}

fn walk(client: &Client, algorithm: model::AlgorithmKind, layout: Layout) {
    let rng = &mut Rng::new(20_261_125);
    let (mut number, mut compared, mut granted, mut returned) = (0, 0, 0, 0);
    // Of a level most has drained before it is given back.
    let is_level =
        matches!(algorithm, model::AlgorithmKind::TokenBucket | model::AlgorithmKind::LeakyBucket);
    let steps = match (long(), is_level) {
        (true, _) => 100_000,
        (false, true) => 9_000,
        (false, false) => 3_000,
    };
    while compared < steps {
        number += 1;
        let mut policy = traffic::policy(rng, algorithm);
        let rule = rule(rng, &mut policy, layout);
        let key = format!("leases:{}:{layout:?}:{number}", algorithm.name());
        let (mut core, mut ticket) = (held::limiter(&rule), 0);
        let mut leases: Vec<(u64, Timestamp, u64)> = Vec::new();
        let record = |ticket| LeaseRecord::new(format!("{{{key}}}?leases").into_bytes(), 7, ticket);
        let life = Micros::from_micros(policy.window_us / rng.pick([1, 4, 20, 100]) + 1);
        let Some(Leasable { life, .. }) = rule.leasable(life) else { continue };
        // Little comes back under a clock that steps.
        let trace = if rng.chance(50) { traffic::jumpy_trace } else { traffic::trace };
        let trace = trace(rng, &policy, STEPS_OF_A_POLICY);
        let (mut latest, mut stepped_back) = (0, 0);
        for (turn, (at_us, cost)) in trace.into_iter().enumerate() {
            if at_us < latest {
                stepped_back = latest;
            }
            latest = at_us.max(latest);
            let at = Timestamp::from_micros(at_us);
            let cost = cost.clamp(1, 1 << 40);
            let limiter = one(&key, &rule, cost);
            let verb = rng.below(4);
            let held = format!("{leases:?}");
            let context = || {
                let spec = rule.spec();
                format!("{key} turn {turn}: {verb} {cost} at {at_us}, {life:?}; {held}; {spec:?}")
            };
            match verb {
                0 => {
                    let done = client.step(from_ref(&limiter), ScriptStep::Ask, Some(at));
                    let (allowed, _) = core.step(ScriptStep::Ask, at, cost, 0);
                    assert_eq!(done.allowed, allowed, "{}", context());
                }
                1 if !leases.is_empty() => {
                    let which = rng.below(leases.len() as u64) as usize;
                    let (units, since, of) = leases.swap_remove(which);
                    let kept = rng.below(units);
                    let limiter = one(&key, &rule, units - kept);
                    let earlier = Micros::from_micros(rng.pick([0, 0, life.as_micros()]));
                    let back =
                        Call::give_back_lease(&limiter, &record(of), (kept, earlier), Some(at));
                    let done = client.decide(&back, from_ref(&limiter)).lease_given_back();
                    // The record has forgotten what counted no more before the clock went back. It forgets a window that has
                    // ended as well, to which the core gives nothing back although it says so.
                    let is_over = matches!(algorithm, model::AlgorithmKind::FixedWindow)
                        && at.since(since) >= Micros::from_micros(policy.window_us);
                    let is_forgotten = done == GivenBack::NotTaken && (is_over || at_us < latest);
                    // A step back is remembered for longer than a state that has become empty.
                    let is_barred = done == GivenBack::TooLate && since.as_micros() <= stepped_back;
                    let is_back = !is_forgotten
                        && !is_barred
                        && core.give_back_lease(at, units - kept, since.minus(earlier));
                    assert_eq!(done == GivenBack::Back, is_back, "{done:?}: {}", context());
                    let again = client.decide(&back, from_ref(&limiter)).lease_given_back();
                    // The later steps show that it came back once.
                    let known = if done == GivenBack::NotTaken { done } else { GivenBack::Back };
                    assert_eq!(again, known, "{}", context());
                    returned += u64::from(is_back);
                }
                _ => {
                    ticket += 1;
                    let oldest = leases.iter().map(|(.., ticket)| *ticket).min().unwrap_or(ticket);
                    let lease = Call::lease(&limiter, life, (&record(ticket), oldest), Some(at));
                    let done = client.decide(&lease, from_ref(&limiter));
                    let end = core.lease(at, cost, life);
                    assert_eq!(done.lease_end(&limiter, life), end, "{}", context());
                    if end.is_some() {
                        leases.push((cost, done.at, ticket));
                        granted += 1;
                    }
                }
            }
            let limiter = one(&key, &rule, 1);
            let seen = client.step(&[limiter], ScriptStep::Peek, Some(at));
            let (_, decision) = core.step(ScriptStep::Peek, at, 1, 0);
            if decision.reset_after() >= MUCH {
                break;
            }
            assert_eq!(seen.decisions, [decision], "{}", context());
            compared += 1;
        }
    }
    assert!(granted > 100 && returned > 50, "{granted} were granted, {returned} returned");
}

/// A server that holds the limiter and not the record has lost or never had the lease: a successor of the server that
/// granted it.
#[test]
fn a_server_that_does_not_know_of_a_lease_gets_nothing_back() {
    let client = Client::start();
    for algorithm in [AlgorithmKind::FixedWindow, AlgorithmKind::TokenBucket] {
        let rule =
            Rule::new(tidegate::Spec::new(algorithm, 100, Duration::from_secs(3_600))).unwrap();
        let key = format!("known:{}", algorithm.name());
        let record = LeaseRecord::new(format!("{{{key}}}?leases").into_bytes(), 7, 1);
        let limiter = |units| one(&key, &rule, units);
        let life = Micros::from_millis(500);
        let used = || {
            let seen = client.step(&[limiter(1)], ScriptStep::Peek, None);
            100 - seen.decisions[0].remaining
        };
        let taken = client.step(&[limiter(30)], ScriptStep::Ask, None);
        assert!(taken.allowed);
        let back = Call::give_back_lease(&limiter(20), &record, (0, Micros::ZERO), None);
        let done = client.decide(&back, &[limiter(20)]);
        assert_eq!((done.lease_given_back(), used()), (GivenBack::NotTaken, 30), "{algorithm}");
        let lease = Call::lease(&limiter(20), life, (&record, 1), None);
        assert!(client.decide(&lease, &[limiter(20)]).allowed);
        assert!(used() >= 50, "{algorithm}");
        let back = Call::give_back_lease(&limiter(15), &record, (5, Micros::ZERO), None);
        assert_eq!(client.decide(&back, &[limiter(15)]).lease_given_back(), GivenBack::Back);
        let after = used();
        assert_eq!(client.decide(&back, &[limiter(15)]).lease_given_back(), GivenBack::Back);
        assert_eq!(used(), after, "{algorithm}: sent again, it comes back once");
    }
}

/// The record may be there although the state of the limiter is lost.
#[test]
fn a_lease_of_a_lost_state_does_not_come_back_under_a_clock_that_stepped_back() {
    let client = Client::start();
    let [before, now] = [1_763_703_600_000_000, 1_763_700_000_000_000].map(Timestamp::from_micros);
    for algorithm in [AlgorithmKind::SlidingLog, AlgorithmKind::TokenBucket] {
        let mut spec = tidegate::Spec::per_second(100);
        spec.algorithm = algorithm;
        spec.resolution =
            (algorithm == AlgorithmKind::SlidingLog).then_some(Duration::from_millis(500));
        let rule = Rule::new(spec).unwrap();
        let (key, life) = (format!("stepped:{}", algorithm.name()), Micros::from_millis(100));
        let record = LeaseRecord::new(format!("{{{key}}}?leases").into_bytes(), 7, 1);
        let limiter = |units| one(&key, &rule, units);
        let mut core = held::limiter(&rule);
        let lease = Call::lease(&limiter(20), life, (&record, 1), Some(before));
        assert!(client.decide(&lease, &[limiter(20)]).allowed, "{algorithm}");
        assert_eq!(client.int(&["DEL", &key]), 1);
        assert!(client.step(&[limiter(90)], ScriptStep::Ask, Some(now)).allowed, "{algorithm}");
        assert!(core.step(ScriptStep::Ask, now, 90, 0).0);
        let back = Call::give_back_lease(&limiter(20), &record, (0, Micros::ZERO), Some(now));
        let done = client.decide(&back, &[limiter(20)]).lease_given_back();
        assert_eq!(done, GivenBack::TooLate, "{algorithm}");
        assert!(!core.give_back_lease(now, 20, before), "{algorithm}");
        let more = client.step(&[limiter(11)], ScriptStep::Ask, Some(now));
        assert!(!more.allowed, "{algorithm}");
    }
}

#[test]
fn every_script_leases_as_the_core() {
    // They grant no lease.
    let others = [model::AlgorithmKind::LeakyQueue, model::AlgorithmKind::Concurrency];
    for (algorithm, layout) in layouts().filter(|(one, _)| !others.contains(one)) {
        walk(&Client::start(), algorithm, layout);
    }
}
