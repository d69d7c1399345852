//! Tables in shards, a lock for each: how many there are, and how limiters are found in one.

use std::hash::Hasher;

pub(super) const SHARDS: usize = 64;
/// Limiters looked at, whether they can go, whenever one is added.
pub(super) const LOOKED_AT_PER_ADDED: usize = 2;
/// The same when there is no room for one. Whoever looks next goes on where this one ended, so all
/// limiters come round.
pub(super) const LOOKED_AT_WHEN_FULL: usize = 32;

/// Fingerprints are hashes already.
#[derive(Debug, Default)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u128(&mut self, print: u128) {
        self.0 = (print >> 32) as u64;
    }
}
