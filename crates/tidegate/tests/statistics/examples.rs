//! Statistics by example: windows, guards, names, borrowed places. Late writers and steps of the clock are in `walk.rs`,
//! against a naive model.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tidegate::{Clock, Resources, Statistics, Timestamp};

/// A whole minute of our days.
const TODAY_US: u64 = 1_699_999_200_000_000;

const fn at(ms: u64) -> Timestamp {
    Timestamp::from_micros(TODAY_US + ms * 1_000)
}

/// A clock that is moved by hand, either way; its copies are the same clock.
#[derive(Clone, Debug, Default)]
struct TestClock(Arc<AtomicU64>);

impl TestClock {
    fn set(&self, now: Timestamp) {
        self.0.store(now.as_micros(), Relaxed);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Relaxed))
    }
}

fn stats() -> Statistics<Timestamp> {
    Statistics::with_clock(Timestamp::EPOCH)
}

fn clocked() -> (TestClock, Statistics<TestClock>) {
    let clock = TestClock::default();
    clock.set(at(0));
    (clock.clone(), Statistics::with_clock(clock))
}

fn wait(ms: u64) -> Option<Duration> {
    Some(Duration::from_millis(ms))
}

#[test]
fn a_second_is_the_current_half_and_the_one_before() {
    let stats = stats();
    stats.pass_at(1, at(499));
    stats.pass_at(2, at(500));
    stats.pass_at(4, at(1_000));
    let seconds = [at(1_000), at(1_499), at(1_500), at(1_999), at(2_000)];
    assert_eq!(seconds.map(|now| stats.second_at(now).pass), [6, 6, 4, 4, 0]);
}

#[test]
fn a_minute_is_sixty_whole_seconds() {
    let stats = stats();
    stats.pass_at(1, at(999));
    stats.pass_at(2, at(1_000));
    let minutes = [at(59_999), at(60_000), at(60_999), at(61_000)];
    assert_eq!(minutes.map(|now| stats.minute_at(now).pass), [3, 2, 2, 0]);
}

#[test]
fn the_end_of_time_is_a_time() {
    let stats = stats();
    let end = Timestamp::EPOCH.plus(Duration::MAX);
    stats.pass_at(1, end);
    stats.success_at(Duration::MAX, end);
    assert_eq!(
        stats.occupy_at(1, 1, 1, end).map(|wait| wait > Duration::from_secs(1)),
        Some(false)
    );
    assert_eq!((stats.second_at(end).pass, stats.minute_at(end).success), (1, 1));
}

#[test]
fn response_times_have_a_sum_a_least_and_a_mean() {
    let stats = stats();
    assert_eq!((stats.second().rt_min_us, stats.second().rt_mean_us()), (None, None));
    for us in [30, 10, 21] {
        stats.success_at(Duration::from_micros(us), at(0));
    }
    let second = stats.second_at(at(0));
    assert_eq!((second.success, second.rt_sum_us), (3, 61));
    assert_eq!((second.rt_min_us, second.rt_mean_us()), (Some(10), Some(20)));
}

#[test]
fn an_entry_is_in_flight_and_then_a_success_with_its_time() {
    let (clock, stats) = clocked();
    let entry = stats.entry();
    clock.set(at(30));
    assert_eq!((stats.in_flight(), stats.second().pass, stats.second().success), (1, 1, 0));
    drop(entry);
    assert_eq!((stats.in_flight(), stats.second().success), (0, 1));
    assert_eq!((stats.second().rt_sum_us, stats.second().rt_min_us), (30_000, Some(30_000)));
}

#[test]
fn an_entry_that_failed_or_panicked_is_an_exception() {
    let (_, stats) = clocked();
    stats.entry().fail();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _entry = stats.entry();
        panic!("on its way");
    }));
    assert!(panicked.is_err());
    let second = stats.second();
    assert_eq!((second.pass, second.exception, second.success), (2, 2, 0));
    assert_eq!((second.rt_sum_us, second.rt_min_us, stats.in_flight()), (0, None, 0));
}

#[test]
fn an_entry_outlives_a_step_back_of_the_clock() {
    let (clock, stats) = clocked();
    let entry = stats.entry();
    clock.set(Timestamp::EPOCH);
    drop(entry);
    assert_eq!((stats.second().success, stats.second().rt_min_us), (1, Some(0)));
}

#[test]
fn an_owned_entry_lives_on_its_own_and_begin_counts_no_pass() {
    let stats = Arc::new(clocked().1);
    let (mut one, two) = (stats.begin_owned(), stats.entry_owned());
    one.fail();
    one.succeed();
    assert_eq!((stats.in_flight(), stats.second().pass), (2, 1));
    drop((one, two, stats.begin()));
    assert_eq!((stats.in_flight(), stats.second().success), (0, 3));
}

#[test]
fn names_are_bounded_and_each_has_statistics_of_its_own() {
    let resources = Resources::with_clock(2, at(0));
    assert!(resources.is_empty());
    resources.named("b").unwrap().pass(2);
    resources.entry("a").unwrap().fail();
    assert!(Arc::ptr_eq(&resources.named("b").unwrap(), &resources.get("b").unwrap()));
    let error = resources.named("c\n").unwrap_err().to_string();
    assert!(error.contains(r#""c\n""#) && error.contains("there are 2 already"), "{error}");
    assert_eq!((resources.len(), resources.get("c\n").is_none()), (2, true));
    let passes =
        |(name, stats): &(Arc<str>, Arc<Statistics<_>>)| (name.clone(), stats.second().pass);
    let all: Vec<_> = resources.all().iter().map(passes).collect();
    assert_eq!(all, [("a".into(), 1), ("b".into(), 2)]);
}

#[test]
fn no_cost_and_no_limit_are_answered_at_once() {
    let stats = stats();
    assert_eq!(stats.occupy_at(0, 0, 0, at(0)), wait(0));
    assert_eq!(stats.occupy_at(1, 0, u64::MAX, at(0)), None);
    assert_eq!(stats.occupy_at(u64::MAX, u64::MAX, 0, at(0)), wait(0));
    assert_eq!(stats.occupy_at(u64::MAX, u64::MAX, u64::MAX, at(0)), wait(1_000));
    assert_eq!(stats.occupy_at(1, u64::MAX, u64::MAX, at(0)), None);
}

/// Two reports of 2^63 units once made a minute of none, and a long time a short one.
#[test]
fn sums_of_large_numbers_saturate_and_the_next_minute_counts_again() {
    let (stats, most) = (stats(), 1 << 63);
    for number in [u64::MAX, 1 << 63, 1 << 32, 7] {
        stats.pass_at(number, at(0));
        stats.block_at(number, at(0));
        stats.exception_at(number, at(0));
    }
    for _ in 0..1 << 17 {
        stats.success_at(Duration::from_micros(1 << 47), at(0));
    }
    let minute = stats.minute_at(at(59_000));
    assert_eq!([minute.pass, minute.block, minute.exception], [most + 7; 3]);
    assert_eq!(minute.rt_sum_us, most);
    stats.pass_at(5, at(62_000));
    stats.pass_at(1 << 40, at(62_000));
    assert_eq!(stats.minute_at(at(62_000)).pass, 5 + (1 << 40));
}
