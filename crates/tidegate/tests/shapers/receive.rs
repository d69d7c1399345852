//! Receiving from a shaper under a clock that is moved by hand: slots, waking, cancelling, ending.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use crate::paced::{now, push_all, shaper, spec, ten_a_second};
use crate::tasks::{Task, Woken, ms};
use std::time::Duration;
use testkit::traffic::Rng;
use tidegate::{Clock as _, Departure, ManualClock, Next, Refusal, Shaper};

#[test]
fn an_item_comes_in_its_slot_and_not_a_microsecond_sooner() {
    let (shaper, clock) = ten_a_second();
    shaper.push('A').unwrap();
    assert_eq!(shaper.push('B').unwrap(), ms(100));
    let slot = clock.now().plus(ms(100));
    assert_eq!(now(shaper.next()), Some(Some('A')));
    let mut next = Task::new(shaper.next_departure());
    assert_eq!(next.result(), Poll::Pending);
    clock.advance(Duration::from_micros(99_999));
    assert_eq!((next.wakes(), next.result()), (0, Poll::Pending));
    clock.advance(Duration::from_micros(1));
    assert_eq!(next.wakes(), 1);
    assert_eq!(next.result(), Poll::Ready(Some(Departure { item: 'B', slot })));
}

#[test]
fn who_waits_at_an_empty_line_is_woken_by_the_first_item_only() {
    let (shaper, clock) = ten_a_second();
    let mut next = Task::new(shaper.next());
    assert_eq!(next.result(), Poll::Pending);
    shaper.push('A').unwrap();
    shaper.push('B').unwrap();
    assert_eq!(next.wakes(), 1);
    assert_eq!((next.result(), clock.sleepers()), (Poll::Ready(Some('A')), 0));
}

#[test]
fn who_sleeps_for_a_slot_is_woken_by_an_item_that_is_due_sooner() {
    let (shaper, clock) = ten_a_second();
    shaper.push('A').unwrap();
    shaper.push('B').unwrap();
    assert_eq!(now(shaper.next()), Some(Some('A')));
    let mut next = Task::new(shaper.next());
    assert_eq!((next.result(), clock.sleepers()), (Poll::Pending, 1));
    shaper.push_cost('C', 0).unwrap();
    assert_eq!((next.wakes(), next.result()), (1, Poll::Ready(Some('C'))));
    assert_eq!(clock.sleepers(), 0, "its alarm is gone with it");
}

#[test]
fn who_sleeps_for_a_slot_is_woken_when_it_comes_sooner_and_sleeps_on_when_later() {
    let (shaper, clock) = shaper(1, 9);
    push_all(&shaper, ['A', 'B', 'C']);
    assert_eq!(now(shaper.next()), Some(Some('A')));
    let (mut one, mut other) = (Task::new(shaper.next()), Task::new(shaper.next()));
    assert_eq!((one.result(), other.result()), (Poll::Pending, Poll::Pending));
    shaper.amend(spec(100, 9)).unwrap();
    assert_eq!((one.wakes(), other.wakes()), (1, 1));
    assert_eq!((one.result_if_woken(), other.result_if_woken()), (Poll::Pending, Poll::Pending));
    clock.advance(ms(10));
    assert_eq!(one.result_if_woken(), Poll::Ready(Some('B')));
    assert_eq!(other.result_if_woken(), Poll::Pending);
    shaper.amend(spec(1, 9)).unwrap();
    assert!(!other.is_woken(), "later is no news");
    clock.advance(ms(10));
    assert_eq!(other.result_if_woken(), Poll::Pending, "it looked, and sleeps on");
    clock.advance(ms(989));
    assert!(!other.is_woken());
    clock.advance(ms(1));
    assert_eq!(other.result_if_woken(), Poll::Ready(Some('C')));
}

#[test]
fn a_receiver_that_is_dropped_leaves_no_trace() {
    let (shaper, _clock) = ten_a_second::<char>();
    let bell = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&bell));
    let mut next = Box::pin(shaper.next());
    assert_eq!(next.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
    drop((next, waker));
    assert_eq!(Arc::strong_count(&bell), 1, "its waker is not kept");
}

/// Pitfall: a waiter that is cancelled keeps its place, and every later waiter waits longer. A receiver that was woken
/// but is not polled keeps no place either.
#[test]
fn a_receiver_that_sits_still_holds_nobody_up() {
    let (shaper, clock) = ten_a_second();
    let mut still = Task::new(shaper.next());
    let mut lively = Task::new(shaper.next());
    assert_eq!((still.result(), lively.result()), (Poll::Pending, Poll::Pending));
    push_all(&shaper, ['A', 'B']);
    assert_eq!(lively.result_if_woken(), Poll::Ready(Some('A')));
    let mut lively = Task::new(shaper.next());
    assert_eq!(lively.result(), Poll::Pending);
    clock.advance(ms(100));
    assert_eq!(lively.result_if_woken(), Poll::Ready(Some('B')));
    assert_eq!(still.result(), Poll::Pending);
}

#[test]
fn closed_it_drains_at_its_pace_and_then_ends_for_all() {
    let (shaper, clock) = ten_a_second();
    push_all(&shaper, ['A', 'B']);
    shaper.close();
    assert_eq!(shaper.push('C').unwrap_err().refusal, Refusal::Closed);
    assert_eq!(now(shaper.next()), Some(Some('A')));
    let (mut one, mut other) = (Task::new(shaper.next()), Task::new(shaper.next()));
    assert_eq!((one.result(), other.result()), (Poll::Pending, Poll::Pending));
    clock.advance(ms(100));
    assert_eq!(one.result_if_woken(), Poll::Ready(Some('B')));
    assert_eq!(other.result_if_woken(), Poll::Ready(None));
    assert_eq!(now(shaper.next()), Some(None));
    assert_eq!(shaper.try_next(), Next::Ended);
}

#[test]
fn who_waits_is_woken_by_the_end() {
    let (shaper, _clock) = ten_a_second::<char>();
    let mut next = Task::new(shaper.next());
    assert_eq!(next.result(), Poll::Pending);
    shaper.close();
    assert_eq!(next.result_if_woken(), Poll::Ready(None));
}

#[test]
fn closed_now_it_gives_back_the_rest_and_ends_at_once() {
    let (shaper, clock) = ten_a_second();
    push_all(&shaper, ['A', 'B', 'C']);
    assert_eq!(now(shaper.next()), Some(Some('A')));
    let mut next = Task::new(shaper.next());
    assert_eq!(next.result(), Poll::Pending);
    shaper.close();
    assert_eq!(next.result_if_woken(), Poll::Pending, "B and C still leave");
    assert_eq!(shaper.close_now(), ['B', 'C']);
    assert_eq!((next.result_if_woken(), clock.sleepers()), (Poll::Ready(None), 0));
}

#[test]
fn handles_are_one_line() {
    let (shaper, _clock) = ten_a_second();
    let other = shaper.clone();
    other.push('A').unwrap();
    assert_eq!((shaper.len(), format!("{shaper:?}")), (1, format!("{other:?}")));
    assert_eq!(now(shaper.next()), Some(Some('A')));
    drop(shaper);
    assert!(other.is_empty() && !other.is_closed());
}

type Receiver = Pin<Box<dyn Future<Output = Option<char>> + Send>>;

/// A waker that holds the last reference to a receiver, like the waker of a task whose runtime is gone.
struct Keeper(#[expect(dead_code, reason = "it is dropped with the waker")] Mutex<Receiver>);

impl Wake for Keeper {
    fn wake(self: Arc<Self>) {}
}

/// Dropping it takes a receiver out of the line: nothing may be held then.
fn keeper_of_a_receiver_in_line(shaper: &Shaper<char, ManualClock>) -> Waker {
    let shaper = shaper.clone();
    let mut kept: Receiver = Box::pin(async move { shaper.next().await });
    assert_eq!(kept.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending);
    Waker::from(Arc::new(Keeper(Mutex::new(kept))))
}

#[test]
fn wakers_are_dropped_where_nothing_is_held() {
    let (shaper, _clock) = ten_a_second::<char>();
    let mut next = Box::pin(shaper.next());
    let waker = keeper_of_a_receiver_in_line(&shaper);
    assert_eq!(next.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
    drop(waker);
    assert_eq!(next.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending);

    let waker = keeper_of_a_receiver_in_line(&shaper);
    assert_eq!(next.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
    drop(waker);
    drop(next);

    let waker = keeper_of_a_receiver_in_line(&shaper);
    let mut next = Box::pin(shaper.next());
    assert_eq!(next.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
    drop(waker);
    shaper.push('A').unwrap();
    assert_eq!(now(shaper.next()), Some(Some('A')));
}

/// A receiver that takes whatever is due whenever it is woken, some that come, are polled or not, and
/// are dropped at any time, and items that come in: each comes out once, in order, exactly in its slot.
#[test]
fn whatever_receivers_do_items_come_once_and_in_their_slots() {
    for seed in 0..if testkit::threads::long() { 4_000 } else { 200 } {
        let mut rng = Rng::new(seed);
        let (shaper, clock) = shaper::<u64>(rng.skewed(1_000), rng.between(0, 20));
        let taken = RefCell::new(Vec::new());
        let take = |left: Departure<u64>| {
            assert_eq!(left.slot, clock.now(), "seed {seed}");
            taken.borrow_mut().push(left.item);
        };
        let mut worker = Task::new(async {
            while let Some(left) = shaper.next_departure().await {
                take(left);
            }
        });
        let mut fickle = Vec::new();
        let mut taken_in = Vec::new();
        assert!(worker.result().is_pending());
        for number in 0..200 {
            match rng.below(5) {
                0 => fickle.push(Task::new(shaper.next_departure())),
                1 if !fickle.is_empty() => drop(fickle.swap_remove(0)),
                2 => clock.advance_to(clock.next_sleeper().unwrap_or(clock.now())),
                _ => taken_in.extend(shaper.push(number).is_ok().then_some(number)),
            }
            fickle.retain_mut(|task| match task.result() {
                Poll::Ready(left) => left.map(&take).is_none(),
                Poll::Pending => rng.chance(50),
            });
            assert!(worker.result_if_woken().is_pending(), "the line is not closed");
        }
        drop((fickle, worker));
        assert_eq!(clock.sleepers(), 0, "seed {seed}");
        let mut out = taken.take();
        out.extend(shaper.close_now());
        assert_eq!(out, taken_in, "seed {seed}");
    }
}
