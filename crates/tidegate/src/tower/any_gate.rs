//! The gates that a layer can use.

use std::sync::Arc;

use super::decider::{Decider, GateDecider};
#[cfg(feature = "redis")]
use super::store_decider::StoreDecider;
use crate::clock::Timer;
use crate::gate::Gate;
#[cfg(feature = "redis")]
use crate::shared::SharedGate;
#[cfg(feature = "redis")]
use crate::store::Store;

/// A gate that a layer can use: an `Arc` of a [`Gate`], or, with feature `redis`, of a
/// `SharedGate`.
///
/// Sealed: other types cannot implement it.
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
pub trait AnyGate: sealed::Sealed {}

impl<T: sealed::Sealed> AnyGate for T {}

/// The decider of a gate or limiter.
pub struct AnyDecider(pub(super) Arc<dyn Decider>);

mod sealed {
    /// A gate that a layer can use, without the seal.
    pub trait Sealed {
        /// The decider of the gate. A request waits in a queue if its rules say so, but never if
        /// `waits` is false.
        fn decider(self, waits: bool) -> super::AnyDecider;
    }
}

impl<C: Timer + 'static> sealed::Sealed for Arc<Gate<C>> {
    fn decider(self, waits: bool) -> AnyDecider {
        AnyDecider(Arc::new(if waits {
            GateDecider::patient(self)
        } else {
            GateDecider::prompt(self)
        }))
    }
}

#[cfg(feature = "redis")]
impl<S: Store> sealed::Sealed for Arc<SharedGate<S>> {
    fn decider(self, waits: bool) -> AnyDecider {
        AnyDecider(Arc::new(StoreDecider::new(self, waits)))
    }
}
