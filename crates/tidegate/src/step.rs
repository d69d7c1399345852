//! Steps: a store's task with the limiters of a request, and its reply.

mod ask;
mod op;
mod reply;
#[cfg(feature = "redis")]
mod values;

pub use ask::Ask;
pub(crate) use ask::{AskValues, DescriptorSet, Lineage, ValuesSource};
pub(crate) use op::{One, Step, without_values};
pub use reply::FirstReservation;
pub(crate) use reply::{Decided, Done, Lack, Standing};
#[cfg(feature = "redis")]
pub(crate) use values::BUCKET;
#[cfg(feature = "redis")]
pub use values::Values;
