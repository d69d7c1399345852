//! Waiting for a lock that is held for less than a microsecond.

#[cfg(loom)]
use loom::{hint, thread};
#[cfg(not(loom))]
use std::{hint, thread};

/// Rounds of waiting in place before the processor is handed to someone else.
const ROUNDS: u32 = 64;

/// One wait after another.
#[derive(Debug, Default)]
pub(super) struct Spin(u32);

impl Spin {
    /// Waits a moment: at first in place, then by letting another thread run, which may be the one
    /// that holds the lock.
    pub(super) fn wait(&mut self) {
        if self.0 < ROUNDS && !cfg!(loom) {
            self.0 += 1;
            hint::spin_loop();
        } else {
            thread::yield_now();
        }
    }
}
