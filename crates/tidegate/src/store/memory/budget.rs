//! How many limiters a rule may keep, counted exactly over all of its tables.

use super::sync::{AtomicUsize, Ordering::Relaxed};

/// Limiters in existence, and the most there may be.
#[derive(Debug)]
pub(super) struct Budget {
    keys: AtomicUsize,
    most_keys: usize,
}

impl Budget {
    pub(super) fn new(most_keys: usize) -> Self {
        Self { keys: AtomicUsize::new(0), most_keys }
    }

    /// Counts one more limiter, if there may be one.
    pub(super) fn claim(&self) -> bool {
        let more = |keys| (keys < self.most_keys).then_some(keys + 1);
        self.keys.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    /// Counts `keys` limiters less.
    pub(super) fn release(&self, keys: usize) {
        if keys > 0 {
            self.keys.fetch_sub(keys, Relaxed);
        }
    }

    pub(super) fn keys(&self) -> usize {
        self.keys.load(Relaxed)
    }

    pub(super) const fn most_keys(&self) -> usize {
        self.most_keys
    }
}
