//! What is asked of a store, and what it answers: the words that all stores have in common.

mod ask;
mod op;
mod reply;

pub(crate) use ask::{Descriptors, Figures, Met, limited};
pub(crate) use op::Step;
pub(crate) use reply::{Decided, Done, One, UNLIMITED};
