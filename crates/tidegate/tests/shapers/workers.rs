//! Handlers, threads and streams that take from a shaper.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::task::Poll;
use std::thread;

use crate::paced::{now, push_all, spec, ten_a_second};
use crate::tasks::{Task, ms};
use tidegate::{Clock as _, Refusal, Shaper};

/// Three items that are 100 ms apart, and a handler that takes no time, or 250 ms: then they are late, in order, and none
/// is lost.
#[test]
fn a_handler_is_called_in_each_slot_and_a_slow_one_makes_later_items_late_and_loses_none() {
    for (takes_ms, called_ms) in [(0, [0, 100, 200]), (250, [0, 250, 500])] {
        let (shaper, clock) = ten_a_second();
        let began = clock.now();
        let calls = RefCell::new(Vec::new());
        let handler = |name: char| {
            calls.borrow_mut().push((name, clock.now().duration_since(began)));
            tidegate::Timer::sleep_until(&clock, clock.now().plus(ms(takes_ms)))
        };
        let mut run = Task::new(shaper.clone().run(handler));
        assert_eq!(run.result(), Poll::Pending, "{takes_ms} ms");
        push_all(&shaper, ['A', 'B', 'C']);
        shaper.close();
        assert_eq!(run.result_if_woken(), Poll::Pending, "{takes_ms} ms");
        while let Some(at) = clock.next_sleeper() {
            clock.advance_to(at);
            if run.result_if_woken().is_ready() {
                break;
            }
        }
        let expected: Vec<_> = ['A', 'B', 'C'].into_iter().zip(called_ms.map(ms)).collect();
        assert_eq!(calls.take(), expected, "{takes_ms} ms");
        assert!(shaper.is_empty(), "{takes_ms} ms");
    }
}

#[test]
fn a_worker_at_an_empty_line_has_no_alarm_set() {
    let (shaper, clock) = ten_a_second();
    let mut run = Task::new(shaper.clone().run(async |_: char| {}));
    push_all(&shaper, ['A', 'B']);
    assert_eq!((run.result(), clock.sleepers()), (Poll::Pending, 1));
    shaper.push_cost('C', 0).unwrap();
    clock.advance(ms(100));
    assert_eq!((run.result_if_woken(), clock.sleepers()), (Poll::Pending, 0));
    assert_eq!(shaper.push('D'), Ok(ms(100)));
    assert_eq!((run.result_if_woken(), clock.sleepers()), (Poll::Pending, 1));
    assert_eq!(shaper.close_now(), ['D']);
    assert_eq!((run.result_if_woken(), clock.sleepers()), (Poll::Ready(()), 0));
}

#[test]
fn a_handler_that_panics_takes_one_item_with_it_and_no_more() {
    let (shaper, _clock) = ten_a_second();
    shaper.push('A').unwrap();
    shaper.push_cost('B', 0).unwrap();
    let mut run = Task::new(shaper.clone().run(async |name: char| assert_ne!(name, 'A', "bad")));
    assert!(catch_unwind(AssertUnwindSafe(|| run.result())).is_err());
    drop(run);

    let handled = RefCell::new(Vec::new());
    shaper.close();
    let rest = now(shaper.run(async |name| handled.borrow_mut().push(name)));
    assert_eq!((rest, handled.take()), (Some(()), vec!['B']));
}

#[test]
fn a_panicking_thread_leaves_the_rest_to_others() {
    let (shaper, _clock) = ten_a_second();
    shaper.push('A').unwrap();
    shaper.push_cost('B', 0).unwrap();
    let worker = shaper.clone();
    let panicked = thread::spawn(move || worker.run_blocking(|name| assert_ne!(name, 'A', "bad")));
    assert!(panicked.join().is_err());
    assert_eq!(shaper.next_blocking(), Some('B'));
}

#[test]
fn a_thread_sleeps_until_the_slot_and_is_woken_by_an_item_and_by_the_end() {
    let (shaper, clock) = ten_a_second();
    let (worker, begun) = (shaper.clone(), clock.now());
    let handled = thread::spawn(move || {
        let mut handled = Vec::new();
        worker.run_blocking(|name| handled.push(name));
        handled
    });
    push_all(&shaper, ['A', 'B']);
    while clock.sleepers() == 0 {
        thread::yield_now();
    }
    assert_eq!(clock.next_sleeper(), Some(begun.plus(ms(100))));
    clock.advance(ms(100));
    shaper.close();
    assert_eq!(handled.join().unwrap(), ['A', 'B']);
}

/// A thread that is parked until the last instant there is.
#[test]
fn a_worker_that_waits_for_ever_goes_on_after_a_change() {
    let line = Shaper::new(spec(1_000, 9)).unwrap();
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

/// Two threads push, two take, by the system's clock at the highest pace there is: accepted items come out once each,
/// in the order of each producer.
#[test]
fn two_producers_and_two_workers_count_exactly() {
    const EACH: u32 = 20_000;
    let shaper = Shaper::new(spec(1_000_000, 50)).unwrap();
    let handled = [(); 2].map(|()| Mutex::new(Vec::new()));
    thread::scope(|scope| {
        let workers = handled.each_ref().map(|handled| {
            let shaper = shaper.clone();
            scope.spawn(move || shaper.run_blocking(|item| handled.lock().unwrap().push(item)))
        });
        let producers = [0, 1].map(|producer| {
            let shaper = &shaper;
            scope.spawn(move || (0..EACH).for_each(|number| insist(shaper, (producer, number))))
        });
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        shaper.close();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
    let handled = handled.map(|handled| handled.into_inner().unwrap());
    for by_one in &handled {
        for producer in [0, 1] {
            let of = by_one.iter().filter(|(from, _)| *from == producer);
            assert!(of.is_sorted(), "each worker sees each producer's items in their order");
        }
    }
    let mut all = handled.concat();
    all.sort_unstable();
    assert!(all.into_iter().eq([0, 1].into_iter().flat_map(|p| (0..EACH).map(move |n| (p, n)))));
}

/// Pushes until the item is accepted. Nearly all refusals come from a full line.
fn insist(shaper: &Shaper<(u32, u32)>, item: (u32, u32)) {
    while let Err(refused) = shaper.push(item) {
        assert!(matches!(refused.refusal, Refusal::Full { .. } | Refusal::Behind), "{refused}");
        thread::yield_now();
    }
}

#[cfg(feature = "stream")]
#[test]
fn a_stream_gives_each_item_in_its_slot_and_ends() {
    use futures_core::Stream as _;
    use std::future::poll_fn;
    use std::pin::Pin;

    let (shaper, clock) = ten_a_second();
    let mut stream = shaper.stream();
    push_all(&shaper, ['A', 'B']);
    shaper.close();
    let mut next =
        || Task::new(poll_fn(|context| Pin::new(&mut stream).poll_next(context))).result();
    assert_eq!((next(), next()), (Poll::Ready(Some('A')), Poll::Pending));
    clock.advance(std::time::Duration::from_micros(99_999));
    assert_eq!(next(), Poll::Pending);
    clock.advance(std::time::Duration::from_micros(1));
    assert_eq!(
        (next(), next(), next()),
        (Poll::Ready(Some('B')), Poll::Ready(None), Poll::Ready(None))
    );
}
