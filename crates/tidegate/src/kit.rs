//! Checks of the promises of a store, which `docs/how-to/own-store.md` describes.
//!
//! Each check makes gates with the function that it is given, under a policy and in a space, and panics with the promise
//! that is broken. Gates of one space share their limiters. The limiters of a new space are unused: for example, each
//! space has a store of its own, or its number begins each key. The clock of the store must run, because some checks
//! wait for an end. [`check_all`] runs every check.
#![allow(clippy::expect_used, clippy::panic, reason = "a check fails by panicking")]

mod walk;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tidegate_core::{AlgorithmKind, Spec};
use tokio::time::{Instant, sleep};

use crate::request::{Descriptor, Origin, Request};
use crate::rules::{LeaseSpec, Policy, RuleSpec};
use crate::shared::SharedGate;
use crate::store::{KeyAsk, RecordReply, RecordVerb, StepArgs, StepReply, Store, StoreError, Verb};
pub use walk::decides_as_a_gate_in_memory;

/// No window ends while a check runs.
const DAY: Duration = Duration::from_secs(86_400);
const SECOND: Duration = Duration::from_secs(1);
/// A check waits for the end of this time, however long the store takes.
const SOON: Duration = Duration::from_millis(50);
const ADA: &[(&str, &str)] = &[("user", "ada")];

/// Prints the check that fails.
struct Running(&'static str);

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the store fails tidegate::kit::{}", self.0);
        }
    }
}

/// Runs every check.
///
/// # Panics
/// The store breaks a promise.
pub async fn check_all<S: Store>(gate: impl Fn(Policy, u64) -> SharedGate<S>) {
    macro_rules! run {
        ($($check:ident)*) => {$({
            let _name = Running(stringify!($check));
            $check(&gate).await;
        })*};
    }
    run! {
        shares_the_limiters_of_a_space
        decides_as_a_gate_in_memory
        keeps_what_was_used_when_values_change
        renews_and_returns_permits
        is_exact_under_concurrency
        loses_no_leased_unit
        keeps_records_of_reservations
        remembers_the_name_of_a_reservation
    }
}

/// Gates of one space share its limiters, and a new space has unused limiters.
///
/// # Panics
/// The store breaks the promise, or the spaces are not separate.
pub async fn shares_the_limiters_of_a_space<S: Store>(gate: impl Fn(Policy, u64) -> SharedGate<S>) {
    let rules = vec![rule("user", 10)];
    let shared = space();
    let [one, other] = [shared, shared].map(|space| gate(policy(rules.clone()), space));
    let apart = gate(policy(rules), space());
    assert!(admits(&one, 4).await, "the limiters of a new space are unused");
    assert_eq!(other.peek(ADA).await.remaining(), Some(6), "gates of one space share limiters");
    assert_eq!(apart.peek(ADA).await.remaining(), Some(10), "each space has limiters of its own");
}

/// A change of a rule's values is neither a credit nor a reset.
///
/// # Panics
/// The store breaks the promise.
pub async fn keeps_what_was_used_when_values_change<S: Store>(
    gate: impl Fn(Policy, u64) -> SharedGate<S>,
) {
    let gate = gate(policy(vec![rule("user", 10)]), space());
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
pub async fn renews_and_returns_permits<S: Store>(gate: impl Fn(Policy, u64) -> SharedGate<S>) {
    let brief = gate(permits(SOON), space());
    assert!(admits(&brief, 2).await, "2 permits are free");
    let gate = gate(permits(DAY), space());
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
    let limit = Instant::now() + 100 * SOON;
    while !admits(&brief, 2).await {
        assert!(Instant::now() < limit, "a permit of {SOON:?} ends");
        sleep(SOON).await;
    }
}

/// Of many requests to two gates at the same time as many are admitted as fit the limits, and a refused request takes
/// nothing from any limiter.
///
/// # Panics
/// The store breaks the promise. Outside of a runtime of tokio.
pub async fn is_exact_under_concurrency<S: Store>(gate: impl Fn(Policy, u64) -> SharedGate<S>) {
    let rules = vec![rule("user", 1_000), rule("less", 20)];
    let shared = space();
    let gates = [shared, shared].map(|space| Arc::new(gate(policy(rules.clone()), space)));
    let asked: Vec<_> = (0..100)
        .map(|number| {
            let gate = Arc::clone(&gates[number % 2]);
            tokio::spawn(async move { admits(&gate, 1).await })
        })
        .collect();
    let mut admitted = 0;
    for one in asked {
        admitted += u64::from(matches!(one.await, Ok(true)));
    }
    assert_eq!(admitted, 20, "100 requests share a limit of 20");
    let left: Vec<_> = gates[0].peek(ADA).await.all().map(|one| one.decision().remaining).collect();
    assert_eq!(left, [980, 0], "the 80 refused requests took nothing from the limit of 1,000");
}

/// With leases no more than the limit is admitted. A node that leaves gives back its unspent units.
///
/// # Panics
/// The store breaks the promise.
pub async fn loses_no_leased_unit<S: Store>(gate: impl Fn(Policy, u64) -> SharedGate<S>) {
    let lease = LeaseSpec { max_percent: 10, life: SECOND };
    let gate = gate(policy(vec![rule("user", 1_000).lease(lease)]), space());
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
        let allowed = step(&store, &asks, args).await.is_allowed();
        assert_eq!(allowed, fits, "300 of 1,000 units are used, and {cost} are asked for");
    }
}

/// A record is written once, claimed once and gone after its life, and each of these verbs may be repeated. A store that keeps no records
/// refuses to write them.
///
/// # Panics
/// The store breaks the promise.
pub async fn keeps_records_of_reservations<S: Store>(gate: impl Fn(Policy, u64) -> SharedGate<S>) {
    let gate = gate(policy(vec![rule("user", 10)]), space());
    let (store, _) = gate.store_and_asks(&of_ada(&[costing(1)]));
    let write = |content| RecordVerb::Write { content, life: DAY / 2 };
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
            assert!(!left.is_zero() && left <= DAY / 2, "{left:?} are left of half a day");
        }
        other => panic!("a record that no caller has claimed can be read: {other:?}"),
    }
    let extend = RecordVerb::Extend { life: DAY };
    assert_eq!(store.record(b"kit", extend).await, Ok(RecordReply::Done), "a record is extended");
    let read = store.record(b"kit", RecordVerb::Read).await;
    let is_longer = matches!(&read, Ok(RecordReply::Content(_, left)) if *left > DAY / 2);
    assert!(is_longer, "a record lasts for the life of its last extension: {read:?}");
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
    let brief = RecordVerb::Write { content: b"brief", life: SOON };
    assert_eq!(store.record(b"brief", brief).await, Ok(RecordReply::Done), "a record is written");
    let limit = Instant::now() + 100 * SOON;
    while store.record(b"brief", RecordVerb::Read).await != Ok(RecordReply::Unknown) {
        assert!(Instant::now() < limit, "a record of {SOON:?} ends");
        sleep(SOON).await;
    }
}

/// A remembered answer has the name of the reservation that the first request was to open. A store that remembers no
/// answers decides the request again.
///
/// # Panics
/// The store breaks the promise.
pub async fn remembers_the_name_of_a_reservation<S: Store>(
    gate: impl Fn(Policy, u64) -> SharedGate<S>,
) {
    let shared = space();
    let [gate, other] =
        [shared, shared].map(|space| gate(policy(vec![rule("user", 10).dedupe(DAY)]), space));
    let descriptors = [costing(4)];
    let Ok(request) = of_ada(&descriptors).with_id("kit") else { panic!("a short id") };
    let first = gate.check(request.reserving_as(&[1; 16], DAY)).await;
    assert!(first.is_allowed() && !first.is_repeated(), "10 units are left");
    let again = other.check(request.reserving_as(&[2; 16], DAY / 2)).await;
    let first = again.first_reservation();
    let name = first.map(|first| first.name);
    let expected = again.is_repeated().then_some([1; 16]);
    assert_eq!(name, expected, "a repeated answer names the reservation of the first request");
    let lasts = first.is_none_or(|first| first.left > DAY / 2 && first.left <= DAY);
    assert!(lasts, "a reservation has the life that the first request gave it: {first:?}");
}

/// A rule of which no window ends while a check runs.
fn rule(name: &str, limit: u64) -> RuleSpec {
    keyed(name, Spec::new(AlgorithmKind::FixedWindow, limit, DAY))
}

/// A rule whose keys share a slot with the same keys of other rules.
fn keyed(name: &str, spec: Spec) -> RuleSpec {
    RuleSpec::new(name, spec).key(["user"]).hash_tag("user")
}

/// Two permits of this life.
fn permits(life: Duration) -> Policy {
    policy(vec![keyed("user", Spec::new(AlgorithmKind::Concurrency, 2, life))])
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

/// The number of a space that no other check has.
fn space() -> u64 {
    static SPACES: AtomicU64 = AtomicU64::new(0);
    SPACES.fetch_add(1, Relaxed)
}

async fn admits<S: Store>(gate: &SharedGate<S>, cost: u64) -> bool {
    let descriptors = [costing(cost)];
    let request = of_ada(&descriptors);
    let answer = gate.check(&request).await;
    if answer.is_degraded() {
        // An answer does not say why the store did not decide.
        let (store, asks) = gate.store_and_asks(&request);
        step(&store, &asks, StepArgs::peek(store.host().deadline())).await;
        panic!("a store decides each step by its deadline: a step was late");
    }
    answer.is_allowed()
}

/// Runs a step that the store has to decide.
async fn step<S: Store>(store: &S, asks: &[KeyAsk], args: StepArgs<'_>) -> StepReply {
    match store.step(asks, args).await {
        Ok(reply) => reply,
        Err(gave_up) => panic!("a store decides each step by its deadline: {}", gave_up.error),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use super::*;
    use crate::store::fake::FakeStore;

    /// The store of the layers' tests keeps a record of each lease, and its time stands while a check runs.
    #[tokio::test(start_paused = true)]
    async fn the_store_of_the_layers_tests_keeps_every_promise() {
        let stores = Mutex::new(BTreeMap::new());
        check_all(|policy, space| {
            let mut stores = stores.lock().unwrap();
            let store = stores.entry(space).or_insert_with(|| FakeStore::new(Vec::new()));
            SharedGate::over(policy, store.clone(), |_| {}).expect("shares can be made")
        })
        .await;
    }
}
