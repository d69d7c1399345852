//! Plans, and values supplied by requests, over a real server: waiting, outages, and what no store can hold. Their
//! decisions are in `tests/conformance/changed_values`.

use std::time::Duration;

use crate::changed_values::{DAY, per_day};
use crate::plans::Plans;
use crate::server::{Server, gate_of, lose, rule, served, settings};
use tidegate::{
    AlgorithmKind, Answer, Descriptor, Limit, OnExcess, OnStoreError, Request, RequestLimit, Rule,
    RuleSpec, SharedGate, Spec, StoreError,
};
use tokio::task::yield_now;

fn checked(spec: Spec) -> Rule {
    Rule::new(spec).unwrap()
}

fn rules(algorithm: AlgorithmKind) -> Vec<RuleSpec> {
    let per_user = RuleSpec::new("per-user", per_day(algorithm, 5)).key(["user"]);
    vec![
        per_user.limit_from_request(),
        RuleSpec::new("all", per_day(AlgorithmKind::FixedWindow, 200)),
    ]
}

async fn check<'g>(gate: &'g SharedGate, own: Option<&RequestLimit>) -> Answer<'g> {
    let descriptor = Descriptor::new(&[("user", "ada")]);
    gate.check(own.map_or(descriptor, |own| descriptor.limit(own))).await
}

#[tokio::test]
async fn values_that_no_store_can_hold_are_refused_and_not_let_through() {
    let (_server, gate, events) = served(rules(AlgorithmKind::SlidingLog)).await;
    let mut huge = per_day(AlgorithmKind::SlidingLog, 60_000_000);
    huge.max_memory = Some(1 << 40);
    assert!(!gate.store().settings().can_hold(&checked(huge)));
    let own = RequestLimit::new(checked(huge));
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
    let wait = OnExcess::Wait { wait: DAY, max_waiters: 5 };
    let rules = vec![rule(AlgorithmKind::TokenBucket, 1).on_excess(wait).limit_from_request()];
    let (_server, gate, _) = served(rules).await;
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
    let wait = OnExcess::Wait { wait: Duration::from_secs(30), max_waiters: 5 };
    let six_a = |window| Spec::new(AlgorithmKind::FixedWindow, 6, window);
    let rule = RuleSpec::new("r", six_a(Duration::from_secs(1))).key(["user"]).on_excess(wait);
    let (_server, gate, _) = served(vec![rule.limit_from_request()]).await;
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

#[tokio::test]
async fn while_the_store_is_away_a_node_goes_by_its_part_of_the_plan() {
    let mut server = Server::start(&[]);
    let mut halved = settings(&server.url());
    halved.nodes = Some(2);
    let local = rule(AlgorithmKind::TokenBucket, 4).on_store_error(OnStoreError::Local);
    let mut local = local.limit_from_request();
    Plans::RULE.clone_into(&mut local.name);
    let plans = Plans::default();
    let (gate, events) = gate_of(halved, plans.setup(vec![local])).await;
    lose(&mut server, &gate, &events).await;
    plans.set("ada", per_day(AlgorithmKind::TokenBucket, 10));
    let mut admitted = 0;
    for _ in 0..20 {
        let answer = check(&gate, None).await;
        assert!(answer.is_degraded());
        admitted += u64::from(answer.is_allowed());
    }
    assert_eq!(admitted, 5);
    let single = RequestLimit::new(checked(per_day(AlgorithmKind::TokenBucket, 1)));
    let answer = check(&gate, Some(&single)).await;
    assert!(
        !answer.is_allowed() && !answer.is_never(),
        "a share of nothing passes with the outage"
    );
}
