//! The time when a gate loaded its first policy.

use std::sync::OnceLock;

use tidegate_core::Timestamp;

use crate::clock::Clock;

/// The time when a gate loaded its first policy; the times of later policies are counted from it.
#[derive(Debug)]
pub(super) struct Loaded {
    /// By the clock of this process.
    pub(super) here: Timestamp,
    /// By the store's clock, after the store was first asked.
    pub(super) there: OnceLock<Timestamp>,
}

impl Loaded {
    pub(super) fn now(clock: &impl Clock) -> Self {
        Self { here: clock.now(), there: OnceLock::new() }
    }
}
