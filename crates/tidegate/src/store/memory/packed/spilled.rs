//! Spilled states: a debt too large for the words of its place is kept next to the lines, under the same fingerprint.
//!
//! The first word of the place is then a mark, and every way to read a state ([`Packed::unpack`]) or write it
//! ([`Packed::words`]) looks for it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::{Algorithm, Timestamp};

use super::Packed;
use super::lines::SPILLED;
use crate::key::Fingerprint;
use crate::store::memory::common::Common;
use crate::store::memory::fixed::FixedEntry;
use crate::store::memory::parameters::{heap_bytes, stays_whole};

/// The spilled states of one table.
///
/// A state is accessed only with the chain of its fingerprint locked. The lock here protects only the map, and no
/// other lock is taken under it.
#[derive(Debug)]
pub(super) struct Spilled<R: Algorithm>(Mutex<BTreeMap<Fingerprint, R::State>>);

impl<R: Algorithm> Default for Spilled<R> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<R: Algorithm> Spilled<R> {
    /// The bytes counted for a state that remembers nothing: nodes of the map are at least half full.
    pub(super) const BYTES: usize = 3 * size_of::<(Fingerprint, R::State)>();

    /// The bytes counted for a state.
    fn bytes(common: &Common<FixedEntry<R>>, state: &R::State) -> usize {
        Self::BYTES + heap_bytes(&common.rules.algorithm, state)
    }

    pub(super) fn get(&self, fingerprint: Fingerprint) -> Option<R::State> {
        self.lock().get(&fingerprint).cloned()
    }

    /// Keeps a state, if it was kept before, or there is memory for it, or it is kept `always`; returns whether it is kept.
    pub(super) fn keep(
        &self,
        common: &Common<FixedEntry<R>>,
        fingerprint: Fingerprint,
        state: &R::State,
        always: bool,
    ) -> bool {
        let mut states = self.lock();
        let bytes = Self::bytes(common, state);
        let before = states.get(&fingerprint).map(|before| Self::bytes(common, before));
        // A state that is kept may grow without room: to drop it would forgive a debt.
        if before.is_some() || always {
            common.budget.resize(before.unwrap_or(0), bytes);
        } else if !common.budget.claim_bytes(bytes) {
            return false;
        }
        states.insert(fingerprint, state.clone());
        true
    }

    pub(super) fn forget(&self, common: &Common<FixedEntry<R>>, fingerprint: Fingerprint) {
        if let Some(state) = self.lock().remove(&fingerprint) {
            common.budget.resize(Self::bytes(common, &state), 0);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Fingerprint, R::State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Algorithm, const PLACES: usize, const WORDS: usize> Packed<R, PLACES, WORDS> {
    /// The words of a limiter whose state is spilled.
    pub(super) const SPILLED: [u64; WORDS] = {
        let mut words = [0; WORDS];
        words[0] = SPILLED;
        words
    };

    /// Returns whether the words of a state would cut it off.
    fn is_cut(&self, state: &R::State, now: Timestamp) -> bool {
        !stays_whole::<_, WORDS>(&self.common.rules.algorithm, self.base, state, now)
    }

    /// Returns the words for a state from another table. A state that would be cut off is spilled, even without memory
    /// for it.
    pub(super) fn words_of_moved(
        &self,
        fingerprint: Fingerprint,
        state: &R::State,
        at: Timestamp,
    ) -> [u64; WORDS] {
        if !self.is_cut(state, at) {
            return self.pack(state);
        }
        self.spilled.keep(&self.common, fingerprint, state, true);
        Self::SPILLED
    }

    /// Spills a state if its words would cut it off, and if there is memory for it; returns whether it is spilled.
    #[cold]
    pub(super) fn spill(&self, fingerprint: Fingerprint, state: &R::State, now: Timestamp) -> bool {
        self.is_cut(state, now) && self.spilled.keep(&self.common, fingerprint, state, false)
    }
}
