//! Shapers under a clock that is moved by hand.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
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

/// The result of a future that needs no waiting.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}
