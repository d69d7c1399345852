//! The gates and the limiters by key that a layer can use.
//!
//! A gate of any clock or store becomes a `Decider` here, so that a layer has no type parameter.

use std::sync::Arc;

use tidegate_core::{RuleErrors, Spec};

use super::decider::{Decider, GateDecider};
use super::keyed::Keyed;
#[cfg(feature = "redis")]
use super::store_decider::StoreDecider;
use crate::clock::Timer;
use crate::gate::Gate;
use crate::limiter::KeyedLimiter;
#[cfg(feature = "redis")]
use crate::shared::SharedGate;
#[cfg(feature = "redis")]
use crate::store::Store;

/// A gate that a layer can use: an `Arc` of a [`Gate`], or, with feature `redis`, of a
/// `SharedGate`.
///
/// Sealed: other types cannot implement it. It has no method that decides, so a handler that asks either gate itself needs
/// a trait of the program; the tutorial about Redis has an example ("In memory or over Redis").
///
/// ```
/// use std::sync::Arc;
/// use tidegate::tower::{AnyGate, RateLimitLayer};
/// use tidegate::{Gate, Policy};
///
/// fn layer(gate: impl AnyGate) -> RateLimitLayer {
///     RateLimitLayer::waiting(gate).domain("api")
/// }
/// let in_memory = layer(Arc::new(Gate::new(Policy::new(vec![])?)));
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a gate that a layer can use",
    note = "a layer takes its gate in an `Arc`: `Arc::new(gate)`"
)]
pub trait AnyGate: sealed::Gate {}

impl<T: sealed::Gate> AnyGate for T {}

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
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a limiter by key that a layer can use",
    note = "a layer takes a rate such as `\"60/m\"`, a `Spec`, or an `Arc` of a `KeyedLimiter`"
)]
pub trait AnyLimiter: sealed::Limiter {}

impl<T: sealed::Limiter> AnyLimiter for T {}

/// The decider of a gate or limiter.
pub struct AnyDecider(pub(super) Arc<dyn Decider>);

mod sealed {
    use super::{AnyDecider, RuleErrors};

    /// A gate that a layer can use, without the seal.
    pub trait Gate {
        /// The decider of the gate. A request waits in a queue if its rules say so, but never if
        /// `waits` is false.
        fn decider(self, waits: bool) -> AnyDecider;
    }

    /// A limiter that a layer can use, without the seal.
    pub trait Limiter {
        /// The decider over the limiter, whose rule has this name in answers.
        fn decider(self, name: &str) -> Result<AnyDecider, RuleErrors>;
    }
}

impl<C: Timer + 'static> sealed::Gate for Arc<Gate<C>> {
    fn decider(self, waits: bool) -> AnyDecider {
        AnyDecider(Arc::new(GateDecider::new(self, waits)))
    }
}

#[cfg(feature = "redis")]
impl<S: Store> sealed::Gate for Arc<SharedGate<S>> {
    fn decider(self, waits: bool) -> AnyDecider {
        AnyDecider(Arc::new(StoreDecider::new(self, waits)))
    }
}

impl sealed::Limiter for &str {
    fn decider(self, name: &str) -> Result<AnyDecider, RuleErrors> {
        Arc::new(KeyedLimiter::new(self)?).decider(name)
    }
}

impl sealed::Limiter for Spec {
    fn decider(self, name: &str) -> Result<AnyDecider, RuleErrors> {
        Arc::new(KeyedLimiter::new(self)?).decider(name)
    }
}

impl<C: Timer + 'static> sealed::Limiter for Arc<KeyedLimiter<C>> {
    fn decider(self, name: &str) -> Result<AnyDecider, RuleErrors> {
        Ok(AnyDecider(Keyed::new(name, self, None)))
    }
}
