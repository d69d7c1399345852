//! The migration of packed limiters from a table into its successor, and out of and into snapshots.

use std::io;

use tidegate_core::{Algorithm, Rule, Timestamp};

use super::Packed;
use crate::clock::Clock;
use crate::key::Fingerprint;
use crate::snapshot::Records;
use crate::store::memory::fixed::FixedEntry;
use crate::store::memory::leaving::{Leaving, bytes_under};
use crate::store::memory::table::{Migrate, Restored};

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
        self.common.budget.resize(Self::BYTES, 0);
        self.common.leaving(FixedEntry(Some(state)))
    }

    fn adopt(&self, fingerprint: Fingerprint) {
        let Some(chain) = self.chains.lock(fingerprint) else { return };
        self.move_to(&chain, fingerprint);
        drop(chain);
        if self.chains.are_full(self.common.budget.keys()) {
            self.chains.grow();
        }
    }

    fn weigh(&self, rule: &Rule, at: Timestamp) -> (usize, usize) {
        let (mut bytes, mut count) = (0_usize, 0);
        for limiters in (0..).map_while(|number| self.chains.limiters(number)) {
            count += limiters.len();
            let state = |(fingerprint, words)| self.unpack(fingerprint, words);
            let states = &mut limiters.into_iter().map(state);
            bytes =
                bytes.saturating_add(bytes_under(&self.common.rules.algorithm, states, rule, at));
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
        self.common.budget.keys() == 0 && self.common.is_overflow_idle(now)
    }

    /// One chain at a time. If a chain is split during the save, the limiters that leave it go to a later chain.
    fn save(&self, clock: &dyn Clock, records: &mut Records<'_, '_>) -> io::Result<()> {
        let has_any = self.common.budget.keys() > 0;
        for number in (0..).take_while(|number| has_any && *number < self.chains.count()) {
            if let Some(chain) = self.chains.lock_number(number) {
                // The time of the last unit is not kept; it was not after this.
                let last = clock.now();
                for (fingerprint, words) in chain.limiters() {
                    let state = self.unpack(fingerprint, words);
                    records.add(Some(fingerprint), &self.common.rules.algorithm, &state, last);
                }
            }
            records.write()?;
        }
        self.common.save_overflow(records);
        records.write()
    }

    fn restore(
        &self,
        fingerprint: Option<Fingerprint>,
        left: Box<dyn Leaving>,
        at: Timestamp,
    ) -> Restored {
        let Some(fingerprint) = fingerprint else {
            return self.common.restore_overflow(left, at);
        };
        let adopted = self.common.adopted(left, at);
        let Some(mut state) = adopted.and_then(|entry| entry.0) else { return Restored::Idle };
        let algorithm = &self.common.rules.algorithm;
        // From now on the state has no last unit that would reveal a clock gone back.
        algorithm.advance(&mut state, at);
        if algorithm.is_idle(&state, at) {
            return Restored::Idle;
        }
        let Some(chain) = self.chains.lock(fingerprint) else { return Restored::WithoutSpace };
        if let Some(earlier) = chain.find(fingerprint) {
            self.store(&chain, earlier, fingerprint, [0; WORDS]);
        }
        if !self.claim(0) {
            return Restored::WithoutSpace;
        }
        self.add(&chain, fingerprint, self.words_of_moved(fingerprint, &state, at));
        drop(chain);
        if self.chains.are_full(self.common.budget.keys()) {
            self.chains.grow();
        }
        Restored::Kept
    }
}
