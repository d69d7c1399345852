//! A pace that changes while items wait for their slots.

use std::task::Poll;

use crate::tasks::{Task, ms, now, push_all, shaper, spec, ten_a_second};
use std::time::Duration;
use tidegate::{
    AlgorithmKind, Clock as _, Departure, Limit, Next, ShaperError, ShapingQueue, Spec, Timestamp,
};

const fn at(ms: u64) -> Timestamp {
    Timestamp::from_micros(1_000_000_000 + ms * 1_000)
}

/// A queue of ten slots a second, with items in it that were pushed at once.
fn with_items<const N: usize>(items: [char; N]) -> ShapingQueue<char> {
    let mut queue = ShapingQueue::new(spec(10, 9)).unwrap();
    items.into_iter().for_each(|item| assert!(queue.push(at(0), item, 1).is_ok()));
    queue
}

fn item(item: char, slot_ms: u64) -> Next<char> {
    Next::Item(Departure { item, slot: at(slot_ms) })
}

#[test]
fn items_keep_their_order_and_leave_at_the_new_pace_from_the_change_on() {
    let mut queue = with_items(['A', 'B', 'C', 'D']);
    assert_eq!(queue.poll(at(0)), item('A', 0));
    // 40 ms of B's slot are left, which are 0.4 units.
    queue.amend(at(60), spec(100, 9)).unwrap();
    assert_eq!(queue.poll(at(60)), Next::At(at(64)));
    assert_eq!(queue.poll(at(64)), item('B', 64));
    queue.amend(at(70), spec(5, 9)).unwrap();
    assert_eq!(queue.poll(at(70)), Next::At(at(150)), "0.4 units of C's slot");
    assert_eq!(queue.poll(at(150)), item('C', 150));
    assert_eq!(queue.push(at(150), 'E', 1).ok(), Some(ms(400)));
    assert_eq!(queue.poll(at(350)), item('D', 350));
    assert_eq!(queue.poll(at(550)), item('E', 550));
}

/// The last item that left delays the next item by the spacing of the pace in force.
#[test]
fn strict_spacing_follows_the_pace() {
    let mut queue = ShapingQueue::new(spec(10, 9)).unwrap().strict();
    for item in ['A', 'B', 'C'] {
        assert!(queue.push(at(0), item, 1).is_ok());
    }
    assert_eq!(queue.poll(at(250)), item('A', 0));
    assert_eq!(queue.poll(at(250)), Next::At(at(350)));
    queue.amend(at(260), spec(20, 9)).unwrap();
    assert_eq!(queue.poll(at(260)), Next::At(at(300)));
    queue.amend(at(270), spec(5, 9)).unwrap();
    assert_eq!(queue.poll(at(270)), Next::At(at(450)));
    assert_eq!(queue.poll(at(450)), item('B', 100));
}

/// Items that are late, and a line in which nothing is used any more: a clock that steps back by more
/// than the window takes them along all the same.
#[test]
fn what_is_due_stays_due_whatever_the_clock_does_after_a_change() {
    let mut queue = with_items(['A', 'B']);
    let mut slower = spec(10, 9);
    slower.window = Some(ms(2_000));
    queue.amend(at(5_000), slower).unwrap();
    let back = Timestamp::from_micros(5_000_000);
    assert!(matches!(queue.poll(back), Next::Item(Departure { item: 'A', .. })));
    assert!(matches!(queue.poll(back), Next::Item(Departure { item: 'B', .. })));
}

#[test]
fn a_pace_that_can_not_be_is_refused_and_changes_nothing() {
    let (shaper, clock) = ten_a_second();
    push_all(&shaper, ['A', 'B']);
    let mut unlimited = spec(10, 9);
    unlimited.limit = Limit::Unlimited;
    assert_eq!(shaper.amend(unlimited), Err(ShaperError::Unlimited));
    let bucket = Spec::new(AlgorithmKind::TokenBucket, 10, ms(1_000));
    assert_eq!(shaper.amend(bucket), Err(ShaperError::NotAQueue(AlgorithmKind::TokenBucket)));
    assert!(matches!(shaper.amend(spec(2_000_000_000, 9)), Err(ShaperError::Rule(_))));
    let slot = clock.now().plus(ms(100));
    assert_eq!(now(shaper.next()), Some(Some('A')));
    assert_eq!(shaper.try_next(), Next::At(slot));
}

#[test]
fn who_sleeps_for_a_slot_is_woken_when_it_comes_sooner_and_sleeps_on_when_later() {
    let (shaper, clock) = shaper(1, 9);
    push_all(&shaper, ['A', 'B', 'C']);
    assert_eq!(now(shaper.next()), Some(Some('A')));
    let (mut one, mut other) = (Task::new(shaper.next()), Task::new(shaper.next()));
    assert_eq!((one.poll(), other.poll()), (Poll::Pending, Poll::Pending));
    shaper.amend(spec(100, 9)).unwrap();
    assert_eq!((one.woken(), other.woken()), (1, 1));
    assert_eq!((one.poll_if_woken(), other.poll_if_woken()), (Poll::Pending, Poll::Pending));
    clock.advance(ms(10));
    assert_eq!(one.poll_if_woken(), Poll::Ready(Some('B')));
    assert_eq!(other.poll_if_woken(), Poll::Pending);
    shaper.amend(spec(1, 9)).unwrap();
    assert_eq!(other.woken(), 0, "later is no news");
    clock.advance(ms(10));
    assert_eq!(other.poll_if_woken(), Poll::Pending, "it looked, and sleeps on");
    clock.advance(ms(989));
    assert_eq!(other.woken(), 0);
    clock.advance(ms(1));
    assert_eq!(other.poll_if_woken(), Poll::Ready(Some('C')));
}

/// A thread that is parked until the last instant there is.
#[test]
fn a_worker_that_waits_for_ever_goes_on_after_a_change() {
    let line = tidegate::Shaper::new(spec(1_000, 9)).unwrap();
    push_all(&line, ['A', 'B', 'C']);
    line.amend(spec(0, 9)).unwrap();
    let worker = std::thread::spawn({
        let line = line.clone();
        move || {
            let mut taken = Vec::new();
            line.run_blocking(|item| taken.push(item));
            taken
        }
    });
    while line.len() > 2 {
        std::thread::yield_now();
    }
    line.amend(spec(1_000_000, 9)).unwrap();
    line.close();
    assert_eq!(worker.join().unwrap(), ['A', 'B', 'C']);
}

/// Nothing passes faster than the fastest pace, however often it is changed.
#[test]
fn changing_to_and_fro_gives_no_credit() {
    let (shaper, clock) = shaper(10, 99);
    (0..100).for_each(|item| assert!(shaper.push(item).is_ok()));
    let began = clock.now();
    let mut left = 0;
    for turn in 0..10_000_u64 {
        shaper.amend(spec([10, 3, 10, 7][turn as usize % 4], 99)).unwrap();
        while let Next::Item(_) = shaper.try_next() {
            left += 1;
        }
        clock.advance(Duration::from_micros(613));
        let passed = clock.now().duration_since(began).as_micros();
        assert!(left <= 1 + passed * 10 / 1_000_000, "{left} after {passed} us");
    }
    assert!(left > 30, "{left}");
}
