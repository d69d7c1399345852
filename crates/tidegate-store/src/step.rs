//! Steps: a store's task with the limiters of a request, and its reply.

mod ask;
mod op;
mod reply;

pub use ask::{
    Ask, AskKind, AskValues, DescriptorSet, Lineage, ValuesSource, least_remembered_time,
    remembered_time,
};
pub use op::Step;
pub use reply::{
    BUCKET, Decided, Done, FirstReservation, Lack, One, QUEUE, Standing, TakenUnits, Values,
    without_values,
};
