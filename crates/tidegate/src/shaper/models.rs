//! A queue under the model checker, which runs every interleaving of two or three threads within a
//! bound on preemptions. It finds a lost wake-up as a thread that sleeps for ever.
//!
//! The clock stands still, and items cost nothing, so each is due immediately.
#![allow(clippy::expect_used, clippy::panic, reason = "a model fails by panicking")]

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use loom::thread::{self, Thread};
use tidegate_core::{AlgorithmKind, Spec, Timestamp};

use super::queue::{Next, ShapingQueue};
use super::state::{ShaperState, TakerTicket};

const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

type Queue = Arc<ShaperState<u32, Timestamp>>;

/// Runs a model under every interleaving with at most `interruptions` preemptions.
fn explore(interruptions: usize, model: impl Fn(Queue) + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(interruptions);
    builder.max_branches = 20_000;
    builder.check(move || {
        let spec = Spec::new(AlgorithmKind::LeakyQueue, 10, Duration::from_secs(1));
        let queue = ShapingQueue::new(spec).expect("a sound rule");
        model(Arc::new(ShaperState::new(queue, NOW)));
    });
}

fn push(queue: &Queue, item: u32) {
    assert!(queue.change(|items, now| items.push(now, item, 0)).is_ok(), "there is room");
}

/// Takes an item, asleep until it is woken; `None` at the end.
fn take(queue: &Queue) -> Option<u32> {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let ticket = queue.ticket();
    let taken = loop {
        match queue.take_or_wait(ticket, &waker) {
            Next::Item(departure) => break Some(departure.item),
            Next::Ended => break None,
            Next::At(_) | Next::Empty => thread::park(),
        }
    };
    queue.forget(ticket);
    taken
}

/// Tries to take an item once, and leaves.
fn look_and_leave(queue: &Queue) -> Option<u32> {
    let ticket: TakerTicket = queue.ticket();
    let seen = queue.take_or_wait(ticket, Waker::noop());
    queue.forget(ticket);
    match seen {
        Next::Item(departure) => Some(departure.item),
        Next::At(_) | Next::Empty | Next::Ended => None,
    }
}

#[test]
fn an_item_wakes_who_just_found_nothing() {
    explore(3, |queue| {
        let pushes = Arc::clone(&queue);
        let pushes = thread::spawn(move || push(&pushes, 7));
        assert_eq!(take(&queue), Some(7));
        pushes.join().expect("it pushed");
    });
}

#[test]
fn the_end_wakes_all_who_wait() {
    explore(3, |queue| {
        let other = Arc::clone(&queue);
        let other = thread::spawn(move || take(&other));
        let closes = Arc::clone(&queue);
        let closes = thread::spawn(move || closes.change(|queue, _| queue.close()));
        assert_eq!(take(&queue), None);
        assert_eq!(other.join().expect("it ended"), None);
        closes.join().expect("it closed");
    });
}

/// Both receivers are woken for the first item; the receiver without an item keeps waiting, and is woken for the next.
#[test]
fn two_who_wait_get_an_item_each() {
    explore(2, |queue| {
        let other = Arc::clone(&queue);
        let other = thread::spawn(move || take(&other));
        let pushes = Arc::clone(&queue);
        let pushes = thread::spawn(move || {
            push(&pushes, 1);
            push(&pushes, 2);
        });
        let own = take(&queue).expect("an item");
        let others = other.join().expect("it was served").expect("an item");
        assert_eq!(own + others, 3);
        pushes.join().expect("it pushed");
    });
}

/// A receiver that is dropped while it waits takes no item and no wake-up with it.
#[test]
fn a_receiver_that_leaves_loses_no_item_and_no_wakeup() {
    explore(3, |queue| {
        let leaves = Arc::clone(&queue);
        let leaves = thread::spawn(move || look_and_leave(&leaves));
        let pushes = Arc::clone(&queue);
        let pushes = thread::spawn(move || {
            push(&pushes, 1);
            push(&pushes, 2);
        });
        let own = take(&queue).expect("an item");
        pushes.join().expect("it pushed");
        let theirs = leaves.join().expect("it left").unwrap_or(0);
        let left = look_and_leave(&queue).unwrap_or(0);
        assert_eq!(own + theirs + left, 3);
    });
}
