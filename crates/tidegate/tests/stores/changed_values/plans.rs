//! Plans, and values supplied by requests, over a real server: the same decisions as in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::{DAY, per_day};
use crate::server::{Server, gate_of, gate_over, long, lose, rule, settings, setup};
use std::time::Duration;
use testkit::traffic::Rng;
use tidegate::{
    AlgorithmKind, Answer, Descriptor, Gate, Limit, OnExcess, OnStoreError, Request, RequestLimit,
    Rule, RuleSpec, SharedGate, Spec, StoreError,
};
use tokio::task::yield_now;

const USERS: [&str; 2] = ["ada", "bob"];

fn checked(spec: Spec) -> Arc<Rule> {
    Arc::new(Rule::new(spec).unwrap())
}

/// Plans that a test changes; all gates look them up.
#[derive(Clone, Default)]
struct Plans(Arc<Mutex<HashMap<&'static str, Arc<Rule>>>>);

impl Plans {
    fn set(&self, user: &'static str, spec: Spec) {
        self.0.lock().unwrap().insert(user, checked(spec));
    }

    fn looked_up(&self) -> impl Fn(&Descriptor<'_>) -> Option<Arc<Rule>> + Send + Sync + 'static {
        let plans = self.clone();
        move |descriptor| plans.0.lock().unwrap().get(descriptor.value("user")?).cloned()
    }
}

fn rules(algorithm: AlgorithmKind) -> Vec<RuleSpec> {
    let per_user = RuleSpec::new("per-user", per_day(algorithm, 5)).key(["user"]);
    vec![
        per_user.limit_from_request(),
        RuleSpec::new("all", per_day(AlgorithmKind::FixedWindow, 200)),
    ]
}

/// Returns the verdict, and for each rule the limit, the units left, and the algorithm that decided.
fn answered(answer: &Answer<'_>) -> (bool, Vec<(u64, u64, AlgorithmKind)>) {
    let each = answer.matched().into_iter().map(|matched| {
        let decision = matched.decision();
        (decision.limit, decision.remaining, matched.values().spec().algorithm)
    });
    (answer.is_allowed(), each.collect())
}

#[tokio::test]
async fn under_plans_the_store_decides_as_memory_does() {
    walk(false).await;
}

#[tokio::test]
async fn under_limits_that_requests_bring_the_store_decides_as_memory_does() {
    walk(true).await;
}

/// Compares the store with a gate in memory, over windows of a day, so that the time of the test does not
/// count. Plans and supplied values are of any algorithm.
async fn walk(brings: bool) {
    let server = Server::start(&[]);
    for seed in 0..if long() { 200 } else { 20 } {
        let rng = &mut Rng::new(seed);
        let any = |rng: &mut Rng| {
            let algorithm = rng.pick([0, 1, 2, 3, 4, 5, 6]);
            let spec = per_day(AlgorithmKind::ALL[algorithm], rng.between(1, 30));
            if rng.chance(10) { Spec::unlimited(spec.algorithm) } else { spec }
        };
        let own = AlgorithmKind::ALL[rng.below(7) as usize];
        let plans = Plans::default();
        let planned = || setup(rules(own)).plans("default", "per-user", plans.looked_up()).unwrap();
        let (shared, _) = gate_of(settings(&server.url()), planned()).await;
        let here = Gate::new(planned());
        for step in 0..40 {
            if rng.chance(if brings { 5 } else { 30 }) {
                plans.set(rng.pick(USERS), any(rng));
            }
            let from_request = (brings && rng.chance(50)).then(|| {
                let spec = if rng.chance(50) { any(rng) } else { per_day(own, rng.between(1, 30)) };
                RequestLimit::new((*checked(spec)).clone())
            });
            let entries = [[("user", rng.pick(USERS))], [("user", rng.pick(USERS))]];
            let costs = [rng.between(1, 3), rng.between(1, 3)];
            let plain = [0, 1].map(|n| Descriptor::new(&entries[n]).cost(costs[n]));
            let bringing = [0, 1].map(|n| match &from_request {
                Some(own) => Descriptor::new(&entries[n]).cost(costs[n]).limit(own),
                None => plain[n],
            });
            let several = 1 + rng.below(2) as usize;
            let request = Request::new("default", &bringing[..several]);
            let verb = rng.below(10);
            let (one, other) = match verb {
                0..6 => (shared.check(&request).await, here.check(&request)),
                6..8 => (shared.peek(&request).await, here.peek(&request)),
                8 => (
                    shared.settle(&request, None, &[1]).await.unwrap(),
                    here.settle(&request, None, &[1]),
                ),
                _ => (shared.refund(&request).await.unwrap(), here.refund(&request)),
            };
            let (mut one_reported, other_reported) = (answered(&one), answered(&other));
            // A refund in a store does not decide.
            if verb >= 8 {
                one_reported.0 = other_reported.0;
            }
            assert_eq!(one_reported, other_reported, "seed {seed}, step {step}: {request:?}");
            assert!(!one.is_degraded());
        }
        for user in USERS {
            shared.reset(Descriptor::new(&[("user", user)])).await.unwrap();
        }
    }
}

async fn check<'g>(gate: &'g SharedGate, own: Option<&RequestLimit>) -> Answer<'g> {
    let descriptor = Descriptor::new(&[("user", "ada")]);
    gate.check(own.map_or(descriptor, |own| descriptor.limit(own))).await
}

#[tokio::test]
async fn while_the_store_is_away_a_node_goes_by_its_part_of_the_plan() {
    let mut server = Server::start(&[]);
    let mut halved = settings(&server.url());
    halved.nodes = Some(2);
    let local = rule(AlgorithmKind::TokenBucket, 4).on_store_error(OnStoreError::Local);
    let plans = Plans::default();
    let setup = setup(vec![local.limit_from_request()]);
    let setup = setup.plans("default", "token_bucket", plans.looked_up()).unwrap();
    let (gate, events) = gate_of(halved, setup).await;
    lose(&mut server, &gate, &events).await;
    plans.set("ada", per_day(AlgorithmKind::TokenBucket, 10));
    let mut admitted = 0;
    for _ in 0..20 {
        let answer = check(&gate, None).await;
        assert!(answer.is_degraded());
        admitted += u64::from(answer.is_allowed());
    }
    assert_eq!(admitted, 5);
    let single = RequestLimit::new((*checked(per_day(AlgorithmKind::TokenBucket, 1))).clone());
    let answer = check(&gate, Some(&single)).await;
    assert!(
        !answer.is_allowed() && !answer.is_never(),
        "a share of nothing passes with the outage"
    );
}

#[tokio::test]
async fn values_that_no_store_can_hold_are_refused_and_not_let_through() {
    let server = Server::start(&[]);
    let (gate, events) = gate_over(&server.url(), rules(AlgorithmKind::SlidingLog)).await;
    let mut huge = per_day(AlgorithmKind::SlidingLog, 60_000_000);
    huge.max_memory = Some(1 << 40);
    assert!(!gate.store().settings().can_hold(&checked(huge)));
    let own = RequestLimit::new((*checked(huge)).clone());
    let answer = check(&gate, Some(&own)).await;
    assert!(!answer.is_allowed() && answer.is_unavailable(), "{answer:?}");
    let refunded = gate.refund(Descriptor::new(&[("user", "ada")]).limit(&own)).await;
    assert!(matches!(refunded, Err(StoreError::Refused(_))), "{refunded:?}");
    assert!(check(&gate, None).await.is_allowed(), "all others are decided as before");
    let reported = events.seen();
    assert!(
        reported.len() == 1 && reported[0].contains("no store can hold these values"),
        "{reported:?}"
    );
}

#[tokio::test]
async fn who_waits_does_so_under_the_values_it_came_with() {
    let server = Server::start(&[]);
    let wait = OnExcess::Wait { wait: DAY, max_waiters: 5 };
    let rules = vec![rule(AlgorithmKind::TokenBucket, 1).on_excess(wait).limit_from_request()];
    let (gate, _) = gate_over(&server.url(), rules).await;
    // The rule has one token a day; the request supplies one token a millisecond.
    let fast =
        Rule::new(Spec::new(AlgorithmKind::TokenBucket, 1, Duration::from_millis(1))).unwrap();
    let own = RequestLimit::new(fast);
    assert!(check(&gate, Some(&own)).await.is_allowed());
    let answer = gate.acquire(Descriptor::new(&[("user", "ada")]).limit(&own)).await;
    assert!(answer.is_allowed());
    assert_eq!(answer.matched()[0].values().spec().limit, Limit::Units(1));
    assert_eq!(answer.matched()[0].values().spec().window, Some(Duration::from_millis(1)));
}

/// Under the values in force, with a window of a second, all waiters are admitted soon; under their own, of a
/// day, none after the first would be.
#[tokio::test]
async fn nobody_is_refused_for_those_before_it_by_values_that_are_not_in_force() {
    let server = Server::start(&[]);
    let wait = OnExcess::Wait { wait: Duration::from_secs(30), max_waiters: 5 };
    let six_a = |window| Spec::new(AlgorithmKind::FixedWindow, 6, window);
    let rule = RuleSpec::new("r", six_a(Duration::from_secs(1))).key(["user"]).on_excess(wait);
    let (gate, _) = gate_over(&server.url(), vec![rule.limit_from_request()]).await;
    let own = RequestLimit::new(Rule::new(six_a(DAY)).unwrap());
    // If a second ends in between, the first goes on immediately, and another user starts fresh.
    for user in ["ada", "bob", "eve"] {
        let entries = [("user", user)];
        let used = [Descriptor::new(&entries).cost(5)];
        assert!(gate.check(&Request::new("default", &used)).await.is_allowed());
        let (five, one) = (used[0].limit(&own), Descriptor::new(&entries).limit(&own));
        let (five, one) = ([five], [one]);
        let (five, one) = (Request::new("default", &five), Request::new("default", &one));
        let mut first = Box::pin(gate.acquire(&five));
        let went_on = loop {
            tokio::select! {
                biased;
                answer = first.as_mut() => break Some(answer),
                () = yield_now(), if gate.waiting(&one) > 0 => break None,
                () = yield_now() => {}
            }
        };
        if went_on.is_none() {
            let (first, second) = tokio::join!(first, gate.acquire(&one));
            assert!(first.is_allowed() && second.is_allowed(), "{first:?} and {second:?}");
            return;
        }
    }
    panic!("the second ended three times between two requests");
}
