//! The growth of the work of joining and leaving a queue with its length, in visited places.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::Cell;
use std::task::Waker;
use std::time::Duration;

use tidegate_core::{AlgorithmKind, Micros, Spec, Timestamp};

use super::call::LimiterCall;
use super::drive::AttemptResult;
use super::places::{Sums, Ticket};
use super::queue::Queue;
use super::waitable::Patience;
use super::waiter::Waiter;
use crate::clock::ManualClock;
use crate::limiter::Limiter;

thread_local! {
    static COUNTED: Cell<u64> = const { Cell::new(0) };
}

/// Counts a visit to a place.
pub(super) fn count() {
    COUNTED.set(COUNTED.get() + 1);
}

/// Returns how many places `work` visited.
fn counted<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = COUNTED.get();
    let done = work();
    (done, COUNTED.get() - before)
}

const LONG: Patience = Patience { wait: Micros::from_secs(100_000_000), max_waiters: usize::MAX };

type Waiting<'a> = Waiter<LimiterCall<'a, (), &'a Limiter<ManualClock>>>;

fn joined<'a>(limiter: &'a Limiter<ManualClock>, now: Timestamp) -> Waiting<'a> {
    let mut turn = Waiter::new(limiter.call(1).waiting(LONG));
    assert!(matches!(turn.poll(now, Waker::noop()), AttemptResult::AskAgainAt(_)));
    turn
}

/// The maximum number of visits by one of a hundred waiters that join a queue of `waiting`, and that leave it in any
/// order.
fn most_looked_at(algorithm: AlgorithmKind, waiting: u64) -> (u64, u64) {
    let clock = ManualClock::new();
    let now = crate::clock::Clock::now(&clock);
    let spec = Spec::new(algorithm, 3, Duration::from_secs(10));
    let limiter = Limiter::with_clock(spec, clock).unwrap();
    while limiter.admits(1) {}
    let mut turns: Vec<_> = (0..waiting).map(|_| joined(&limiter, now)).collect();
    let joins = (0..100).map(|_| {
        let (turn, looks) = counted(|| joined(&limiter, now));
        turns.push(turn);
        looks
    });
    let most = joins.max().unwrap();
    let leaves = (1..100_usize).map(|step| {
        let turn = turns.swap_remove(step * 7_919 % turns.len());
        counted(|| drop(turn)).1
    });
    (most, leaves.max().unwrap())
}

#[test]
fn who_joins_or_leaves_a_long_line_looks_at_few_places() {
    for algorithm in
        [AlgorithmKind::TokenBucket, AlgorithmKind::SlidingWindow, AlgorithmKind::FixedWindow]
    {
        for (waiting, doublings) in [(1_000, 10), (8_000, 13), (9_000, 14), (32_000, 15)] {
            let (joins, leaves) = most_looked_at(algorithm, waiting);
            // One visit for each waiter that is forecast by itself, and some paths from the root of
            // a random tree.
            assert!(joins <= 2 * 64 + 16 * doublings, "{joins} of {waiting}");
            assert!(leaves <= 10 * doublings, "{leaves} of {waiting}");
        }
    }
}

/// Compares the queue with a plain sorted list.
#[test]
fn a_line_answers_as_a_list_does() {
    let mut queue = Queue::default();
    let mut list = Vec::<(Ticket, u64, u64)>::new();
    let mut drawn = 1_u64;
    for step in 0..4_000_u64 {
        drawn =
            drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let ticket = drawn >> 54;
        let cost = drawn >> 20 & 7;
        let deadline = drawn >> 30 & 0xff_ffff;
        let place = list.binary_search_by_key(&ticket, |place| place.0);
        match (place, drawn >> 10 & 3) {
            (Ok(place), 0) => {
                list.remove(place);
                drop(queue.leave(ticket));
            }
            (Ok(place), 1) => {
                list[place].2 = deadline;
                let at = Timestamp::from_micros(deadline);
                queue.park(ticket, Waker::noop().clone(), at);
                assert!(queue.park(ticket, Waker::noop().clone(), at).is_some());
            }
            (Err(place), 0..=2) => {
                list.insert(place, (ticket, cost, deadline));
                queue.join(ticket, cost, Timestamp::from_micros(deadline));
            }
            _ => {}
        }
        if step % 64 == 63 {
            let now = Timestamp::from_micros(drawn >> 40 & 0x1f_ffff);
            let stays =
                |deadline: u64| Timestamp::from_micros(deadline).plus(super::queue::GRACE) > now;
            list.retain(|place| stays(place.2));
            queue.evict(now);
        }
        let place = list.partition_point(|place| place.0 < ticket);
        let before = queue.before(ticket);
        let costs = list[..place].iter().map(|place| place.1);
        assert_eq!(before.first.to_vec(), costs.clone().take(64).collect::<Vec<_>>());
        assert_eq!(before.others, costs.clone().skip(64).sum::<u64>());
        let least = costs.clone().min().unwrap_or(u64::MAX);
        let count = place as u64;
        let sums = Sums { count, costs: costs.sum(), least };
        assert_eq!(queue.sums_before(ticket), sums);
        assert_eq!((queue.len(), queue.has_before(ticket)), (list.len(), place > 0));
        assert_eq!(queue.holds(ticket), list.iter().any(|place| place.0 == ticket));
        let patience = place.checked_sub(1).map(|place| Timestamp::from_micros(list[place].2));
        assert_eq!(queue.patience(ticket), patience.map(|at| at.plus(super::queue::GRACE)));
    }
    assert!(list.len() > 100, "{}", list.len());
}
