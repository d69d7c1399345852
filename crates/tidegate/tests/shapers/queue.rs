//! The shaping queue at given times, by examples: strict spacing, refusals, closing. The slots of all items, by any clock,
//! are in `walk.rs`, against a naive queue.

use std::time::Duration;
use tidegate::{
    AlgorithmKind, Departure, Micros, Next, Refusal, ShaperError, ShapingQueue, Spec, Timestamp,
};

/// A slot every 100 ms; one is served and `capacity` wait.
fn ten_a_second<T>(capacity: u64) -> ShapingQueue<T> {
    ShapingQueue::new(spec(10, 1_000, capacity)).unwrap()
}

fn spec(limit: u64, window_ms: u64, capacity: u64) -> Spec {
    let mut spec = Spec::new(AlgorithmKind::LeakyQueue, limit, Duration::from_millis(window_ms));
    spec.capacity = Some(capacity);
    spec
}

const fn ms(ms: u64) -> Timestamp {
    Timestamp::from_micros(ms * 1_000)
}

fn item<T>(item: T, slot_ms: u64) -> Next<T> {
    Next::Item(Departure { item, slot: ms(slot_ms) })
}

/// The delay of a push in milliseconds, or why it was refused.
fn pushed(
    queue: &mut ShapingQueue<char>,
    at_ms: u64,
    name: char,
    cost: u64,
) -> Result<u64, Refusal> {
    let answer = queue.push(ms(at_ms), name, cost);
    answer.map(|delay| Micros::from(delay).as_micros() / 1_000).map_err(|refused| refused.refusal)
}

const fn full(retry_ms: u64) -> Result<u64, Refusal> {
    Err(Refusal::Full { retry_after: Duration::from_millis(retry_ms) })
}

/// The drawing in the guide of the algorithm, item by item.
#[test]
fn the_guides_example_leaves_as_drawn() {
    let mut queue = ShapingQueue::new(spec(5, 1_000, 2)).unwrap();
    assert_eq!(pushed(&mut queue, 0, 'A', 1), Ok(0));
    assert_eq!(pushed(&mut queue, 0, 'B', 1), Ok(200));
    assert_eq!(pushed(&mut queue, 0, 'C', 1), Ok(400));
    assert_eq!(pushed(&mut queue, 0, 'D', 1), full(200));
    assert_eq!(queue.poll(ms(0)), item('A', 0));
    assert_eq!(queue.poll(ms(200)), item('B', 200));
    assert_eq!(pushed(&mut queue, 250, 'E', 1), Ok(350));
    assert_eq!(queue.poll(ms(400)), item('C', 400));
    assert_eq!(queue.poll(ms(599)), Next::At(ms(600)));
    assert_eq!(queue.poll(ms(600)), item('E', 600));
    assert_eq!(queue.poll(ms(600)), Next::Empty);
}

#[test]
fn strict_spacing_keeps_late_departures_apart() {
    let mut queue = ten_a_second(4).strict();
    for (name, cost) in [('A', 1), ('B', 2), ('C', 1)] {
        pushed(&mut queue, 0, name, cost).unwrap();
    }
    assert_eq!(queue.poll(ms(250)), item('A', 0));
    assert_eq!(queue.poll(ms(250)), Next::At(ms(350)));
    assert_eq!(queue.poll(ms(360)), item('B', 100));
    assert_eq!(queue.poll(ms(559)), Next::At(ms(560)));
    assert_eq!(queue.poll(ms(560)), item('C', 300));
}

/// The last item that left delays the next item by the spacing of the pace in force.
#[test]
fn strict_spacing_follows_the_pace() {
    let mut queue = ten_a_second(9).strict();
    for name in ['A', 'B', 'C'] {
        pushed(&mut queue, 0, name, 1).unwrap();
    }
    assert_eq!(queue.poll(ms(250)), item('A', 0));
    assert_eq!(queue.poll(ms(250)), Next::At(ms(350)));
    queue.amend(ms(260), spec(20, 1_000, 9)).unwrap();
    assert_eq!(queue.poll(ms(260)), Next::At(ms(300)));
    queue.amend(ms(270), spec(5, 1_000, 9)).unwrap();
    assert_eq!(queue.poll(ms(270)), Next::At(ms(450)));
    assert_eq!(queue.poll(ms(450)), item('B', 100));
}

/// Items that are late, and a queue in which nothing is used any more: a clock that steps back by more
/// than the window takes them along all the same.
#[test]
fn items_that_are_due_stay_due_by_a_clock_that_steps_back_after_a_change() {
    let hour = 3_600_000;
    let mut queue = ten_a_second(9);
    for name in ['A', 'B'] {
        pushed(&mut queue, hour, name, 1).unwrap();
    }
    queue.amend(ms(hour + 5_000), spec(10, 2_000, 9)).unwrap();
    assert!(matches!(queue.poll(ms(5_000)), Next::Item(Departure { item: 'A', .. })));
    assert!(matches!(queue.poll(ms(5_000)), Next::Item(Departure { item: 'B', .. })));
}

/// Nothing leaves faster than at the fastest pace, however often the pace changes.
#[test]
fn changing_to_and_fro_gives_no_credit() {
    let mut queue = ten_a_second(99);
    for _ in 0..100 {
        pushed(&mut queue, 0, 'A', 1).unwrap();
    }
    let mut left = 0;
    for turn in 0..1_000 {
        let passed_us = turn as u64 * 6_130;
        let now = Timestamp::from_micros(passed_us);
        queue.amend(now, spec([10, 3, 10, 7][turn % 4], 1_000, 99)).unwrap();
        while let Next::Item(_) = queue.poll(now) {
            left += 1;
        }
        assert!(left <= 1 + passed_us * 10 / 1_000_000, "{left} after {passed_us} us");
    }
    assert!(left > 30, "{left}");
}

#[test]
fn strict_spacing_steps_back_with_the_clock() {
    let hour = 3_600_000;
    let mut queue = ten_a_second(4).strict();
    pushed(&mut queue, hour, 'A', 3).unwrap();
    pushed(&mut queue, hour, 'B', 1).unwrap();
    assert_eq!(queue.poll(ms(hour + 50)), item('A', hour));
    assert_eq!(queue.poll(ms(5_000)), Next::At(ms(5_350)));
    assert_eq!(queue.poll(ms(5_350)), item('B', 5_300));
}

#[test]
fn closed_it_lets_leave_what_is_in_line_and_then_has_ended() {
    let mut queue = ten_a_second(4);
    pushed(&mut queue, 0, 'A', 1).unwrap();
    pushed(&mut queue, 0, 'B', 1).unwrap();
    queue.close();
    assert_eq!(pushed(&mut queue, 0, 'C', 1), Err(Refusal::Closed));
    assert_eq!(pushed(&mut queue, 0, 'D', 0), Err(Refusal::Closed));
    assert_eq!(queue.poll(ms(0)), item('A', 0));
    assert_eq!(queue.poll(ms(0)), Next::At(ms(100)));
    assert_eq!(queue.poll(ms(100)), item('B', 100));
    assert_eq!(queue.poll(ms(100)), Next::Ended);
}

#[test]
fn closed_now_it_gives_back_the_rest_in_order() {
    let mut queue = ten_a_second(4);
    for name in ['A', 'B', 'C'] {
        pushed(&mut queue, 0, name, 1).unwrap();
    }
    assert_eq!(queue.poll(ms(0)), item('A', 0));
    assert_eq!(queue.close_now(), ['B', 'C']);
    assert!(queue.close_now().is_empty());
    assert!(queue.is_empty() && queue.is_closed());
    assert_eq!(queue.poll(ms(100)), Next::Ended);
}

#[test]
fn a_rule_that_can_not_shape_is_an_error_that_says_why_and_changes_no_pace() {
    let mut queue = ten_a_second(4);
    for name in ['A', 'B'] {
        pushed(&mut queue, 0, name, 1).unwrap();
    }
    for (wrong, said) in [
        (
            Spec::new(AlgorithmKind::TokenBucket, 10, Duration::from_secs(1)),
            "expected `leaky_queue`",
        ),
        (Spec::unlimited(AlgorithmKind::LeakyQueue), "nothing would bound the queue"),
        (spec(10, 0, 2), "`window` is 0us"),
    ] {
        let error = ShapingQueue::<()>::new(wrong).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
        assert_eq!(queue.amend(ms(50), wrong), Err(error));
    }
    let bucket = Spec::new(AlgorithmKind::TokenBucket, 10, Duration::from_secs(1));
    let not_a_queue = ShaperError::NotAQueue(AlgorithmKind::TokenBucket);
    assert_eq!(queue.amend(ms(50), bucket), Err(not_a_queue));
    let unlimited = Spec::unlimited(AlgorithmKind::LeakyQueue);
    assert_eq!(queue.amend(ms(50), unlimited), Err(ShaperError::Unlimited));
    assert!(matches!(queue.amend(ms(50), spec(10, 0, 2)), Err(ShaperError::Rule(_))));
    assert_eq!((queue.poll(ms(50)), queue.poll(ms(50))), (item('A', 0), Next::At(ms(100))));
}

#[test]
fn a_refusal_says_what_helps() {
    let mut queue = ten_a_second(0);
    queue.push(ms(0), "first", 1).unwrap();
    let refused = queue.push(ms(40), "second", 1).unwrap_err();
    assert_eq!(refused.to_string(), "the queue is full: the same cost fits after 60ms");
    let later = queue.push(ms(40) + Duration::from_micros(103), "third", 1).unwrap_err();
    assert_eq!(later.to_string(), "the queue is full: the same cost fits after 59.897ms");
    assert_eq!(refused.refusal.retry_after(), Some(Duration::from_millis(60)));
    assert_eq!(Refusal::Never.retry_after(), None);
    assert_eq!(format!("{refused:?}").matches("second").count(), 0, "items need not be printable");
}
