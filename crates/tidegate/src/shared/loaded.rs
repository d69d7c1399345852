//! When the first policy of a gate was loaded.

use std::sync::OnceLock;

use tidegate_core::Timestamp;

use crate::clock::{Clock, SystemClock};

/// When a gate loaded its first policy, from which the times of later ones are counted.
#[derive(Debug)]
pub(super) struct Loaded {
    /// By the clock of this process.
    pub(super) here: Timestamp,
    /// By the store's, once that was asked.
    pub(super) there: OnceLock<Timestamp>,
}

impl Loaded {
    pub(super) fn now(clock: &SystemClock) -> Self {
        Self { here: clock.now(), there: OnceLock::new() }
    }
}
