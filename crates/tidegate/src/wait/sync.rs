//! Locks and atomics: the standard library's, or those of the model checker.

#[cfg(loom)]
pub(super) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicUsize, Ordering, fence},
};
#[cfg(not(loom))]
pub(super) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicUsize, Ordering, fence},
};
