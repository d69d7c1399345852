//! A limit on how many requests are in flight, in front of the gate.
//!
//! A permit comes before the decision of the gate, because it can be given back without a trace.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;

use super::extract::Extract;
use crate::clock::{Clock, Timer};
use crate::wait::{Concurrency, KeyedConcurrency, Permit};

/// A future permit; `None` if there is none in time.
pub(super) type PermitFuture = Pin<Box<dyn Future<Output = Option<Permit>> + Send>>;

/// Gives requests permits to be in flight; each is kept until the body of the response has ended.
///
/// ```
/// use tidegate::tower::{ClientIp, InFlight};
/// use tidegate::{Concurrency, KeyedConcurrency};
///
/// let at_most_100 = InFlight::of(Concurrency::new(100));
/// let at_most_4_each = InFlight::by(ClientIp::peer(), KeyedConcurrency::new(4));
/// ```
#[derive(Clone)]
pub struct InFlight(Arc<dyn Fn(&Parts) -> PermitFuture + Send + Sync>);

impl InFlight {
    /// One limit for all requests; a request without a permit is refused immediately.
    #[must_use]
    pub fn of<C: Clock + 'static>(limit: Concurrency<C>) -> Self {
        Self(Arc::new(move |_| found(limit.try_acquire(1))))
    }

    /// One limit for all requests; a request without a permit waits for one, in order of arrival.
    #[must_use]
    pub fn waiting<C: Timer + Clone + 'static>(limit: Concurrency<C>, most_wait: Duration) -> Self {
        Self(Arc::new(move |_| {
            let limit = limit.clone();
            Box::pin(async move { limit.acquire(1, most_wait).await })
        }))
    }

    /// A limit for each value of `key`; requests without a value share one.
    #[must_use]
    pub fn by<C: Clock + 'static>(key: impl Extract + 'static, limit: KeyedConcurrency<C>) -> Self {
        Self(Arc::new(move |parts| {
            found(limit.try_acquire(key.extract(parts).unwrap_or_default(), 1))
        }))
    }

    /// A limit for each value of `key`, with waiting.
    #[must_use]
    pub fn by_waiting<C: Timer + Clone + 'static>(
        key: impl Extract + 'static,
        limit: KeyedConcurrency<C>,
        most_wait: Duration,
    ) -> Self {
        Self(Arc::new(move |parts| {
            let key = key.extract(parts).unwrap_or_default();
            let limit = limit.clone();
            Box::pin(async move { limit.acquire(key, 1, most_wait).await })
        }))
    }

    /// Requests the permit of a request.
    pub(super) fn permit(&self, parts: &Parts) -> PermitFuture {
        (self.0)(parts)
    }
}

fn found(permit: Option<Permit>) -> PermitFuture {
    Box::pin(std::future::ready(permit))
}

impl fmt::Debug for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InFlight")
    }
}
