//! When a policy was loaded.

use std::sync::OnceLock;

use tidegate_core::Timestamp;

use crate::clock::{Clock, SystemClock};

/// When this process loaded its policy.
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
