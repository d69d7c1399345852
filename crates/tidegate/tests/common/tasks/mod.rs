//! Tasks that are polled by hand, and only when they were woken, under a clock that is moved by hand.
#![allow(unreachable_pub, dead_code, reason = "each test uses its part")]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tidegate::{AlgorithmKind, Clock, ManualClock, Spec, Timestamp};

/// Counts how often it was woken.
#[derive(Debug, Default)]
pub struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A future, its waker, and its result.
pub struct Task<'a, T> {
    future: Option<Pin<Box<dyn Future<Output = T> + 'a>>>,
    woken: Arc<Woken>,
    seen: usize,
    pub polls: usize,
    pub end: Option<(Timestamp, T)>,
}

impl<'a, T> Task<'a, T> {
    pub fn new(future: impl Future<Output = T> + 'a) -> Self {
        let future: Pin<Box<dyn Future<Output = T> + 'a>> = Box::pin(future);
        Self { future: Some(future), woken: Arc::default(), seen: 0, polls: 0, end: None }
    }

    /// A task that was polled once.
    pub fn begun(future: impl Future<Output = T> + 'a, clock: &ManualClock) -> Self {
        let mut task = Self::new(future);
        task.poll(clock);
        task
    }

    /// Polls it, woken or not; returns whether it is over.
    pub fn poll(&mut self, clock: &ManualClock) -> bool {
        self.poll_at(|| clock.now())
    }

    /// Polls it in a test that does not need the time of its end.
    pub fn poll_now(&mut self) -> bool {
        self.poll_at(|| Timestamp::EPOCH)
    }

    fn poll_at(&mut self, now: impl FnOnce() -> Timestamp) -> bool {
        self.seen = self.wakes();
        let Some(future) = &mut self.future else { return true };
        self.polls += 1;
        let waker = Waker::from(Arc::clone(&self.woken));
        if let Poll::Ready(end) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.end = Some((now(), end));
            self.future = None;
        }
        self.end.is_some()
    }

    /// Polls it, woken or not, and takes its result.
    pub fn result(&mut self) -> Poll<T> {
        self.poll_now();
        self.end.take().map_or(Poll::Pending, |(_, end)| Poll::Ready(end))
    }

    /// Polls it if it was woken since it was polled last, as a runtime does, and takes its result.
    pub fn result_if_woken(&mut self) -> Poll<T> {
        if self.is_woken() { self.result() } else { Poll::Pending }
    }

    /// Returns the number of times that it was woken.
    pub fn wakes(&self) -> usize {
        self.woken.0.load(SeqCst)
    }

    /// Returns whether it was woken since it was polled last, and is not over.
    pub fn is_woken(&self) -> bool {
        self.future.is_some() && self.wakes() > self.seen
    }

    pub fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// Drops it where it is.
    pub fn cancel(&mut self) {
        self.future = None;
    }
}

/// Polls woken tasks until none is woken. Panics if tasks are woken for ever.
pub fn settle<T>(tasks: &mut [Task<'_, T>], clock: &ManualClock) {
    for _ in 0..10_000 {
        let Some(task) = tasks.iter_mut().find(|task| task.is_woken()) else { return };
        task.poll(clock);
    }
    panic!("tasks wake each other for ever");
}

/// Moves the clock from one sleeper to the next, up to `until`, and polls woken tasks.
pub fn run_until<T>(tasks: &mut [Task<'_, T>], clock: &ManualClock, until: Timestamp) {
    settle(tasks, clock);
    while let Some(at) = clock.next_sleeper().filter(|at| *at <= until) {
        clock.advance_to(at);
        settle(tasks, clock);
    }
    clock.advance_to(until);
}

/// Moves the clock until no task sleeps any more.
pub fn run<T>(tasks: &mut [Task<'_, T>], clock: &ManualClock) {
    settle(tasks, clock);
    while let Some(at) = clock.next_sleeper() {
        clock.advance_to(at);
        settle(tasks, clock);
    }
}

pub const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub const fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// `limit` tokens, one each millisecond.
pub const fn bucket(limit: u64) -> Spec {
    Spec::new(AlgorithmKind::TokenBucket, limit, ms(limit))
}
