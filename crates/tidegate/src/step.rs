//! Steps: a store's task with the limiters of a request, and its reply.

mod ask;
mod op;
pub(crate) mod remembered;
mod reply;
#[cfg(feature = "redis")]
mod values;

pub use ask::{Ask, AskKind};
pub(crate) use ask::{AskValues, DescriptorSet, Lineage, ValuesSource};
pub(crate) use op::Step;
pub(crate) use reply::{Decided, Done, Lack, One, Standing, without_values};
pub use reply::{FirstReservation, TakenUnits};
#[cfg(feature = "redis")]
pub use values::Values;
#[cfg(feature = "redis")]
pub(crate) use values::{BUCKET, QUEUE};
