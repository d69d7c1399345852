//! Statistics of resources: passed, blocked and failed units and response times, in sliding
//! windows.
//!
//! One history, in half seconds, serves both windows: one second (2 x 500 ms) and one minute (60 x 1 s).
//! Counts are running totals that only grow. The history keeps the totals as they were when each half second began, if
//! anything was counted in it, so the counts of a window are a difference:
//!
//! ```text
//!   totals at the beginning     40        55        55        61       total now: 70
//!                        |   15    |    0    |    6    |    9 ...
//!                       0.0       0.5       1.0       1.5       now
//!                                                the second at now holds 70 - 55 = 15
//! ```
//!
//! Nothing is set to zero while others count, so no count is lost, and none is in two half seconds.
//! A late count goes to the current half second, because that is where the total grows.

mod entry;
mod half_seconds;
mod history;
mod least;
mod occupy;
mod resources;
mod snapshot;
mod statistics;
mod totals;

pub use entry::Entry;
pub use resources::{Resources, TooManyResources};
pub use snapshot::Snapshot;
pub use statistics::Statistics;

#[cfg(all(test, loom))]
mod models;
