//! Rules of a gate over a store that are changed while it decides.

use super::per_day;
use crate::server::{Server, check, gate_over, gate_with, lose, rule, settings};
use std::time::Duration;
use tidegate::{
    AlgorithmKind, AmendError, Descriptor, Gate, Limit, OnStoreError, Policy, Problem, Request,
    RequestLimit, Rule, RuleSpec, SharedGate, Spec, Taken,
};

/// Returns the units left of each rule that limits the user, with its limit.
async fn left(gate: &SharedGate, user: &str) -> Vec<(Limit, u64)> {
    let answer = gate.peek(Descriptor::new(&[("user", user)])).await;
    assert!(!answer.is_degraded());
    let matched = answer.matched().into_iter();
    matched.map(|one| (one.values().spec().limit, one.decision().remaining)).collect()
}

async fn admits(gate: &SharedGate, user: &str, cost: u64) -> bool {
    let answer = check(gate, user, cost).await;
    assert!(!answer.is_degraded());
    answer.is_allowed()
}

/// Over a store and in memory alike.
#[tokio::test]
async fn a_reservation_comes_back_though_its_request_is_unlimited_by_then() {
    let server = Server::start(&[]);
    let limited = rule(AlgorithmKind::SlidingLog, 10).limit_from_request();
    let (gate, _) = gate_over(&server.url(), vec![limited.clone()]).await;
    let here = Gate::new(Policy::new(vec![limited]).unwrap());
    let unlimited = Rule::new(Spec::unlimited(AlgorithmKind::SlidingLog)).unwrap();
    let unlimited = RequestLimit::new(unlimited);
    let asked = Descriptor::new(&[("user", "ada")]).cost(6);
    let request = Request::from(asked).reserving();
    let free = Request::from(asked.limit(&unlimited)).reserving();
    let taken = Taken::from(&gate.check(request).await);
    let taken_here = Taken::from(&here.check(request));
    assert!(gate.check(free).await.is_unlimited() && here.check(free).is_unlimited());
    let _ = gate.settle(free, &taken, &[1]).await.unwrap();
    let _ = here.settle(free, &taken_here, &[1]);
    assert_eq!(left(&gate, "ada").await, [(Limit::Units(10), 9)]);
    assert_eq!(here.peek(request).matched()[0].decision().remaining, 9);
}

#[tokio::test]
async fn a_reservation_comes_back_though_its_rule_is_unlimited_by_then() {
    let server = Server::start(&[]);
    let limited = rule(AlgorithmKind::SlidingLog, 10);
    let name = limited.name.clone();
    let (gate, _) = gate_over(&server.url(), vec![limited.clone()]).await;
    let request = Request::from(Descriptor::new(&[("user", "ada")]).cost(6)).reserving();
    let taken = Taken::from(&gate.check(request).await);
    gate.amend("default", &name, Spec::unlimited(AlgorithmKind::SlidingLog)).unwrap();
    assert!(gate.check(request).await.is_unlimited());
    let settled = gate.settle(request, &taken, &[1]).await.unwrap();
    assert!(settled.unreached().is_empty());
    gate.amend("default", &name, limited.spec).unwrap();
    assert_eq!(left(&gate, "ada").await, [(Limit::Units(10), 9)]);
}

#[tokio::test]
async fn what_can_not_be_kept_or_shared_is_refused_and_changes_nothing() {
    let server = Server::start(&[]);
    let local = rule(AlgorithmKind::TokenBucket, 100).on_store_error(OnStoreError::Local);
    let name = local.name.clone();
    let mut settings = settings(&server.url());
    settings.nodes = Some(10);
    let (gate, _) = gate_with(settings, vec![local]).await;
    let mut log = Spec::new(AlgorithmKind::SlidingLog, 60_000_000, Duration::from_secs(60));
    log.max_memory = Some(1 << 40);
    let Err(AmendError::Rule(answer)) = gate.amend("default", &name, log) else {
        panic!("it fits")
    };
    let problem = answer.iter().next().unwrap().problem.clone();
    assert!(matches!(problem, Problem::TooLargeForStore { .. }), "{problem}");
    let answer = gate.amend("default", "none", per_day(AlgorithmKind::TokenBucket, 9));
    assert!(matches!(answer, Err(AmendError::NoSuchRule(_))), "{answer:?}");
    assert_eq!(left(&gate, "ada").await, [(Limit::Units(100), 100)]);
}

#[tokio::test]
async fn what_decides_while_the_store_is_away_is_changed_as_well() {
    let mut server = Server::start(&[]);
    let local = rule(AlgorithmKind::TokenBucket, 100).on_store_error(OnStoreError::Local);
    let closed =
        RuleSpec::new("closed", per_day(AlgorithmKind::TokenBucket, 100)).in_domain("closed");
    let name = local.name.clone();
    let rules = vec![local, closed.on_store_error(OnStoreError::Closed)];
    let mut settings = settings(&server.url());
    settings.nodes = Some(10);
    let (gate, events) = gate_with(settings, rules).await;
    assert!(admits(&gate, "ada", 4).await);
    gate.amend("default", &name, per_day(AlgorithmKind::TokenBucket, 200)).unwrap();
    gate.amend("closed", "closed", Spec::unlimited(AlgorithmKind::TokenBucket)).unwrap();
    lose(&mut server, &gate, &events).await;
    let answer = check(&gate, "ada", 1).await;
    assert!(answer.is_degraded());
    let one = &answer.matched()[0];
    // A share of 20; four units are known to be used.
    assert_eq!((one.decision().limit, one.decision().remaining), (20, 15));
    let descriptors = [Descriptor::new(&[])];
    let answer = gate.check(&Request::new("closed", &descriptors)).await;
    assert!(answer.is_allowed(), "an unlimited rule refuses no request, with any store");
}
