//! The migration of packed limiters from a table into its successor.

use tidegate_core::{Algorithm, Rule, Timestamp};

use super::Packed;
use crate::key::Fingerprint;
use crate::store::memory::entry::Entry;
use crate::store::memory::fixed::FixedEntry;
use crate::store::memory::leaving::{Leaving, bytes_under};
use crate::store::memory::table::Migrate;

impl<R: Algorithm, const PLACES: usize, const WORDS: usize> Migrate for Packed<R, PLACES, WORDS> {
    fn fingerprints(&self, part: usize) -> Option<Vec<Fingerprint>> {
        Some(self.chains.limiters(part)?.into_iter().map(|(fingerprint, _)| fingerprint).collect())
    }

    fn take_out(&self, fingerprint: Fingerprint) -> Option<Box<dyn Leaving>> {
        let chain = self.chains.lock(fingerprint)?;
        let place = chain.find(fingerprint)?;
        let (words, state) = (place.state(), self.unpack(fingerprint, place.state()));
        self.forget_spilled(fingerprint, words);
        chain.clear(place);
        self.budget.resize(Self::BYTES, 0);
        FixedEntry(Some(state)).leave(&self.rules, &self.succession.rule)
    }

    fn take_overflow(&self) -> Option<Box<dyn Leaving>> {
        self.overflow.take(&self.budget)?.leave(&self.rules, &self.succession.rule)
    }

    fn adopt(&self, fingerprint: Fingerprint) {
        let Some(chain) = self.chains.lock(fingerprint) else { return };
        self.move_to(&chain, fingerprint);
        drop(chain);
        if self.chains.are_full(self.budget.keys()) {
            self.chains.grow();
        }
    }

    fn adopt_overflow(&self) {
        self.overflow.adopt(&self.rules, &self.budget, &self.succession);
    }

    fn weigh(&self, rule: &Rule, at: Timestamp) -> (usize, usize) {
        let (mut bytes, mut count) = (0_usize, 0);
        for limiters in (0..).map_while(|number| self.chains.limiters(number)) {
            count += limiters.len();
            let state = |(fingerprint, words)| self.unpack(fingerprint, words);
            let states = &mut limiters.into_iter().map(state);
            bytes = bytes.saturating_add(bytes_under(&self.rules.algorithm, states, rule, at));
        }
        (bytes, count)
    }

    fn is_idle(&self, now: Timestamp) -> bool {
        (0..self.chains.count()).for_each(|number| {
            self.chains
                .lock_number(number)
                .iter()
                .for_each(|chain| _ = self.sweep_chain(chain, now));
        });
        self.budget.keys() == 0 && self.overflow.is_idle(&self.rules, now)
    }
}
