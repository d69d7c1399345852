//! Locks and atomics of the standard library or of the model checker.

#[cfg(loom)]
pub(super) use loom::sync::{
    Mutex, MutexGuard, RwLock,
    atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};
#[cfg(not(loom))]
pub(super) use std::sync::{
    Mutex, MutexGuard, RwLock,
    atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};
#[cfg(not(loom))]
use std::{hint, thread};

#[cfg(loom)]
use loom::{hint, thread};

/// Rounds of spinning before the thread yields the processor.
const ROUNDS: u32 = 64;

/// Waits for another thread that works for less than a microsecond.
pub(super) fn spin_until(mut is_done: impl FnMut() -> bool) {
    let mut rounds = 0;
    while !is_done() {
        // A thread that takes longer is not running, and needs the processor. Under the model checker always, because no
        // other thread runs while this thread spins.
        if rounds == ROUNDS || cfg!(loom) {
            thread::yield_now();
        } else {
            rounds += 1;
            hint::spin_loop();
        }
    }
}
