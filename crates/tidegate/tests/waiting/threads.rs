//! Threads that wait: all get their units, with any order of wakes, and no thread sleeps for ever.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use tidegate::{
    AlgorithmKind, Concurrency, KeyedLimiter, Limiter, ManualClock, OnExcess, Policy, Request,
    RuleSpec, Spec,
};
use tidegate::{Descriptor, Gate};

const THREADS: u64 = 8;
const ROUNDS: u64 = 50;
/// Longer than any of this takes.
const LONG: Duration = Duration::from_secs(600);

/// Each of the threads does each of its rounds.
fn all(work: impl Fn(u64, u64) + Sync) {
    let work = &work;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || (0..ROUNDS).for_each(|round| work(thread, round)));
        }
    });
}

#[test]
fn no_wakeup_is_lost_between_threads_that_wait_for_one_limiter() {
    for algorithm in
        [AlgorithmKind::TokenBucket, AlgorithmKind::SlidingLog, AlgorithmKind::LeakyQueue]
    {
        let limiter = Limiter::new(Spec::new(algorithm, 50, Duration::from_millis(5))).unwrap();
        let admitted = AtomicU64::new(0);
        all(|thread, round| {
            let cost = 1 + (thread + round) % 3;
            assert!(limiter.acquire_blocking(cost, LONG).is_allowed());
            admitted.fetch_add(1, SeqCst);
        });
        assert_eq!((admitted.into_inner(), limiter.waiting()), (THREADS * ROUNDS, 0));
    }
}

/// The window never ends: exactly N are admitted, by any verb, and all others are refused.
#[test]
fn threads_that_wait_and_threads_that_do_not_share_a_limit_exactly() {
    let spec = Spec::new(AlgorithmKind::FixedWindow, 100, Duration::from_secs(86_400));
    let limiter = Limiter::with_clock(spec, ManualClock::new()).unwrap();
    let admitted = AtomicU64::new(0);
    all(|thread, _| {
        let yes = match thread % 4 {
            0 => limiter.admits(1),
            1 => limiter.check(1).is_allowed(),
            2 => limiter.acquire_blocking(1, Duration::ZERO).is_allowed(),
            _ => limiter.acquire_blocking(1, Duration::from_secs(1)).is_allowed(),
        };
        admitted.fetch_add(u64::from(yes), SeqCst);
    });
    assert_eq!((admitted.into_inner(), limiter.waiting()), (100, 0));
}

/// Every unit given back wakes a thread that waits for it: the clock stands still, so nothing else can.
#[test]
fn refunds_alone_let_every_waiter_through() {
    const DAY: Duration = Duration::from_secs(86_400);
    let spec = Spec::new(AlgorithmKind::FixedWindow, 2, DAY);
    let limiter = Limiter::with_clock(spec, ManualClock::new()).unwrap();
    // Two leave a day, so a waiter with four others in front of it is in time only after three days. All threads may
    // wait at the same time.
    let wait = DAY * THREADS as u32;
    all(|_, _| {
        let decision = limiter.acquire_blocking(1, wait);
        assert!(decision.is_allowed(), "{decision:?}");
        let _ = limiter.refund(1);
    });
    assert_eq!((limiter.peek(1).remaining, limiter.waiting()), (2, 0));
}

#[test]
fn threads_wait_for_keys_and_at_a_gate() {
    let keyed =
        KeyedLimiter::new(Spec::new(AlgorithmKind::TokenBucket, 40, Duration::from_millis(4)))
            .unwrap();
    all(|thread, _| {
        assert!(keyed.acquire_blocking((thread % 3).to_string(), 1, LONG).is_allowed());
    });
    let wait = OnExcess::Wait { wait: LONG, max_waiters: 100 };
    let rule = |name: &str, limit, key: &[&str]| {
        let spec = Spec::new(AlgorithmKind::TokenBucket, limit, Duration::from_millis(limit / 10));
        RuleSpec::new(name, spec).key(key.iter().copied()).on_excess(wait)
    };
    let rules = vec![rule("all", 40, &[]), rule("each", 20, &["user"])];
    let gate = Gate::new(Policy::new(rules).unwrap());
    all(|thread, _| {
        let user = (thread % 3).to_string();
        let entries = [("user", user.as_str())];
        let request = Request::from(Descriptor::new(&entries));
        assert!(gate.acquire_blocking(&request).is_allowed());
    });
}

#[test]
fn never_more_than_the_limit_are_in_flight() {
    let in_flight = Concurrency::new(3);
    let (now, most) = (AtomicU64::new(0), AtomicU64::new(0));
    all(|thread, round| {
        let units = 1 + (thread + round) % 3;
        let permit = in_flight.acquire_blocking(units, LONG);
        assert_eq!(permit.as_ref().map(tidegate::Permit::units), Some(units));
        most.fetch_max(now.fetch_add(units, SeqCst) + units, SeqCst);
        thread::yield_now();
        now.fetch_sub(units, SeqCst);
        drop(permit);
    });
    assert!(most.into_inner() <= 3);
    assert_eq!((in_flight.in_flight(), in_flight.waiting()), (0, 0));
}
