//! The limiters by key that a layer can use.

use std::sync::Arc;

use tidegate_core::{RuleErrors, Spec};

use super::any_gate::AnyDecider;
use super::keyed::Keyed;
use crate::clock::Timer;
use crate::limiter::KeyedLimiter;

/// A limiter by key that a layer can use: a rate such as `"60/m"` or a [`Spec`], from which the layer makes a
/// [`KeyedLimiter`]; or an `Arc` of a limiter that the program has made and may use elsewhere.
///
/// Sealed: other types cannot implement it.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::tower::RateLimitLayer;
/// use tidegate::{AlgorithmKind, KeyedLimiter, OnFull, Spec};
///
/// let text = RateLimitLayer::per_ip("60/m")?;
/// let log = RateLimitLayer::per_ip(Spec::per_minute(60).algorithm(AlgorithmKind::SlidingLog))?;
/// // The limiter's settings bound the number of addresses that are kept, and decide about others.
/// let limiter = Arc::new(KeyedLimiter::new("60/m")?.with_max_keys(10_000, OnFull::Refuse));
/// let shared = RateLimitLayer::per_ip(limiter.clone())?;
/// # Ok::<(), tidegate::RuleErrors>(())
/// ```
pub trait AnyLimiter: sealed::Sealed {}

impl<T: sealed::Sealed> AnyLimiter for T {}

mod sealed {
    /// A limiter that a layer can use, without the seal.
    pub trait Sealed {
        /// The decider over the limiter, whose rule has this name in answers.
        fn decider(self, name: &str) -> Result<super::AnyDecider, super::RuleErrors>;
    }
}

impl sealed::Sealed for &str {
    fn decider(self, name: &str) -> Result<AnyDecider, RuleErrors> {
        Arc::new(KeyedLimiter::new(self)?).decider(name)
    }
}

impl sealed::Sealed for Spec {
    fn decider(self, name: &str) -> Result<AnyDecider, RuleErrors> {
        Arc::new(KeyedLimiter::new(self)?).decider(name)
    }
}

impl<C: Timer + 'static> sealed::Sealed for Arc<KeyedLimiter<C>> {
    fn decider(self, name: &str) -> Result<AnyDecider, RuleErrors> {
        Ok(AnyDecider(Keyed::new(name, self, None)))
    }
}
