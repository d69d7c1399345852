//! The queues under the model checker, which runs every interleaving of two or three threads,
//! within a bound on preemptions. It finds a lost wake-up as a thread that sleeps for ever.
//!
//! The clock stands still: only other threads free units.
#![allow(clippy::expect_used, clippy::panic, reason = "a model fails by panicking")]

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use loom::thread::{self, Thread};
use tidegate_core::{AlgorithmKind, Micros, Spec, Timestamp};

use super::call::LimiterCall;
use super::drive::AttemptResult;
use super::permits::{PermitRequest, Permits};
use super::waitable::Patience;
use super::waiter::Waiter;
use crate::clock::Clock;
use crate::key::Fingerprint;
use crate::limiter::Limiter;

const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);
const LONG: Patience = Patience { wait: Micros::from_secs(1_000), max_waiters: 1_024 };
const KEY: Fingerprint = Fingerprint::FIRST;

/// A clock that stands still.
#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        NOW
    }

    fn never_steps_back(&self) -> bool {
        true
    }
}

/// Runs a model under every interleaving with at most `interruptions` preemptions.
fn explore(interruptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(interruptions);
    builder.max_branches = 20_000;
    builder.check(model);
}

/// Repeats `ask` until it is done, and sleeps in between until its waker wakes it.
fn block<T>(mut ask: impl FnMut(&Waker) -> AttemptResult<T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match ask(&waker) {
            AttemptResult::Done(end) => return end,
            AttemptResult::AskAgainAt(_) => thread::park(),
        }
    }
}

fn permits(limit: u64) -> Arc<Permits> {
    Arc::new(Permits::new(limit))
}

/// Waits for a permit, and gives it back.
fn use_one(permits: &Arc<Permits>) {
    let request = PermitRequest { permits, clock: &Still, key: KEY, units: 1 };
    let mut waits = Waiter::new(request.call().waiting(LONG));
    assert!(block(|waker| waits.poll(NOW, waker)).allowed);
    let permit = permits.permit(KEY, 1);
    assert_eq!(permits.counted().in_flight(KEY), 1);
    drop(permit);
}

#[test]
fn of_one_permit_each_of_two_threads_gets_its_turn() {
    explore(3, || {
        let permits = permits(1);
        let other = Arc::clone(&permits);
        let thread = thread::spawn(move || use_one(&other));
        use_one(&permits);
        thread.join().expect("it is served");
        assert!(permits.counted().out.is_empty());
        assert_eq!(permits.queues.len(&KEY), 0);
    });
}

/// A waiter that is woken for a returned permit, and leaves, wakes the next waiter.
#[test]
fn a_waiter_that_leaves_while_a_permit_comes_back_loses_no_wakeup() {
    explore(3, || {
        let permits = permits(1);
        let held = permits.try_acquire(KEY, 1).expect("it is free");
        let (waits, goes) = (Arc::clone(&permits), Arc::clone(&permits));
        let waits = thread::spawn(move || use_one(&waits));
        let goes = thread::spawn(move || {
            let request = PermitRequest { permits: &goes, clock: &Still, key: KEY, units: 1 };
            let mut waits = Waiter::new(request.call().waiting(LONG));
            if let AttemptResult::Done(done) = waits.poll(NOW, Waker::noop()) {
                drop(done.allowed.then(|| goes.permit(KEY, 1)));
            }
        });
        drop(held);
        goes.join().expect("it left");
        waits.join().expect("it is served");
        assert!(permits.counted().out.is_empty());
        assert_eq!(permits.queues.len(&KEY), 0);
    });
}

/// A limiter of one unit, which is taken.
fn taken() -> Arc<Limiter<Still>> {
    let spec = Spec::new(AlgorithmKind::FixedWindow, 1, Duration::from_secs(100));
    let limiter = Limiter::with_clock(spec, Still).expect("a sound rule");
    assert!(limiter.admits(1));
    Arc::new(limiter)
}

type Waiting<'a> = Waiter<LimiterCall<'a, (), &'a Limiter<Still>>>;

fn turn(limiter: &Limiter<Still>) -> Waiting<'_> {
    Waiter::new(limiter.call(1).waiting(LONG))
}

/// The caller sees the unit, or the refund sees the waiter, or both.
#[test]
fn a_refund_wakes_who_just_found_nothing() {
    explore(3, || {
        let limiter = taken();
        let gives = Arc::clone(&limiter);
        let gives = thread::spawn(move || gives.refund(1));
        let mut waits = turn(&limiter);
        assert!(block(|waker| waits.poll(NOW, waker)).allowed);
        let _ = gives.join().expect("it gave");
        assert!(limiter.queues.are_idle() && !limiter.admits(1));
    });
}

#[test]
fn who_comes_while_somebody_waits_does_not_get_the_unit_that_comes_back() {
    explore(3, || {
        let limiter = taken();
        let mut waits = turn(&limiter);
        assert!(matches!(waits.poll(NOW, Waker::noop()), AttemptResult::AskAgainAt(_)));
        let (gives, comes) = (Arc::clone(&limiter), Arc::clone(&limiter));
        let comes = thread::spawn(move || comes.admits(1));
        let _ = gives.refund(1);
        assert!(block(|waker| waits.poll(NOW, waker)).allowed);
        assert!(!comes.join().expect("it asked"));
        drop(waits);
        assert!(limiter.queues.are_idle());
    });
}
