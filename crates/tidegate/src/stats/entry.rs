//! A request on its way through a resource: a guard that counts how it ended.
//!
//! A program makes one when a request is admitted and keeps it while the request runs; to drop it is all that ends
//! it.

use std::borrow::Borrow;
use std::marker::PhantomData;
use std::sync::Arc;
use std::thread;

use tidegate_core::Timestamp;

use super::statistics::Statistics;
use crate::clock::{Clock, SystemClock};

/// A request in flight. When it is dropped the request is no longer in flight, and is counted: as
/// an exception when [`Entry::fail`] was called or its thread is panicking, else as a success with
/// the time since it began.
///
/// `H` holds the statistics: `&Statistics<C>`, or an `Arc` of them where the entry must own them,
/// as in a future. A future that is dropped early counts as a success; to count it as an exception,
/// call `fail` first and [`Entry::succeed`] at the end.
///
/// ```
/// use tidegate::Statistics;
///
/// let stats = Statistics::new();
/// let mut entry = stats.entry();
/// assert_eq!(stats.in_flight(), 1);
/// if "seven".parse::<u8>().is_err() {
///     entry.fail();
/// }
/// drop(entry);
///
/// assert_eq!(stats.in_flight(), 0);
/// assert_eq!((stats.minute().pass, stats.minute().exception), (1, 1));
/// ```
#[derive(Debug)]
#[must_use = "the request ends when its entry is dropped"]
pub struct Entry<H: Borrow<Statistics<C>>, C: Clock = SystemClock> {
    stats: H,
    began: Timestamp,
    failed: bool,
    clock: PhantomData<fn() -> C>,
}

impl<H: Borrow<Statistics<C>>, C: Clock> Entry<H, C> {
    fn new(stats: H, began: Timestamp) -> Self {
        stats.borrow().history.totals.enter();
        Self { stats, began, failed: false, clock: PhantomData }
    }

    /// Makes the request count as an exception when it ends.
    pub const fn fail(&mut self) {
        self.failed = true;
    }

    /// Makes the request count as a success when it ends, which is the default.
    pub const fn succeed(&mut self) {
        self.failed = false;
    }

    /// When the request began.
    #[must_use]
    pub const fn began(&self) -> Timestamp {
        self.began
    }
}

impl<H: Borrow<Statistics<C>>, C: Clock> Drop for Entry<H, C> {
    fn drop(&mut self) {
        let stats = self.stats.borrow();
        let now = stats.clock.now();
        // The entry is dropped while its request unwinds, so a panic counts without being reported.
        if self.failed || thread::panicking() {
            stats.exception_at(1, now);
        } else {
            stats.success_at(now.duration_since(self.began), now);
        }
        // Last: a reader that finds no request in flight finds all their results.
        stats.history.totals.leave();
    }
}

impl<C: Clock> Statistics<C> {
    /// Counts a pass of one unit; the request is in flight until the guard is dropped.
    pub fn entry(&self) -> Entry<&Self, C> {
        let now = self.clock.now();
        self.pass_at(1, now);
        Entry::new(self, now)
    }

    /// Like [`Statistics::entry`], with a guard that owns the statistics.
    pub fn entry_owned(self: &Arc<Self>) -> Entry<Arc<Self>, C> {
        let now = self.clock.now();
        self.pass_at(1, now);
        Entry::new(Arc::clone(self), now)
    }

    /// Begins a request whose pass was counted before, by [`Statistics::pass`] or
    /// [`Statistics::occupy`]; it is in flight until the guard is dropped.
    pub fn begin(&self) -> Entry<&Self, C> {
        Entry::new(self, self.clock.now())
    }

    /// Like [`Statistics::begin`], with a guard that owns the statistics.
    pub fn begin_owned(self: &Arc<Self>) -> Entry<Arc<Self>, C> {
        Entry::new(Arc::clone(self), self.clock.now())
    }
}
