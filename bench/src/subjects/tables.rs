//! Tables that could have held the keyed limiters, each with the engine's kind of entry: a keyed
//! 128-bit fingerprint of the key and one word that is replaced by compare-and-swap.
//!
//! They answer which table to keep. None of them bounds its memory, reclaims, or holds several limiters at once; the
//! cost of these comes on top.

use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use super::Candidate;
use super::floor::{Clock, Micros, take};
use crate::cases::{Case, Shape};
use siphasher::sip128::{Hasher128, SipHasher13};

/// DashMap, papaya, and hashbrown in 64 shards with a mutex each.
pub fn offers(case: &Case) -> Vec<Candidate> {
    match case.shape {
        Shape::Keyed | Shape::HotKey => vec![
            keyed::<Dash>("table/dashmap"),
            keyed::<Papaya>("table/papaya"),
            keyed::<Sharded>("table/sharded hashbrown"),
        ],
        _ => Vec::new(),
    }
}

/// A table from fingerprints to words.
trait Table: Default + Send + Sync {
    /// Does `step` with the word of a fingerprint, which begins at zero.
    fn with(&self, print: u128, step: impl Fn(&AtomicU64) -> bool) -> bool;
}

fn keyed<T: Table + 'static>(name: &'static str) -> Candidate {
    let build = || (T::default(), Micros::start(), SipHasher13::new_with_keys(1, 2));
    Candidate::asked(name, build, |(table, clock, seed), ask| {
        let now = clock.read();
        let mut hasher = *seed;
        hasher.write(ask.key.as_bytes());
        table.with(hasher.finish128().as_u128(), |word| take(word, now))
    })
}

/// Fingerprints are hashes already.
#[derive(Default)]
struct Low(u64);

impl Hasher for Low {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u128(&mut self, print: u128) {
        self.0 = print as u64;
    }
}

type Hash = BuildHasherDefault<Low>;

#[derive(Default)]
struct Dash(dashmap::DashMap<u128, AtomicU64, Hash>);

impl Table for Dash {
    fn with(&self, print: u128, step: impl Fn(&AtomicU64) -> bool) -> bool {
        match self.0.get(&print) {
            Some(word) => step(&word),
            None => step(&self.0.entry(print).or_default()),
        }
    }
}

#[derive(Default)]
struct Papaya(papaya::HashMap<u128, AtomicU64, Hash>);

impl Table for Papaya {
    fn with(&self, print: u128, step: impl Fn(&AtomicU64) -> bool) -> bool {
        step(self.0.pin().get_or_insert_with(print, AtomicU64::default))
    }
}

struct Sharded(Vec<Mutex<std::collections::HashMap<u128, AtomicU64, Hash>>>);

impl Default for Sharded {
    fn default() -> Self {
        Self((0..64).map(|_| Mutex::default()).collect())
    }
}

impl Table for Sharded {
    fn with(&self, print: u128, step: impl Fn(&AtomicU64) -> bool) -> bool {
        let shard = &self.0[(print >> 64) as usize % self.0.len()];
        let mut words = shard.lock().unwrap_or_else(PoisonError::into_inner);
        step(words.entry(print).or_default())
    }
}
