//! Waiting for a limiter, with or without a key.

use tidegate_core::{Decision, Micros};

use super::engine::Call;
use super::key::Key;
use super::keyed::OfKey;
use super::plans::{LookedUp, Terms};
use super::{KeyedLimiter, Limiter};
use crate::clock::{Clock, Park, Timer};
use crate::key::Fingerprint;

impl<C: Clock> Limiter<C> {
    /// Lets at most `max_waiters` wait at once (1,024 by default); who comes when so many wait is
    /// refused at once. With 0 nobody waits.
    #[must_use]
    pub const fn with_max_waiters(mut self, max_waiters: usize) -> Self {
        self.max_waiters = max_waiters;
        self
    }

    /// How many wait at this moment.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queues.len(&())
    }
}

impl<C: Clock> KeyedLimiter<C> {
    /// Lets at most `max_waiters` wait at once for each key (1,024 by default); who comes when so
    /// many wait is refused at once. With 0 nobody waits.
    #[must_use]
    pub const fn with_max_waiters(mut self, max_waiters: usize) -> Self {
        self.max_waiters = max_waiters;
        self
    }

    /// How many wait for the key's limiter at this moment.
    #[must_use]
    pub fn waiting(&self, key: impl AsRef<[u8]>) -> usize {
        self.queues.len(&self.seed.of_bytes(key.as_ref()))
    }

    /// A call for so many units of a key, which looks the plan of the key up whenever it asks.
    pub(crate) fn call_of<'a>(
        &'a self,
        key: &impl Key<'a>,
        cost: u64,
    ) -> Call<'a, Fingerprint, OfKey<'a, C>> {
        let terms = match key.rule() {
            _ if self.plans.is_none() => Terms::Table,
            Some(rule) => Terms::Supplied(rule),
            None => Terms::LookedUp(Box::new(LookedUp::new(key.bytes()))),
        };
        self.call(self.seed.of_bytes(key.bytes()), terms, cost)
    }
}

impl<C: Timer> Limiter<C> {
    /// Waits until `cost` units fit, takes them, and resolves when the work may run.
    ///
    /// First come, first served: nobody overtakes who waits, whatever they ask for and by whichever
    /// verb. Refused at once is what can not be admitted (and run) within `max_wait`, those who wait
    /// already counted in, and what comes when the queue is full; `retry_after` is then the time it
    /// would have taken. An admitted decision tells no `delay`: a queue's has passed.
    ///
    /// It arrives when it is polled first. Nothing is promised to who waits, so a change of the limit
    /// can still lead to a refusal later. A cost of 0 never waits.
    ///
    /// Dropped before it resolves, it leaves no trace, and those behind it move up; only a queue's
    /// admitted work keeps its slot, as a delay once told stays. A future that is kept but not polled
    /// holds up those behind it for as long as it would have waited, and a second more.
    ///
    /// Takes a clock with a timer: with the feature `tokio`, the system's.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, Limiter, ManualClock, Micros, Spec, Timer};
    ///
    /// # async fn work(limiter: &Limiter<impl Timer>) {
    /// if limiter.acquire(1, Micros::from_secs(2)).await.is_allowed() {
    ///     // The work goes here.
    /// }
    /// # }
    /// let spec = Spec::new(AlgorithmKind::TokenBucket, 10, Micros::from_secs(1));
    /// let limiter = Limiter::with_clock(spec, ManualClock::new())?;
    /// let work = work(&limiter);
    /// # let work = std::pin::pin!(work);
    /// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert!(work.poll(&mut context).is_ready());
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    pub async fn acquire(&self, cost: u64, max_wait: Micros) -> Decision {
        self.call(cost).wait(max_wait, &self.clock).await.or_unlimited()
    }
}

impl<C: Park> Limiter<C> {
    /// What [`Limiter::acquire`] does, by blocking the thread.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, Limiter, Micros, Spec};
    ///
    /// let limiter = Limiter::new(Spec::new(AlgorithmKind::TokenBucket, 1_000, Micros::from_secs(1)))?;
    /// assert!(limiter.acquire_blocking(1_000, Micros::ZERO).is_allowed());
    /// assert!(limiter.acquire_blocking(1, Micros::from_secs(1)).is_allowed());
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    pub fn acquire_blocking(&self, cost: u64, max_wait: Micros) -> Decision {
        self.call(cost).wait_blocking(max_wait, &self.clock).or_unlimited()
    }
}

impl<C: Timer> KeyedLimiter<C> {
    /// Waits until `cost` units of the key's limiter fit, takes them, and resolves when the work may
    /// run: what [`Limiter::acquire`] does, with a queue for each key. Keys
    /// for which there was no room share a limiter, and have queues of their own all the same.
    ///
    /// A plan is looked up again whenever its turn may have come; see [`KeyedLimiter::plan_changed`]. A rule that
    /// the call supplies holds for as long as it waits.
    pub async fn acquire<'a>(&'a self, key: impl Key<'a>, cost: u64, max_wait: Micros) -> Decision {
        let call = self.call_of(&key, cost);
        // Not kept while it waits: the future is `Send` whatever the key is.
        drop(key);
        call.wait(max_wait, &self.clock).await.or_unlimited()
    }
}

impl<C: Park> KeyedLimiter<C> {
    /// What [`KeyedLimiter::acquire`] does, by blocking the thread.
    pub fn acquire_blocking<'a>(
        &'a self,
        key: impl Key<'a>,
        cost: u64,
        max_wait: Micros,
    ) -> Decision {
        self.call_of(&key, cost).wait_blocking(max_wait, &self.clock).or_unlimited()
    }
}
