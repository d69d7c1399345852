//! The store's record of a limiter's leases: which units are taken that may come back.

use tidegate_core::Micros;

/// One lease in the record of its limiter. The script that takes the lease writes it, and giving back consumes it,
/// whichever server has the record by then; without the record nothing comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    pub(super) key: Vec<u8>,
    whose: [u8; 16],
}

impl LeaseRecord {
    /// The lease with this `ticket` of a `node`, in the record at `key`, which lives in the slot of the limiter's key.
    #[must_use]
    pub fn new(key: Vec<u8>, node: u64, ticket: u64) -> Self {
        let mut whose = [0; 16];
        whose[..8].copy_from_slice(&node.to_le_bytes());
        whose[8..].copy_from_slice(&(ticket as f64).to_le_bytes());
        Self { key, whose }
    }

    fn with(&self, numbers: [u64; 2]) -> Vec<u8> {
        let numbers = numbers.map(|number| (number as f64).to_le_bytes());
        [&self.whose[..], &numbers[0], &numbers[1]].concat()
    }

    /// The argument to take it. Leases of this node with tickets below `oldest` are dropped from the record.
    pub(super) fn to_take(&self, oldest: u64) -> Vec<u8> {
        self.with([oldest, 0])
    }

    /// The argument to give units back that count as taken `earlier`, so that `kept` units of it stay taken.
    pub(super) fn to_give_back(&self, kept: u64, earlier: Micros) -> Vec<u8> {
        self.with([kept, earlier.as_micros()])
    }
}
