//! A limit on how many requests are in flight, in front of the gate.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use http::request::Parts;
use tidegate_core::Micros;

use super::extract::Extract;
use crate::clock::{Clock, Timer};
use crate::wait::{Concurrency, KeyedConcurrency, Permit};

/// A place in flight to come, or none in time.
pub(super) type Wish = Pin<Box<dyn Future<Output = Option<Permit>> + Send>>;

/// How requests come by a place among those in flight. A place is kept until the body of the response
/// has ended.
///
/// ```
/// use tidegate::tower::{ClientIp, InFlight};
/// use tidegate::{Concurrency, KeyedConcurrency};
///
/// let at_most_100 = InFlight::of(Concurrency::new(100));
/// let at_most_4_each = InFlight::by(ClientIp::peer(), KeyedConcurrency::new(4));
/// ```
#[derive(Clone)]
pub struct InFlight(Arc<dyn Fn(&Parts) -> Wish + Send + Sync>);

impl InFlight {
    /// All requests together; one that finds no place is refused at once.
    #[must_use]
    pub fn of<C: Clock + 'static>(limit: Concurrency<C>) -> Self {
        Self(Arc::new(move |_| found(limit.try_acquire(1))))
    }

    /// All requests together; one that finds no place waits for it, first come, first served.
    #[must_use]
    pub fn waiting<C: Timer + Clone + 'static>(limit: Concurrency<C>, most_wait: Micros) -> Self {
        Self(Arc::new(move |_| {
            let limit = limit.clone();
            Box::pin(async move { limit.acquire(1, most_wait).await })
        }))
    }

    /// By what the requests have in common; those that have it not are one.
    #[must_use]
    pub fn by<C: Clock + 'static>(key: impl Extract + 'static, limit: KeyedConcurrency<C>) -> Self {
        Self(Arc::new(move |parts| {
            found(limit.try_acquire(key.extract(parts).unwrap_or_default(), 1))
        }))
    }

    /// By what the requests have in common, waiting for a place.
    #[must_use]
    pub fn by_waiting<C: Timer + Clone + 'static>(
        key: impl Extract + 'static,
        limit: KeyedConcurrency<C>,
        most_wait: Micros,
    ) -> Self {
        Self(Arc::new(move |parts| {
            let (key, limit) = (key.extract(parts).unwrap_or_default(), limit.clone());
            Box::pin(async move { limit.acquire(key, 1, most_wait).await })
        }))
    }

    /// What a request does to come by a place.
    pub(super) fn wish(&self, parts: &Parts) -> Wish {
        (self.0)(parts)
    }
}

fn found(permit: Option<Permit>) -> Wish {
    Box::pin(std::future::ready(permit))
}

impl fmt::Debug for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InFlight")
    }
}
