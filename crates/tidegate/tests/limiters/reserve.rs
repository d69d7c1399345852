//! Reservations: what was too much comes back, what was too little is owed, and nobody gets more.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::{Context, Waker};

use crate::packed::{TODAY_US, TestClock, together};
use tidegate::{
    AlgorithmKind, Descriptor, Gate, KeyedLimiter, Limiter, ManualClock, Micros, OnFull, Policy,
    Request, RuleSpec, Spec,
};

const DAY: Micros = Micros::from_secs(86_400);

fn per_day(algorithm: AlgorithmKind, limit: u64) -> Spec {
    let mut spec = Spec::new(algorithm, limit, DAY);
    spec.capacity = (algorithm == AlgorithmKind::LeakyQueue).then_some(limit - 1);
    spec
}

#[test]
fn the_difference_comes_back_or_is_taken_even_into_debt() {
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        let clock = TestClock::at(TODAY_US);
        let alone = Limiter::with_clock(per_day(algorithm, 100), clock.clone()).unwrap();
        let keyed = KeyedLimiter::with_clock(per_day(algorithm, 100), clock).unwrap();
        // Reserved, what it cost, and what is left then.
        for (units, actual, left) in
            [(60, 25, 75), (10, 10, 65), (5, 25, 40), (40, 45, 0), (0, 0, 0)]
        {
            let (one, two) = (alone.reserve(units).unwrap(), keyed.reserve("key", units).unwrap());
            assert_eq!((one.units(), one.decision().is_allowed()), (units, true));
            assert_eq!(alone.settle(one, actual).remaining, left, "{algorithm}");
            assert_eq!(keyed.settle("key", two, actual).remaining, left, "{algorithm}");
        }
        let refusal = alone.reserve(1).unwrap_err();
        assert_eq!(refusal, keyed.reserve("key", 1).unwrap_err());
        assert!(refusal.retry_after().is_some_and(|wait| wait > Micros::ZERO), "{algorithm}");
        let _ = (alone.refund(5), keyed.refund("key", 5));
        assert_eq!(
            (alone.available(), keyed.available("key")),
            (0, 0),
            "{algorithm}: the debt was 5"
        );
        let _ = (alone.refund(1), keyed.refund("key", 1));
        assert_eq!((alone.available(), keyed.available("key")), (1, 1), "{algorithm}");
    }
}

#[test]
fn nothing_reserved_from_an_unlimited_rule_comes_back_to_a_limited_one() {
    let clock = TestClock::at(TODAY_US);
    let alone =
        Limiter::with_clock(Spec::unlimited(AlgorithmKind::FixedWindow), clock.clone()).unwrap();
    let keyed =
        KeyedLimiter::with_clock(Spec::unlimited(AlgorithmKind::FixedWindow), clock).unwrap();
    let reserved = (alone.reserve(50).unwrap(), keyed.reserve("key", 50).unwrap());
    alone.amend(per_day(AlgorithmKind::FixedWindow, 10)).unwrap();
    keyed.amend(per_day(AlgorithmKind::FixedWindow, 10)).unwrap();
    assert!(alone.admits(10) && keyed.admits("key", 10));
    assert_eq!(alone.settle(reserved.0, 0).remaining, 0);
    assert_eq!(keyed.settle("key", reserved.1, 0).remaining, 0);
}

#[test]
fn what_eight_threads_reserve_and_settle_is_what_it_cost() {
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        let clock = TestClock::at(TODAY_US);
        let alone = Limiter::with_clock(per_day(algorithm, 100_000), clock.clone()).unwrap();
        let keyed = KeyedLimiter::with_clock(per_day(algorithm, 100_000), clock).unwrap();
        let cost = AtomicU64::new(0);
        together(8, |_, rng| {
            for _ in 0..200 {
                let (units, actual) = (rng.below(20), rng.below(30));
                let reserved =
                    (alone.reserve(units).unwrap(), keyed.reserve("key", units).unwrap());
                cost.fetch_add(actual, SeqCst);
                let _ = alone.settle(reserved.0, actual);
                let _ = keyed.settle("key", reserved.1, actual);
            }
        });
        let left = 100_000 - cost.into_inner();
        assert_eq!((alone.available(), keyed.available("key")), (left, left), "{algorithm}");
    }
}

/// A key without room reserves from the shared limiter, and settles there, also when it has found room
/// meanwhile.
#[test]
fn what_was_reserved_from_the_shared_limiter_goes_back_to_it() {
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        let spec = per_day(algorithm, 10);
        let keyed = KeyedLimiter::new(spec).unwrap().with_max_keys(1, OnFull::Share);
        assert!(keyed.admits("first", 1));
        let (one, two) = (keyed.reserve("second", 6).unwrap(), keyed.reserve("third", 4).unwrap());
        assert!(keyed.reserve("fourth", 1).is_err(), "{algorithm}");
        assert_eq!(keyed.settle("second", one, 4).remaining, 2, "{algorithm}");
        let _ = keyed.refund("first", 1);
        assert!(keyed.admits("third", 5), "{algorithm}: it has a limiter of its own now");
        assert_eq!(keyed.settle("third", two, 1).remaining, 5, "{algorithm}: the shared one");
        assert_eq!((keyed.available("third"), keyed.available("fourth")), (5, 5), "{algorithm}");
    }
}

fn left(gate: &Gate<TestClock>, descriptors: &[Descriptor<'_>]) -> Vec<u64> {
    let answer = gate.peek(&Request::new(Request::DEFAULT_DOMAIN, descriptors));
    answer.matched().iter().map(|matched| matched.decision().remaining).collect()
}

#[test]
fn a_request_is_settled_with_every_limiter_it_meets() {
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        let rule = |name: &str, limit| RuleSpec::new(name, per_day(algorithm, limit));
        let rules = vec![rule("all", 100), rule("user", 50).key(["user"])];
        let gate = Gate::with_clock(Policy::new(rules).unwrap(), TestClock::at(TODAY_US));
        let (ada, bob) = ([("user", "ada")], [("user", "bob")]);
        let descriptors = [Descriptor::new(&ada).cost(20), Descriptor::new(&bob).cost(10)];
        let request = Request::new(Request::DEFAULT_DOMAIN, &descriptors);
        assert!(gate.check(&request).is_allowed());
        assert_eq!(left(&gate, &descriptors), [70, 30, 40]);
        let answer = gate.settle(&request, 15);
        assert_eq!(answer.matched().len(), 3);
        assert_eq!(left(&gate, &descriptors), [70, 35, 35], "{algorithm}: 15 for each of both");
        let alone = [Descriptor::new(&ada).cost(5)];
        let request = Request::new(Request::DEFAULT_DOMAIN, &alone);
        assert!(gate.check(&request).is_allowed());
        let _ = gate.settle(&request, 45);
        assert_eq!(left(&gate, &descriptors), [25, 0, 35], "{algorithm}: a debt of 10");
        let _ =
            gate.refund(&Request::new(Request::DEFAULT_DOMAIN, &[Descriptor::new(&ada).cost(11)]));
        assert_eq!(left(&gate, &descriptors), [36, 1, 35], "{algorithm}");
    }
}

/// Its turn has come as soon as nobody stands before it in its own line.
#[test]
fn reservations_are_answered_while_others_wait() {
    let spec = || per_day(AlgorithmKind::TokenBucket, 1);
    let alone = Limiter::with_clock(spec(), ManualClock::new()).unwrap();
    assert!(alone.admits(1));
    let mut first = Box::pin(alone.acquire(1, DAY));
    assert!(begun(&mut first));
    assert!(alone.reserve(0).is_ok(), "nothing is not waited for");
    assert!(alone.reserve(1).is_err());

    let keyed = KeyedLimiter::with_clock(spec(), ManualClock::new()).unwrap();
    let mut waiting = Vec::new();
    for key in 0..400 {
        let key = key.to_string();
        assert!(keyed.admits(&key, 1));
        let mut waits = Box::pin(keyed.acquire(key, 1, DAY));
        assert!(begun(&mut waits));
        waiting.push(waits);
    }
    assert!(keyed.reserve("bob", 1).is_ok(), "nobody waits for bob");
    assert!(keyed.reserve("7", 1).is_err());
}

/// Whether it waits once it was polled.
fn begun(waits: &mut (impl Future + Unpin)) -> bool {
    Pin::new(waits).poll(&mut Context::from_waker(Waker::noop())).is_pending()
}
