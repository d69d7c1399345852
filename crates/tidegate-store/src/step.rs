//! Steps: a store's task with the limiters of a request, and its reply.

mod ask;
mod op;
mod reply;
mod values;

pub use ask::{
    Ask, AskKind, AskValues, DescriptorSet, Lineage, ValuesSource, least_remembered_time,
    remembered_time,
};
pub use op::Step;
pub use reply::{Decided, Done, FirstReservation, Lack, One, Standing, TakenUnits, without_values};
pub use values::{BUCKET, QUEUE, Values};
