//! Checks of the promises of a store.
//!
//! Each check makes gates with the function that it is given, and panics with the promise that is broken. Each gate must
//! have limiters of its own: an empty store, or keys that begin in another way. [`check_all`] runs every check.
#![allow(clippy::expect_used, clippy::panic, reason = "a check fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{AlgorithmKind, Spec};

use crate::clock::ManualClock;
use crate::gate::Gate;
use crate::request::{Descriptor, Origin, Request};
use crate::rules::{LeaseSpec, Policy, RuleSpec};
use crate::shared::SharedGate;
use crate::store::{RecordReply, RecordVerb, StepArgs, Store, StoreError, Verb};

/// No window ends while a check runs.
const DAY: Duration = Duration::from_secs(86_400);
const ADA: &[(&str, &str)] = &[("user", "ada")];

/// Runs every check.
///
/// # Panics
/// The store breaks a promise.
pub async fn check_all<S: Store>(gate: impl Fn(Policy) -> SharedGate<S>) {
    decides_as_a_gate_in_memory(&gate).await;
    takes_all_or_nothing(&gate).await;
    a_look_takes_nothing(&gate).await;
    settles_what_was_reserved(&gate).await;
    undoes_a_step(&gate).await;
    resets(&gate).await;
    keeps_what_was_used_when_values_change(&gate).await;
    renews_and_returns_permits(&gate).await;
    is_exact_under_concurrency(&gate).await;
    loses_no_leased_unit(&gate).await;
    keeps_records_of_reservations(&gate).await;
    remembers_the_name_of_a_reservation(&gate).await;
}

/// For every algorithm and any costs, a store admits what a [`Gate`] admits.
///
/// # Panics
/// The store breaks the promise.
pub async fn decides_as_a_gate_in_memory<S: Store>(gate: impl Fn(Policy) -> SharedGate<S>) {
    for algorithm in AlgorithmKind::ALL {
        let mut spec = Spec::new(*algorithm, 10, DAY);
        spec.capacity = algorithm.is_queue().then_some(9);
        let rules = vec![RuleSpec::new("user", spec).key(["user"])];
        let in_memory = Gate::with_clock(policy(rules.clone()), ManualClock::new());
        let gate = gate(policy(rules));
        // Costs that fit, that never fit, that fit only later, that use up the rest, and of nothing.
        for cost in [3, 4, 11, 4, 2, 0, 1, 1, 5] {
            let expected = in_memory.check(&of_ada(&[costing(cost)])).is_allowed();
            let found = admits(&gate, cost).await;
            assert_eq!(found, expected, "{algorithm}: a cost of {cost} is decided as in memory");
        }
    }
}

/// If one rule refuses, no rule takes anything.
///
/// # Panics
/// The store breaks the promise.
pub async fn takes_all_or_nothing<S: Store>(gate: impl Fn(Policy) -> SharedGate<S>) {
    let gate = gate(policy(vec![rule("user", 10), rule("less", 4)]));
    assert!(admits(&gate, 3).await, "both rules have 3 units");
    assert!(!admits(&gate, 2).await, "one rule has 1 unit left");
    assert!(admits(&gate, 1).await, "a refused request takes nothing from the rule that refuses");
    let answer = gate.peek(ADA).await;
    let user = answer.all().map(|one| one.decision().remaining).max();
    assert_eq!(user, Some(6), "a refused request takes nothing from a rule that admits");
}

/// A look reports the units left, and takes nothing.
///
/// # Panics
/// The store breaks the promise.
pub async fn a_look_takes_nothing<S: Store>(gate: impl Fn(Policy) -> SharedGate<S>) {
    let gate = gate(policy(vec![rule("user", 10)]));
    assert!(admits(&gate, 4).await);
    for _ in 0..3 {
        assert_eq!(gate.peek(ADA).await.remaining(), Some(6), "a look takes nothing");
    }
}

/// A settlement gives back the surplus of a request, or takes the shortfall.
///
/// # Panics
/// The store breaks the promise.
pub async fn settles_what_was_reserved<S: Store>(gate: impl Fn(Policy) -> SharedGate<S>) {
    let gate = gate(policy(vec![rule("user", 10)]));
    // A surplus, a shortfall, and a surplus of everything.
    for (actual, left) in [(1, 9), (7, 2), (0, 2)] {
        settle(&gate, 2, actual).await;
        assert_eq!(gate.peek(ADA).await.remaining(), Some(left), "2 reserved units cost {actual}");
    }
}

/// An undone step leaves the usage from before it.
///
/// # Panics
/// The store breaks the promise.
pub async fn undoes_a_step<S: Store>(gate: impl Fn(Policy) -> SharedGate<S>) {
    let gate = gate(policy(vec![rule("user", 10), rule("less", 6)]));
    assert!(admits(&gate, 1).await);
    let (store, asks) = gate.store_and_asks(&of_ada(&[costing(5)]));
    let args = StepArgs::new(Verb::Ask, Origin::default(), store.host().deadline());
    match store.step(&asks, args).await {
        Ok(reply) => {
            assert!(reply.is_allowed(), "5 units are left");
            assert_eq!(gate.peek(ADA).await.remaining(), Some(0), "a step takes its units");
            store.undo(&asks, args, &reply).await;
            assert_eq!(
                gate.peek(ADA).await.remaining(),
                Some(5),
                "an undone step gives its units back"
            );
        }
        Err(gave_up) => panic!("a store decides each step by its deadline: {gave_up:?}"),
    }
}

/// Nothing counts as used after a reset, and nothing comes back that was taken before.
///
/// # Panics
/// The store breaks the promise.
pub async fn resets<S: Store>(gate: impl Fn(Policy) -> SharedGate<S>) {
    let gate = gate(policy(vec![rule("user", 10)]));
    let descriptors = [costing(8)];
    let request = of_ada(&descriptors);
    let Ok(charge) = gate.hold(&request).await else { panic!("10 units are left") };
    assert_eq!(gate.reset(ADA).await, Ok(1), "a reset is answered");
    assert_eq!(gate.peek(ADA).await.remaining(), Some(10), "nothing counts as used after a reset");
    assert!(admits(&gate, 9).await);
    assert_eq!(charge.settle(0).await, Ok(()), "a settlement is answered");
    assert_eq!(
        gate.peek(ADA).await.remaining(),
        Some(1),
        "units taken before a reset do not come back"
    );
}

/// A change of a rule's values is neither a credit nor a reset.
///
/// # Panics
/// The store breaks the promise.
pub async fn keeps_what_was_used_when_values_change<S: Store>(
    gate: impl Fn(Policy) -> SharedGate<S>,
) {
    let gate = gate(policy(vec![rule("user", 10)]));
    assert!(admits(&gate, 6).await);
    for (limit, left) in [(20, 14), (5, 0), (10, 4)] {
        let changed = gate.replace(policy(vec![rule("user", limit)]));
        assert!(changed.is_ok(), "a store can hold a limit of {limit}");
        assert_eq!(gate.peek(ADA).await.remaining(), Some(left), "6 units are used of {limit}");
    }
}

/// Permits are out until they are returned, or their life ends.
///
/// # Panics
/// The store breaks the promise.
pub async fn renews_and_returns_permits<S: Store>(gate: impl Fn(Policy) -> SharedGate<S>) {
    let spec = Spec::new(AlgorithmKind::Concurrency, 2, DAY);
    let gate = gate(policy(vec![RuleSpec::new("user", spec).key(["user"])]));
    let descriptors = [costing(1)];
    let request = of_ada(&descriptors);
    let (Ok(first), Ok(second)) = (gate.hold(&request).await, gate.hold(&request).await) else {
        panic!("2 permits are free")
    };
    assert!(gate.hold(&request).await.is_err(), "2 permits are out");
    assert_eq!(first.renew().await, Ok(true), "a permit that is out is renewed");
    assert_eq!(first.release().await, Ok(()), "a permit is returned");
    assert_eq!(gate.peek(ADA).await.remaining(), Some(1), "a returned permit is free");
    assert_eq!(second.renew().await, Ok(true), "another permit is still out");
}

/// Of many requests at the same time as many are admitted as fit the limit.
///
/// # Panics
/// The store breaks the promise. Outside of a runtime of tokio.
pub async fn is_exact_under_concurrency<S: Store>(gate: impl Fn(Policy) -> SharedGate<S>) {
    let gate = Arc::new(gate(policy(vec![rule("user", 20)])));
    let asked: Vec<_> = (0..50)
        .map(|_| {
            let gate = Arc::clone(&gate);
            tokio::spawn(async move { admits(&gate, 1).await })
        })
        .collect();
    let mut admitted = 0;
    for one in asked {
        admitted += u64::from(matches!(one.await, Ok(true)));
    }
    assert_eq!(admitted, 20, "50 requests share a limit of 20");
}

/// With leases no more than the limit is admitted. A node that leaves gives back its unspent units.
///
/// # Panics
/// The store breaks the promise.
pub async fn loses_no_leased_unit<S: Store>(gate: impl Fn(Policy) -> SharedGate<S>) {
    let lease = LeaseSpec { max_percent: 10, life: Duration::from_secs(1) };
    let gate = gate(policy(vec![rule("user", 1_000).lease(lease)]));
    let mut admitted = 0;
    for _ in 0..300 {
        admitted += u64::from(admits(&gate, 1).await);
        // Leases are taken by tasks, which run only while the check waits.
        tokio::task::yield_now().await;
    }
    assert_eq!(admitted, 300, "1,000 units are left, or this node holds them");
    // Only then are leased units back that no request spent, so that the store alone says what is left.
    assert_eq!(gate.leave().await, Ok(()), "a node can leave");
    let (store, asks) = gate.store_and_asks(&of_ada(&[costing(701)]));
    let args = StepArgs::new(Verb::Ask, Origin::default(), store.host().deadline());
    for (cost, fits) in [(701, false), (700, true)] {
        let asks: Vec<_> = asks.iter().map(|ask| ask.costing(cost)).collect();
        let allowed = store.step(&asks, args).await.map(|reply| reply.is_allowed());
        assert_eq!(
            allowed.ok(),
            Some(fits),
            "300 of 1,000 units are used, and {cost} are asked for"
        );
    }
}

/// A record is written once and claimed once, and each of these verbs may be repeated. A store that keeps no records
/// refuses to write them.
///
/// # Panics
/// The store breaks the promise.
pub async fn keeps_records_of_reservations<S: Store>(gate: impl Fn(Policy) -> SharedGate<S>) {
    let gate = gate(policy(vec![rule("user", 10)]));
    let (store, _) = gate.store_and_asks(&of_ada(&[costing(1)]));
    let write = |content| RecordVerb::Write { content, life: DAY };
    let first = store.record(b"kit", write(b"first")).await;
    if matches!(first, Err(StoreError::Refused(_))) {
        // Such a store makes no other promise about records.
        return;
    }
    assert_eq!(first, Ok(RecordReply::Done), "a record is written");
    let again = store.record(b"kit", write(b"second")).await;
    assert_eq!(again, Ok(RecordReply::Done), "a record may be written again");
    match store.record(b"kit", RecordVerb::Read).await {
        Ok(RecordReply::Content(content, left)) => {
            assert_eq!(content, b"first", "a record that is there stays as it is");
            assert!(!left.is_zero() && left <= DAY, "{left:?} are left of a day");
        }
        other => panic!("a record that no caller has claimed can be read: {other:?}"),
    }
    let extend = RecordVerb::Extend { life: DAY };
    assert_eq!(store.record(b"kit", extend).await, Ok(RecordReply::Done), "a record is extended");
    for (by, expected) in
        [(1, RecordReply::Done), (2, RecordReply::Claimed), (1, RecordReply::Done)]
    {
        let claimed = store.record(b"kit", RecordVerb::Claim { by }).await;
        assert_eq!(claimed, Ok(expected), "a record has one claim, by 1: this is a claim by {by}");
    }
    for verb in [RecordVerb::Read, extend, write(b"third")] {
        let reply = store.record(b"kit", verb).await;
        assert_eq!(reply, Ok(RecordReply::Claimed), "a claim consumes the record: {verb:?}");
    }
    for verb in [RecordVerb::Read, extend, RecordVerb::Claim { by: 1 }] {
        let reply = store.record(b"none", verb).await;
        assert_eq!(reply, Ok(RecordReply::Unknown), "there is no such record: {verb:?}");
    }
}

/// A remembered answer has the name of the reservation that the first request was to open. A store that remembers no
/// answers decides the request again.
///
/// # Panics
/// The store breaks the promise.
pub async fn remembers_the_name_of_a_reservation<S: Store>(gate: impl Fn(Policy) -> SharedGate<S>) {
    let gate = gate(policy(vec![rule("user", 10).dedupe(DAY)]));
    let descriptors = [costing(4)];
    let Ok(request) = of_ada(&descriptors).with_id("kit") else { panic!("a short id") };
    let first = gate.check(request.reserving_as(&[1; 16], DAY)).await;
    assert!(first.is_allowed() && !first.is_repeated(), "10 units are left");
    let again = gate.check(request.reserving_as(&[2; 16], DAY / 2)).await;
    let first = again.first_reservation();
    let name = first.map(|first| first.name);
    let expected = again.is_repeated().then_some([1; 16]);
    assert_eq!(name, expected, "a repeated answer names the reservation of the first request");
    let lasts = first.is_none_or(|first| first.left > DAY / 2 && first.left <= DAY);
    assert!(lasts, "a reservation has the life that the first request gave it: {first:?}");
}

/// A rule whose keys share a slot with the same keys of other rules.
fn rule(name: &str, limit: u64) -> RuleSpec {
    RuleSpec::new(name, Spec::new(AlgorithmKind::FixedWindow, limit, DAY))
        .key(["user"])
        .hash_tag("user")
}

fn policy(rules: Vec<RuleSpec>) -> Policy {
    Policy::new(rules).expect("the rules are valid")
}

fn costing(cost: u64) -> Descriptor<'static> {
    Descriptor::new(ADA).cost(cost)
}

const fn of_ada<'a>(descriptors: &'a [Descriptor<'a>]) -> Request<'a> {
    Request::new("default", descriptors)
}

async fn admits<S: Store>(gate: &SharedGate<S>, cost: u64) -> bool {
    let answer = gate.check(&of_ada(&[costing(cost)])).await;
    assert!(!answer.is_degraded(), "a store decides each step by its deadline");
    answer.is_allowed()
}

async fn settle<S: Store>(gate: &SharedGate<S>, reserved: u64, actual: u64) {
    let descriptors = [costing(reserved)];
    let request = of_ada(&descriptors);
    match gate.hold(&request).await {
        Ok(charge) => assert_eq!(charge.settle(actual).await, Ok(()), "a settlement is answered"),
        Err(answer) => panic!("{reserved} units are left: {answer:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::fake::FakeStore;

    /// The store of the layers' tests keeps a record of each lease, and its time stands while a check runs.
    #[tokio::test(start_paused = true)]
    async fn the_store_of_the_layers_tests_keeps_every_promise() {
        check_all(|policy| {
            SharedGate::over(policy, FakeStore::new(Vec::new()), |_| {})
                .expect("shares can be made")
        })
        .await;
    }
}
