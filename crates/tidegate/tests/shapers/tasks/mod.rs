//! Tasks driven by hand under a clock that is moved by hand.
#![allow(dead_code, reason = "each test uses its part")]

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tidegate::{AlgorithmKind, ManualClock, Shaper, Spec, Timer};

/// A slot every 100 ms; one is served and four wait.
pub(crate) fn ten_a_second<T>() -> (Shaper<T, ManualClock>, ManualClock) {
    shaper(10, 4)
}

/// `limit` slots a second.
pub(crate) fn shaper<T>(limit: u64, capacity: u64) -> (Shaper<T, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    (Shaper::with_clock(spec(limit, capacity), clock.clone()).unwrap(), clock)
}

/// `limit` slots a second.
pub(crate) fn spec(limit: u64, capacity: u64) -> Spec {
    let mut spec = Spec::new(AlgorithmKind::LeakyQueue, limit, Duration::from_secs(1));
    spec.capacity = Some(capacity);
    spec
}

/// Each must be taken in.
pub(crate) fn push_all<T, C: Timer>(shaper: &Shaper<T, C>, items: impl IntoIterator<Item = T>) {
    items.into_iter().for_each(|item| assert!(shaper.push(item).is_ok()));
}

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Counts how often it was woken.
#[derive(Default)]
pub(crate) struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A future in the hands of a test.
pub(crate) struct Task<'a, T> {
    future: Pin<Box<dyn Future<Output = T> + 'a>>,
    bell: Arc<Bell>,
}

impl<'a, T> Task<'a, T> {
    pub(crate) fn new(future: impl Future<Output = T> + 'a) -> Self {
        Self { future: Box::pin(future), bell: Arc::default() }
    }

    pub(crate) fn poll(&mut self) -> Poll<T> {
        let waker = Waker::from(Arc::clone(&self.bell));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// Returns the number of times that it was woken until now.
    pub(crate) fn woken(&self) -> usize {
        self.bell.0.load(SeqCst)
    }

    /// Polls if it was woken since the last time, as a runtime does.
    pub(crate) fn poll_if_woken(&mut self) -> Poll<T> {
        if self.bell.0.swap(0, SeqCst) > 0 { self.poll() } else { Poll::Pending }
    }
}

/// The result of a future that needs no waiting.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}
