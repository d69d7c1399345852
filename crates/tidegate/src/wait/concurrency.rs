//! Limits on the work in flight, without rules and stores: in all ([`Concurrency`]), or for each key
//! ([`KeyedConcurrency`]).

use std::sync::Arc;

use super::permits::{Permit, PermitRequest, Permits};
use crate::clock::{Clock, Park, SystemClock, Timer};
use crate::key::{Fingerprint, Key, Seed};
use crate::rules::OnExcess;

/// A limit on the work in flight: at most N units at a time, however long they take.
///
/// Work counts as long as its [`Permit`] is kept. Waiters are served in the order of arrival;
/// no caller overtakes. Clones share the limit.
///
/// ```
/// use tidegate::Concurrency;
///
/// let in_flight = Concurrency::new(2);
/// let first = in_flight.try_acquire(2);
/// assert!(first.is_some());
/// assert!(in_flight.try_acquire(1).is_none());
/// drop(first);
/// assert!(in_flight.try_acquire(1).is_some());
/// ```
#[derive(Clone, Debug)]
pub struct Concurrency<C = SystemClock> {
    permits: Arc<Permits>,
    clock: C,
}

/// The key under which unkeyed work is counted.
const ALL: Fingerprint = Fingerprint::FIRST;

impl Concurrency {
    /// Allows at most `limit` units in flight; waits use the system's clock.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self::with_clock(limit, SystemClock::new())
    }
}

impl<C: Clock> Concurrency<C> {
    /// Allows at most `limit` units in flight; waits use `clock`.
    #[must_use]
    pub fn with_clock(limit: u64, clock: C) -> Self {
        Self { permits: Arc::new(Permits::new(limit)), clock }
    }

    /// Returns a permit for `units` if they are free now and no caller waits. A permit for 0 units is
    /// always available.
    #[must_use]
    pub fn try_acquire(&self, units: u64) -> Option<Permit> {
        self.permits.try_acquire(ALL, units)
    }

    /// Changes the limit. Work in flight goes on; under a lower limit none is admitted until enough
    /// has ended. A waiter for more units than the new limit gives up on its next attempt.
    pub fn set_limit(&self, limit: u64) {
        self.permits.set_limit(limit);
    }

    /// The limit.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.permits.counted().limit
    }

    /// Units in flight.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.permits.counted().in_flight(ALL)
    }

    /// Free units; 0 while more are in flight than a lowered limit allows.
    #[must_use]
    pub fn available(&self) -> u64 {
        self.permits.counted().available(ALL)
    }

    /// The number of waiters.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.permits.queues.len(&ALL)
    }

    fn request(&self, units: u64) -> PermitRequest<'_, C> {
        PermitRequest { permits: &self.permits, clock: &self.clock, key: ALL, units }
    }
}

impl<C: Timer> Concurrency<C> {
    /// Waits until `units` are free and all earlier callers have theirs. Returns `None` if that
    /// takes longer than `wait` (a `Duration`, or an [`OnExcess::Wait`] with the maximum number of waiters), or
    /// immediately if `units` is more than the limit or so many wait.
    ///
    /// A call arrives when its future is first polled. A future that is dropped before it resolves
    /// leaves no trace.
    ///
    /// # Panics
    /// Panics when it has to wait, if the clock's timer does: tokio's timer panics outside of its runtime.
    pub async fn acquire(&self, units: u64, wait: impl Into<OnExcess>) -> Option<Permit> {
        self.request(units).wait(wait.into().into()).await
    }
}

impl<C: Park> Concurrency<C> {
    /// Does what [`Concurrency::acquire`] does, but blocks the thread.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::Concurrency;
    ///
    /// let in_flight = Concurrency::new(1);
    /// std::thread::scope(|scope| {
    ///     for _ in 0..4 {
    ///         scope.spawn(|| {
    ///             let permit = in_flight.acquire_blocking(1, Duration::from_secs(60));
    ///             assert!(permit.is_some());
    ///             assert_eq!(in_flight.in_flight(), 1);
    ///         });
    ///     }
    /// });
    /// ```
    pub fn acquire_blocking(&self, units: u64, wait: impl Into<OnExcess>) -> Option<Permit> {
        self.request(units).wait_blocking(wait.into().into())
    }
}

/// A limit on the work in flight for each [`Key`]. A key without work in flight takes no memory.
///
/// ```
/// use tidegate::KeyedConcurrency;
///
/// let per_user = KeyedConcurrency::new(1);
/// let permit = per_user.try_acquire("alice", 1);
/// assert!(permit.is_some());
/// assert!(per_user.try_acquire("alice", 1).is_none());
/// assert!(per_user.try_acquire("bob", 1).is_some());
/// ```
#[derive(Clone, Debug)]
pub struct KeyedConcurrency<C = SystemClock> {
    permits: Arc<Permits>,
    seed: Seed,
    clock: C,
}

impl KeyedConcurrency {
    /// Allows at most `limit` units in flight for each key; waits use the system's clock.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self::with_clock(limit, SystemClock::new())
    }
}

impl<C: Clock> KeyedConcurrency<C> {
    /// Allows at most `limit` units in flight for each key; waits use `clock`.
    #[must_use]
    pub fn with_clock(limit: u64, clock: C) -> Self {
        let permits = Arc::new(Permits::new(limit));
        Self { permits, seed: Seed::random(), clock }
    }

    /// Returns a permit for `units` of the key if they are free now and no caller waits for the key.
    #[must_use]
    pub fn try_acquire(&self, key: impl Key, units: u64) -> Option<Permit> {
        self.permits.try_acquire(self.seed.of(&key), units)
    }

    /// Changes the limit of every key, as [`Concurrency::set_limit`] does.
    pub fn set_limit(&self, limit: u64) {
        self.permits.set_limit(limit);
    }

    /// The limit of each key.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.permits.counted().limit
    }

    /// Units in flight of the key.
    #[must_use]
    pub fn in_flight(&self, key: impl Key) -> u64 {
        self.permits.counted().in_flight(self.seed.of(&key))
    }

    /// Free units of the key.
    #[must_use]
    pub fn available(&self, key: impl Key) -> u64 {
        self.permits.counted().available(self.seed.of(&key))
    }

    /// The number of waiters for the key.
    #[must_use]
    pub fn waiting(&self, key: impl Key) -> usize {
        self.permits.queues.len(&self.seed.of(&key))
    }

    /// The number of keys with work in flight.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.permits.counted().out.len()
    }

    fn request(&self, key: &impl Key, units: u64) -> PermitRequest<'_, C> {
        let key = self.seed.of(key);
        PermitRequest { permits: &self.permits, clock: &self.clock, key, units }
    }
}

impl<C: Timer> KeyedConcurrency<C> {
    /// Waits for `units` of the key, as [`Concurrency::acquire`] does.
    ///
    /// # Panics
    /// Panics as [`Concurrency::acquire`] does.
    pub async fn acquire(
        &self,
        key: impl Key,
        units: u64,
        wait: impl Into<OnExcess>,
    ) -> Option<Permit> {
        let request = self.request(&key, units);
        // The key is not kept while the call waits: the future is `Send` whatever the key is.
        drop(key);
        request.wait(wait.into().into()).await
    }
}

impl<C: Park> KeyedConcurrency<C> {
    /// Does what [`KeyedConcurrency::acquire`] does, but blocks the thread.
    pub fn acquire_blocking(
        &self,
        key: impl Key,
        units: u64,
        wait: impl Into<OnExcess>,
    ) -> Option<Permit> {
        self.request(&key, units).wait_blocking(wait.into().into())
    }
}
