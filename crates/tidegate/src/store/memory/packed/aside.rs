//! Debts too large for a word: their states whole, aside of the lines, under the same fingerprints.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::Room;

use crate::key::Fingerprint;
use crate::store::memory::budget::Budget;

/// The word of a limiter whose state is kept aside: the bit that packed states leave free.
pub(super) const ASIDE: u64 = 1 << 63;

/// The states of one table that are kept whole.
///
/// One is read and written only by who has locked the chain of its fingerprint; the lock here is but for
/// the map, and the last that anybody takes.
#[derive(Debug)]
pub(super) struct Aside<R: Room>(Mutex<BTreeMap<Fingerprint, R::State>>);

impl<R: Room> Default for Aside<R> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<R: Room> Aside<R> {
    /// What a state is accounted for: nodes of the map are half full at least.
    pub(super) const BYTES: usize = 3 * size_of::<(Fingerprint, R::State)>();

    pub(super) fn get(&self, print: Fingerprint) -> Option<R::State> {
        self.lock().get(&print).cloned()
    }

    /// Keeps a state, if it was kept before or there is memory for it; answers whether it is.
    pub(super) fn keep(&self, print: Fingerprint, state: &R::State, budget: &Budget) -> bool {
        let mut states = self.lock();
        let keeps = states.contains_key(&print) || budget.claim_bytes(Self::BYTES);
        if keeps {
            states.insert(print, state.clone());
        }
        keeps
    }

    /// Keeps a state that was another table's, whatever memory there is.
    pub(super) fn inherit(&self, print: Fingerprint, state: &R::State, budget: &Budget) {
        budget.resize(0, Self::BYTES);
        self.lock().insert(print, state.clone());
    }

    pub(super) fn forget(&self, print: Fingerprint, budget: &Budget) {
        if self.lock().remove(&print).is_some() {
            budget.resize(Self::BYTES, 0);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Fingerprint, R::State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
