//! The history of half seconds under the model checker: counting, reading and borrowing while the next
//! half seconds begin, in every interleaving within a bound on preemptions.
//!
//! Times are given as numbers of half seconds. The minute has two seconds here.
#![allow(clippy::expect_used, clippy::panic, reason = "a model fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Timestamp;

use super::half_seconds::HALF_SECOND_US;
use super::{Snapshot, Statistics};

type Stats = Statistics<Timestamp>;

/// The beginning of a half second.
const fn half(number: u64) -> Timestamp {
    Timestamp::from_micros(number * HALF_SECOND_US)
}

/// Runs two threads with the same statistics under every interleaving with at most `interruptions`
/// preemptions, and then checks the result.
fn explore<A: 'static, B: 'static>(
    interruptions: usize,
    prepare: impl Fn(&Stats) + Send + Sync + 'static,
    one: fn(&Stats) -> A,
    other: fn(&Stats) -> B,
    look: impl Fn(&Stats, A, B) + Send + Sync + 'static,
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(interruptions);
    builder.max_branches = 10_000;
    builder.check(move || {
        let stats = Arc::new(Statistics::with_clock(Timestamp::EPOCH));
        prepare(&stats);
        let shared = Arc::clone(&stats);
        let running = loom::thread::spawn(move || one(&shared));
        let others = other(&stats);
        look(&stats, running.join().expect("a thread failed"), others);
    });
}

/// The first and the second half of the short minute, when half second 3 is current.
fn two_seconds(stats: &Stats) -> [Snapshot; 2] {
    let seconds: Vec<_> =
        stats.seconds_at(half(3)).into_iter().map(|(_, snapshot)| snapshot).collect();
    seconds.try_into().expect("two seconds")
}

#[test]
fn a_count_is_in_one_half_second_and_not_in_one_before_its_own() {
    explore(
        3,
        |_| {},
        |stats| stats.pass_at(1, half(1)),
        |stats| stats.pass_at(10, half(2)),
        |stats, (), ()| {
            assert_eq!(stats.second_at(half(2)).pass, 11);
            let [early, late] = two_seconds(stats).map(|second| second.pass);
            assert!([(1, 10), (0, 11)].contains(&(early, late)), "{early}, {late}");
            assert_eq!(stats.second_at(half(4)).pass, 0);
        },
    );
}

#[test]
fn two_that_begin_the_same_half_second_begin_it_once() {
    explore(
        3,
        |stats| stats.pass_at(100, half(1)),
        |stats| stats.pass_at(1, half(2)),
        |stats| stats.block_at(10, half(2)),
        |stats, (), ()| {
            let [early, late] = two_seconds(stats);
            assert_eq!((early.pass, early.block), (100, 0));
            assert_eq!((late.pass, late.block), (1, 10));
        },
    );
}

#[test]
fn a_reader_never_mixes_two_windows() {
    explore(
        3,
        |stats| stats.pass_at(1, half(1)),
        |stats| stats.pass_at(10, half(3)),
        |stats| stats.second_at(half(2)).pass,
        |_, (), seen| assert!([0, 1, 10].contains(&seen), "{seen}"),
    );
}

const fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// Checks a window whose successes took 7 and 9, or one of them, or none.
fn least_goes_with_its_success(window: Snapshot, alone_us: u64) {
    let least = [None, Some(alone_us), Some(7)];
    assert_eq!(Some(&window.rt_min_us), least.get(window.success as usize), "{window:?}");
}

#[test]
fn a_least_time_goes_where_its_success_went() {
    explore(
        3,
        |_| {},
        |stats| stats.success_at(us(7), half(1)),
        |stats| stats.success_at(us(9), half(2)),
        |stats, (), ()| {
            assert_eq!(stats.second_at(half(2)).rt_min_us, Some(7));
            let [early, late] = two_seconds(stats);
            assert_eq!((early.success + late.success, early.rt_sum_us + late.rt_sum_us), (2, 16));
            assert!(late.success >= 1);
            least_goes_with_its_success(early, 7);
            least_goes_with_its_success(late, 9);
        },
    );
}

/// Half second 1 is kept no more when half second 5 has begun.
#[test]
fn a_late_least_time_does_not_go_to_the_next_half_second() {
    explore(
        3,
        |_| {},
        |stats| stats.success_at(us(7), half(1)),
        |stats| stats.success_at(us(9), half(5)),
        |stats, (), ()| {
            let window = stats.second_at(half(5));
            assert!(window.success >= 1);
            least_goes_with_its_success(window, 9);
        },
    );
}

/// One unit has passed in half second 1, and one is borrowed from half second 3.
fn one_borrowed(stats: &Stats) {
    assert_eq!(stats.occupy_at(1, 1, 1, half(1)), Some(Duration::ZERO));
    assert_eq!(stats.occupy_at(1, 1, 1, half(1)), Some(Duration::from_secs(1)));
}

#[test]
fn what_was_borrowed_passes_once() {
    explore(
        3,
        one_borrowed,
        |stats| stats.second_at(half(3)).pass,
        |stats| stats.second_at(half(3)).pass,
        |stats, one, other| {
            assert_eq!([one, other], [1, 1]);
            assert_eq!(two_seconds(stats).map(|second| second.pass), [1, 1]);
        },
    );
}

#[test]
fn what_was_borrowed_is_seen_with_its_half_second_or_not_at_all() {
    explore(
        3,
        one_borrowed,
        |stats| stats.pass_at(0, half(3)),
        |stats| stats.second_at(half(2)).pass,
        |_, (), seen| assert_eq!(seen, 1, "of half second 1 or of 3, not of both, not of neither"),
    );
}

#[test]
fn the_last_unit_is_not_borrowed_twice() {
    let ask = |stats: &Stats| stats.occupy_at(1, 1, 1, half(1));
    explore(
        3,
        |_| {},
        ask,
        ask,
        |stats, one, other| {
            let mut waits = [one, other];
            waits.sort_unstable();
            assert_eq!(waits, [Some(Duration::ZERO), Some(Duration::from_secs(1))]);
            assert_eq!(two_seconds(stats).map(|second| second.pass), [1, 1]);
        },
    );
}

#[test]
fn no_second_passes_more_than_the_limit_while_half_seconds_begin() {
    explore(
        3,
        |stats| assert!(stats.occupy_at(2, 3, 0, half(1)).is_some()),
        |stats| stats.occupy_at(2, 3, 2, half(1)),
        |stats| stats.occupy_at(1, 3, 0, half(2)),
        |stats, borrowed, passed| {
            assert!(borrowed.is_some() && passed.is_some());
            let passes = [2, 3, 4].map(|number| stats.second_at(half(number)).pass);
            assert!(passes.iter().all(|pass| *pass <= 3), "{passes:?}");
        },
    );
}
