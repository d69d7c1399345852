//! Rules of a gate over a store that are changed while it decides.

use std::sync::Arc;

use crate::server::{Server, check, gate_over, gate_with, rule, settings, until_lost};
use std::time::Duration;
use tidegate::{
    AlgorithmKind, AmendError, Descriptor, Gate, Limit, OnExcess, OnStoreError, OverrideSpec,
    Policy, Problem, Request, RequestLimit, Rule, RuleSpec, SharedGate, Spec, Taken,
};
use tokio::task::yield_now;

const DAY: Duration = Duration::from_secs(86_400);

fn per_day(algorithm: AlgorithmKind, limit: u64) -> Spec {
    rule(algorithm, limit).spec
}

fn named(name: &str, mut rule: RuleSpec) -> RuleSpec {
    name.clone_into(&mut rule.name);
    rule
}

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

#[tokio::test]
async fn what_was_used_stays_used_under_every_other_algorithm() {
    let server = Server::start(&[]);
    for from in AlgorithmKind::ALL.iter().copied().filter(|from| *from != AlgorithmKind::LeakyQueue)
    {
        for to in
            [AlgorithmKind::SlidingLog, AlgorithmKind::TokenBucket, AlgorithmKind::FixedWindow]
        {
            let name = format!("{}-{}", from.name(), to.name());
            let rules = vec![
                RuleSpec::new(format!("{name}-all"), per_day(from, 1_000)),
                named(&name, rule(from, 100)),
            ];
            let (gate, _) = gate_over(&server.url(), rules).await;
            assert!(admits(&gate, "ada", 60).await && admits(&gate, "bob", 30).await);
            gate.amend("default", &name, per_day(to, 120)).unwrap();
            let left = async |user| left(&gate, user).await[1];
            assert_eq!(left("ada").await, (Limit::Units(120), 60), "{from} to {to}");
            assert!(!admits(&gate, "ada", 61).await && admits(&gate, "ada", 50).await);
            gate.amend("default", &name, per_day(to, 20)).unwrap();
            assert_eq!(left("ada").await, (Limit::Units(20), 0), "{from} to {to}: debt");
            gate.amend("default", &name, per_day(to, 120)).unwrap();
            assert_eq!(left("ada").await, (Limit::Units(120), 10), "{from} to {to}: no credit");
            assert_eq!(left("bob").await, (Limit::Units(120), 90), "{from} to {to}");
        }
    }
}

#[tokio::test]
async fn an_unlimited_rule_asks_nobody_and_one_that_was_is_asked() {
    let server = Server::start(&[]);
    let rules = vec![
        RuleSpec::new("all", Spec::unlimited(AlgorithmKind::TokenBucket)),
        rule(AlgorithmKind::SlidingLog, 10),
    ];
    let name = rules[1].name.clone();
    let (gate, _) = gate_over(&server.url(), rules).await;
    let gate = Arc::new(gate);
    assert!(admits(&gate, "ada", 6).await);
    gate.amend("default", &name, Spec::unlimited(AlgorithmKind::SlidingLog)).unwrap();
    assert!(admits(&gate, "ada", 1_000).await);
    assert_eq!(left(&gate, "ada").await, []);
    gate.amend("default", "all", per_day(AlgorithmKind::FixedWindow, 5)).unwrap();
    assert!(admits(&gate, "ada", 2).await);
    assert_eq!(left(&gate, "ada").await, [(Limit::Units(5), 3)]);
    gate.amend("default", &name, per_day(AlgorithmKind::SlidingLog, 10)).unwrap();
    // The store keeps usage for as long as it counts: a change is never a reset.
    assert_eq!(left(&gate, "ada").await, [(Limit::Units(5), 3), (Limit::Units(10), 4)]);
    let request = Request::from(Descriptor::new(&[("user", "ada")]).cost(3));
    assert!(gate.check(&request).await.is_allowed());
    let _ = gate.settle(&request, None, &[1]).await.unwrap();
    assert_eq!(left(&gate, "ada").await, [(Limit::Units(5), 2), (Limit::Units(10), 3)]);
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
async fn an_override_is_changed_by_its_entries() {
    let server = Server::start(&[]);
    let mut vip = OverrideSpec::new("user", "vip");
    vip.limit = Some(Limit::Units(50));
    let own = rule(AlgorithmKind::TokenBucket, 10).with_override(vip.clone());
    let name = own.name.clone();
    let (gate, _) = gate_over(&server.url(), vec![own]).await;
    assert!(admits(&gate, "vip", 30).await);
    vip.limit = Some(Limit::Units(40));
    gate.amend("default", &name, vip.clone()).unwrap();
    assert_eq!(left(&gate, "vip").await, [(Limit::Units(40), 10)]);
    assert_eq!(left(&gate, "ada").await, [(Limit::Units(10), 10)]);
    assert_eq!(gate.policy().rules()[0].spec().overrides, [vip]);
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
    server.kill();
    until_lost(&gate, &events).await;
    let answer = check(&gate, "ada", 1).await;
    assert!(answer.is_degraded());
    let one = &answer.matched()[0];
    // A share of 20; four units are known to be used.
    assert_eq!((one.decision().limit, one.decision().remaining), (20, 15));
    let descriptors = [Descriptor::new(&[])];
    let answer = gate.check(&Request::new("closed", &descriptors)).await;
    assert!(answer.is_allowed(), "an unlimited rule refuses no request, with any store");
}

async fn waiter(gate: &Arc<SharedGate>, cost: u64) -> tokio::task::JoinHandle<(bool, u64)> {
    let waiting = |gate: &SharedGate| gate.waiting(Descriptor::new(&[("user", "ada")]));
    let (own, before) = (Arc::clone(gate), waiting(gate));
    let task = tokio::spawn(async move {
        let answer =
            own.acquire(&Request::from(Descriptor::new(&[("user", "ada")]).cost(cost))).await;
        (answer.is_allowed(), answer.matched().len() as u64)
    });
    while waiting(gate) == before {
        assert!(!task.is_finished(), "it does not wait");
        yield_now().await;
    }
    task
}

#[tokio::test]
async fn who_waits_goes_on_under_the_values_of_now() {
    let server = Server::start(&[]);
    let wait = OnExcess::Wait { wait: Duration::from_secs(9 * 86_400), max_waiters: 9 };
    for algorithm in
        [AlgorithmKind::SlidingLog, AlgorithmKind::TokenBucket, AlgorithmKind::FixedWindow]
    {
        let own = named(&format!("wait-{}", algorithm.name()), rule(algorithm, 10));
        let own = own.on_excess(wait);
        let name = own.name.clone();
        let (gate, _) = gate_over(&server.url(), vec![own]).await;
        let gate = Arc::new(gate);
        assert!(admits(&gate, "ada", 10).await);
        let (one, two) = (waiter(&gate, 4).await, waiter(&gate, 5).await);
        gate.amend("default", &name, per_day(algorithm, 20)).unwrap();
        assert_eq!((one.await.unwrap(), two.await.unwrap()), ((true, 1), (true, 1)));
        assert_eq!(left(&gate, "ada").await, [(Limit::Units(20), 1)], "{algorithm}");
        let (one, two) = (waiter(&gate, 4).await, waiter(&gate, 5).await);
        gate.amend("default", &name, Spec::unlimited(algorithm)).unwrap();
        assert_eq!((one.await.unwrap(), two.await.unwrap()), ((true, 0), (true, 0)));
        gate.amend("default", &name, per_day(algorithm, 20)).unwrap();
        assert_eq!(
            left(&gate, "ada").await,
            [(Limit::Units(20), 1)],
            "{algorithm}: none was taken"
        );
    }
}

/// Many tasks ask while the rule changes: no more is admitted than the largest limit, and no unit is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_moves_while_many_ask_admits_no_more_than_its_largest_limit() {
    let server = Server::start(&[]);
    let (gate, _) = gate_over(&server.url(), vec![rule(AlgorithmKind::SlidingLog, 50)]).await;
    let (gate, name) = (Arc::new(gate), rule(AlgorithmKind::SlidingLog, 50).name);
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..400 {
        let gate = Arc::clone(&gate);
        asked.spawn(async move { u64::from(admits(&gate, "ada", 1).await) });
    }
    for turn in 0..200 {
        let limit = [120, 30, 0, 70][turn % 4];
        gate.amend("default", &name, per_day(AlgorithmKind::SlidingLog, limit)).unwrap();
        yield_now().await;
    }
    let admitted: u64 = asked.join_all().await.into_iter().sum();
    gate.amend("default", &name, per_day(AlgorithmKind::SlidingLog, 120)).unwrap();
    assert!(admitted <= 120, "{admitted}");
    assert_eq!(left(&gate, "ada").await, [(Limit::Units(120), 120 - admitted)]);
}

#[tokio::test]
async fn an_id_is_answered_the_same_only_under_the_values_of_then() {
    let server = Server::start(&[]);
    let own = rule(AlgorithmKind::SlidingLog, 10).dedupe(DAY);
    let name = own.name.clone();
    let (gate, _) = gate_over(&server.url(), vec![own]).await;
    let request = Request::from(Descriptor::new(&[("user", "ada")])).with_id("an id").unwrap();
    let repeated = async || gate.check(&request).await.is_repeated();
    assert_eq!([repeated().await, repeated().await], [false, true]);
    gate.amend("default", &name, per_day(AlgorithmKind::SlidingLog, 20)).unwrap();
    assert_eq!([repeated().await, repeated().await], [false, true]);
    assert_eq!(left(&gate, "ada").await, [(Limit::Units(20), 18)]);
}
