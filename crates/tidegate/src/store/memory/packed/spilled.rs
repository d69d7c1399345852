//! Debts too large for a word: their states whole, aside of the lines, under the same fingerprints.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::Algorithm;

use crate::key::Fingerprint;
use crate::store::memory::budget::Budget;

/// The word of a limiter whose state is kept spilled: the bit that packed states leave free.
pub(super) const SPILLED: u64 = 1 << 63;

/// The states of one table that are kept whole.
///
/// One is read and written only by who has locked the chain of its fingerprint; the lock here is but for
/// the map, and the last that anybody takes.
#[derive(Debug)]
pub(super) struct Spilled<R: Algorithm>(Mutex<BTreeMap<Fingerprint, R::State>>);

impl<R: Algorithm> Default for Spilled<R> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<R: Algorithm> Spilled<R> {
    /// What a state is accounted for: nodes of the map are half full at least.
    pub(super) const BYTES: usize = 3 * size_of::<(Fingerprint, R::State)>();

    pub(super) fn get(&self, fingerprint: Fingerprint) -> Option<R::State> {
        self.lock().get(&fingerprint).cloned()
    }

    /// Keeps a state, if it was kept before or there is memory for it; answers whether it is.
    pub(super) fn keep(&self, fingerprint: Fingerprint, state: &R::State, budget: &Budget) -> bool {
        let mut states = self.lock();
        let keeps = states.contains_key(&fingerprint) || budget.claim_bytes(Self::BYTES);
        if keeps {
            states.insert(fingerprint, state.clone());
        }
        keeps
    }

    /// Keeps a state that was another table's, whatever memory there is.
    pub(super) fn adopt(&self, fingerprint: Fingerprint, state: &R::State, budget: &Budget) {
        budget.resize(0, Self::BYTES);
        self.lock().insert(fingerprint, state.clone());
    }

    pub(super) fn forget(&self, fingerprint: Fingerprint, budget: &Budget) {
        if self.lock().remove(&fingerprint).is_some() {
            budget.resize(Self::BYTES, 0);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Fingerprint, R::State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
