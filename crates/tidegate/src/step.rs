//! Steps: a store's task with the limiters of a request, and its reply.

mod ask;
mod op;
mod reply;
#[cfg(feature = "redis")]
mod values;

pub use ask::Ask;
pub(crate) use ask::{DescriptorSet, Lineage, OwnValues, ValuesSource, keep_limited};
pub(crate) use op::Step;
pub use reply::FirstReservation;
pub(crate) use reply::{Decided, Done, Lack, One, Standing, without_values};
#[cfg(feature = "redis")]
pub(crate) use values::BUCKET;
#[cfg(feature = "redis")]
pub use values::Values;
