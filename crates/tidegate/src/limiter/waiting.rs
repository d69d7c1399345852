//! Waiting for a limiter, with or without a key: `acquire` and `acquire_blocking` of both limiters, over
//! `crate::wait`.

use tidegate_core::Decision;

use super::key::ByKey;
use super::plans::{CallRule, LookedUp, OfKey};
use super::{KeyedLimiter, Limiter};
use crate::clock::{Clock, Park, Timer};
use crate::key::{Fingerprint, Key};
use crate::rules::OnExcess;
use crate::wait::LimiterCall;

impl<C: Clock> Limiter<C> {
    /// The number of waiters.
    ///
    /// ```
    /// let limiter = tidegate::Limiter::new("2/h")?;
    /// assert_eq!(limiter.waiting(), 0);
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queues.len(&())
    }
}

impl<C: Clock> KeyedLimiter<C> {
    /// The number of waiters for the key's limiter.
    ///
    /// ```
    /// let limiter = tidegate::KeyedLimiter::new("2/h")?;
    /// assert_eq!(limiter.waiting("ada"), 0);
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use]
    pub fn waiting(&self, key: impl Key) -> usize {
        self.queues.len(&self.seed.of(&key))
    }

    /// A call for `cost` units of a key, which looks up the key's plan for each attempt.
    pub(crate) fn call_of<'a>(
        &'a self,
        key: &impl ByKey<'a>,
        cost: u64,
    ) -> LimiterCall<'a, Fingerprint, OfKey<'a, C>> {
        let terms = match key.rule() {
            // Without plans, a rule that the call supplies is ignored.
            _ if self.plans.is_none() => CallRule::Table,
            Some(rule) => CallRule::Supplied(rule),
            None => CallRule::LookedUp(Box::new(key.key().encode(LookedUp::new))),
        };
        self.call(self.seed.of(key.key()), terms, cost)
    }
}

impl<C: Timer> Limiter<C> {
    /// Waits until `cost` units fit, takes them, and resolves when the work may run.
    ///
    /// Callers are served in the order of arrival; no caller overtakes a waiter, with any cost
    /// and any verb. `wait` is the longest wait, as a `Duration`, or with the maximum number of waiters, as
    /// [`OnExcess::Wait`]. A call is refused immediately if it cannot run within the longest wait, after the callers
    /// that already wait, or if the maximum number of callers waits; `retry_after` is then the expected wait.
    /// An admitted decision has no `delay`, because that time has passed.
    ///
    /// A call arrives when its future is first polled. A waiter has no reservation, so a change of
    /// the limit can still lead to a refusal. A cost of 0 never waits.
    ///
    /// A future that is dropped before it resolves leaves no trace, and later callers move up. (Admitted work of a
    /// `leaky_queue` keeps its slot, because delays already returned do not change.) A future that is kept but not
    /// polled blocks later callers for its own wait and one second more.
    ///
    /// Needs a clock with a timer; the feature `tokio` gives the system's clock one.
    ///
    /// # Panics
    /// Panics when it has to wait, if the clock's timer does: tokio's timer panics outside of its runtime.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Limiter, ManualClock, Spec, Timer};
    ///
    /// # async fn work(limiter: &Limiter<impl Timer>) {
    /// if limiter.acquire(1, Duration::from_secs(2)).await.is_allowed() {
    ///     // The work goes here.
    /// }
    /// # }
    /// let spec = Spec::new(AlgorithmKind::TokenBucket, 10, Duration::from_secs(1));
    /// let limiter = Limiter::with_clock(spec, ManualClock::new())?;
    /// let work = work(&limiter);
    /// # let work = std::pin::pin!(work);
    /// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert!(work.poll(&mut context).is_ready());
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use = "a request goes on even if it was refused, unless the answer is looked at"]
    pub async fn acquire(&self, cost: u64, wait: impl Into<OnExcess>) -> Decision {
        self.call(cost).wait(wait.into().into(), &self.clock).await.decided.decision
    }
}

impl<C: Park> Limiter<C> {
    /// Does what [`Limiter::acquire`] does, but blocks the thread.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Limiter, Spec};
    ///
    /// let limiter = Limiter::new(Spec::new(AlgorithmKind::TokenBucket, 1_000, Duration::from_secs(1)))?;
    /// assert!(limiter.acquire_blocking(1_000, Duration::ZERO).is_allowed());
    /// assert!(limiter.acquire_blocking(1, Duration::from_secs(1)).is_allowed());
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use = "a request goes on even if it was refused, unless the answer is looked at"]
    pub fn acquire_blocking(&self, cost: u64, wait: impl Into<OnExcess>) -> Decision {
        self.call(cost).wait_blocking(wait.into().into(), &self.clock).decided.decision
    }
}

impl<C: Timer> KeyedLimiter<C> {
    /// Waits until `cost` units of the key's limiter fit, takes them, and resolves when the work
    /// may run: like [`Limiter::acquire`], with a queue for each key. Keys that share the overflow
    /// limiter have queues of their own as well.
    ///
    /// The plan is looked up again for each attempt; see [`KeyedLimiter::plan_changed`]. A rule
    /// that the call supplies holds for the whole wait.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tidegate::{KeyedLimiter, OnExcess, Timer};
    ///
    /// async fn work(limiter: &KeyedLimiter<impl Timer>) {
    ///     let wait = OnExcess::Wait { wait: Duration::from_secs(2), max_waiters: 10 };
    ///     if limiter.acquire("ada", 1, wait).await.is_allowed() {
    ///         // The work goes here.
    ///     }
    /// }
    /// ```
    ///
    /// # Panics
    /// Panics as [`Limiter::acquire`] does.
    #[must_use = "a request goes on even if it was refused, unless the answer is looked at"]
    pub async fn acquire<'a>(
        &'a self,
        key: impl ByKey<'a>,
        cost: u64,
        wait: impl Into<OnExcess>,
    ) -> Decision {
        let call = self.call_of(&key, cost);
        // The key is not kept while the call waits: the future is `Send` whatever the key is.
        drop(key);
        call.wait(wait.into().into(), &self.clock).await.decided.decision
    }
}

impl<C: Park> KeyedLimiter<C> {
    /// Does what [`KeyedLimiter::acquire`] does, but blocks the thread.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::KeyedLimiter;
    ///
    /// let limiter = KeyedLimiter::new("1000/s")?;
    /// assert!(limiter.acquire_blocking("ada", 1_000, Duration::ZERO).is_allowed());
    /// assert!(limiter.acquire_blocking("ada", 1, Duration::from_secs(1)).is_allowed());
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use = "a request goes on even if it was refused, unless the answer is looked at"]
    pub fn acquire_blocking<'a>(
        &'a self,
        key: impl ByKey<'a>,
        cost: u64,
        wait: impl Into<OnExcess>,
    ) -> Decision {
        self.call_of(&key, cost).wait_blocking(wait.into().into(), &self.clock).decided.decision
    }
}
