//! Requests that are asked again under their id, of a gate over a store.

use std::time::Duration;
use tidegate::{
    AlgorithmKind, Answer, Descriptor, Limit, Micros, OnStoreError, OverrideSpec, Request,
    RuleSpec, Spec,
};

use crate::server::{gate_over, lose, rule, served};

const DEDUPE: Duration = Duration::from_secs(10);

fn remembering(algorithm: AlgorithmKind, limit: u64) -> RuleSpec {
    rule(algorithm, limit).dedupe(DEDUPE)
}

#[tokio::test]
async fn an_override_has_the_dedupe_of_its_rule_and_a_changed_rule_decides_anew() {
    let mut ada = OverrideSpec::new("user", "ada");
    ada.limit = Some(Limit::Units(20));
    let rules = vec![remembering(AlgorithmKind::TokenBucket, 10).with_override(ada)];
    let (server, gate, _) = served(rules).await;
    let (changed, _) =
        gate_over(&server.url(), vec![remembering(AlgorithmKind::TokenBucket, 30)]).await;
    let request = Request::from(Descriptor::new(&[("user", "ada")])).with_id("a").unwrap();
    let remaining = |answer: &Answer<'_>| answer.matched()[0].decision().remaining;
    assert_eq!(remaining(&gate.check(&request).await), 19);
    assert!(gate.check(&request).await.is_repeated());
    let anew = changed.check(&request).await;
    assert_eq!((anew.is_repeated(), remaining(&anew)), (false, 28));
}

#[tokio::test]
async fn while_the_store_is_away_a_local_rule_remembers_in_process() {
    let rules =
        vec![remembering(AlgorithmKind::TokenBucket, 5).on_store_error(OnStoreError::Local)];
    let (mut server, gate, events) = served(rules).await;
    lose(&mut server, &gate, &events).await;
    let plain = Request::from(Descriptor::new(&[("user", "ada")]));
    let request = plain.with_id("a").unwrap();
    for repeated in [false, true, true] {
        let answer = gate.check(&request).await;
        assert!(answer.is_degraded() && answer.is_repeated() == repeated);
    }
    assert_eq!(gate.peek(&plain).await.matched()[0].decision().remaining, 4);
}

#[tokio::test]
async fn one_that_was_held_is_not_held_again_under_its_id() {
    let second = Duration::from_secs(1);
    let rule = RuleSpec::new("q", Spec::new(AlgorithmKind::LeakyQueue, 1, second)).dedupe(DEDUPE);
    let (_server, gate, _) = served(vec![rule]).await;
    let plain = Request::from(Descriptor::new(&[]));
    let request = plain.with_id("a").unwrap();
    assert!(gate.check(&plain).await.is_allowed());
    let first = gate.acquire(&request).await;
    assert!(first.is_allowed() && !first.is_repeated());
    let answer = gate.check(&request).await;
    assert!(answer.is_repeated() && !answer.delay().is_zero());
    // A second hold for the whole delay would end after this timer, which starts earlier.
    let whole = tokio::time::sleep(std::time::Duration::from_micros(
        Micros::from(answer.delay()).as_micros(),
    ));
    tokio::select! {
        biased;
        again = gate.acquire(&request) => assert!(again.is_repeated() && again.delay().is_zero()),
        () = whole => panic!("its slot has passed"),
    }
}

#[tokio::test]
async fn one_that_asks_again_is_held_until_its_slot() {
    let window = Duration::from_millis(100);
    let rule = RuleSpec::new("q", Spec::new(AlgorithmKind::LeakyQueue, 1, window)).dedupe(DEDUPE);
    let (_server, gate, _) = served(vec![rule]).await;
    let plain = Request::from(Descriptor::new(&[]));
    let request = plain.with_id("a").unwrap();
    assert!(gate.check(&plain).await.is_allowed());
    let answer = gate.check(&request).await;
    let again = gate.acquire(&request).await;
    assert!(again.is_repeated());
    let now = gate.peek(&plain).await.at();
    assert!(now >= answer.at().plus(answer.delay()), "{now:?}");
}
