//! Locks and atomics of the standard library or of the model checker.

#[cfg(loom)]
pub(super) use loom::sync::{
    Mutex, MutexGuard, RwLock,
    atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
};
#[cfg(not(loom))]
pub(super) use std::sync::{
    Mutex, MutexGuard, RwLock,
    atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
};
