//! Tests of the whole service.

mod allocations;
mod bounded;
