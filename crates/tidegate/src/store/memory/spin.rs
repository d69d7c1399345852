//! Waiting for a lock that is held for less than a microsecond.

#[cfg(loom)]
use loom::{hint, thread};
#[cfg(not(loom))]
use std::{hint, thread};

/// Rounds of spinning before the thread yields the processor.
const ROUNDS: u32 = 64;

/// The state of one wait: the number of rounds.
#[derive(Debug, Default)]
pub(super) struct Spin(u32);

impl Spin {
    /// Waits a moment: spins at first, then yields to another thread, which may hold the lock.
    pub(super) fn wait(&mut self) {
        if self.0 < ROUNDS && !cfg!(loom) {
            self.0 += 1;
            hint::spin_loop();
        } else {
            // Under the model checker always, because no other thread runs while this thread spins.
            thread::yield_now();
        }
    }
}
