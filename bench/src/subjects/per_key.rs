//! A limiter that has no table of its own, put into a `DashMap`, as users of such crates do.
//!
//! Known keys are looked up under a shard's read lock by reference; the key is cloned (a `String`
//! allocates) only at its first request.

use super::Subject;
use super::key::Key;
use crate::workload::Ask;
use dashmap::DashMap;

/// One limiter per key, made by `new` at the key's first request.
pub struct PerKey<K, L, F> {
    table: DashMap<K, L>,
    new: F,
}

impl<K: Key, L, F> PerKey<K, L, F> {
    /// An empty table.
    pub fn new(new: F) -> Self {
        Self { table: DashMap::new(), new }
    }
}

impl<K, L, F> Subject for PerKey<K, L, F>
where
    K: Key,
    L: Subject,
    F: Fn() -> L + Send + Sync,
{
    fn decide(&self, ask: &Ask) -> bool {
        let key = K::of(ask);
        if let Some(limiter) = self.table.get(key) {
            return limiter.decide(ask);
        }
        self.table.entry(key.clone()).or_insert_with(&self.new).decide(ask)
    }
}
