//! The two kinds of key a table is asked by, both already there when the request comes in.

use crate::workload::Ask;
use std::hash::Hash;

/// Reads a table's key from a request, without allocating.
pub trait Key: Hash + Eq + Clone + Send + Sync + 'static {
    /// The key of `ask`.
    fn of(ask: &Ask) -> &Self;
}

impl Key for String {
    fn of(ask: &Ask) -> &Self {
        &ask.key
    }
}

impl Key for u64 {
    fn of(ask: &Ask) -> &Self {
        &ask.number
    }
}
