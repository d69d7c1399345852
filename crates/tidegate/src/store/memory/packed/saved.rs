//! Packed limiters in a snapshot.

use std::io;

use tidegate_core::{Algorithm, Timestamp};

use super::Packed;
use crate::clock::Clock;
use crate::key::Fingerprint;
use crate::snapshot::Records;
use crate::store::memory::entry::Entry;
use crate::store::memory::fixed::FixedEntry;
use crate::store::memory::leaving::Leaving;
use crate::store::memory::table::{Restored, Save};

impl<R: Algorithm, const PLACES: usize, const WORDS: usize> Save for Packed<R, PLACES, WORDS> {
    /// One chain at a time. If a chain is split during the save, the limiters that leave it go to a later chain.
    fn save(&self, clock: &dyn Clock, records: &mut Records<'_, '_>) -> io::Result<()> {
        let has_any = self.budget.keys() > 0;
        for number in (0..).take_while(|number| has_any && *number < self.chains.count()) {
            if let Some(chain) = self.chains.lock_number(number) {
                // The time of the last unit is not kept; it was not after this.
                let last = clock.now();
                for (fingerprint, words) in chain.limiters() {
                    let state = self.unpack(fingerprint, words);
                    records.add(Some(fingerprint), &self.rules.algorithm, &state, last);
                }
            }
            records.write()?;
        }
        self.overflow.save(&self.rules, records);
        records.write()
    }

    fn restore(
        &self,
        fingerprint: Option<Fingerprint>,
        left: Box<dyn Leaving>,
        at: Timestamp,
    ) -> Restored {
        let (rule, algorithm) = (&self.succession.rule, &self.rules.algorithm);
        let Some(fingerprint) = fingerprint else {
            let is_used = self.overflow.restore(&self.rules, &self.budget, left, rule, at);
            return if is_used { Restored::Kept } else { Restored::Idle };
        };
        let adopted = FixedEntry::<R>::adopt(&self.rules, left, rule, at);
        let Some(mut state) = adopted.and_then(|entry| entry.0) else { return Restored::Idle };
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
        if self.chains.are_full(self.budget.keys()) {
            self.chains.grow();
        }
        Restored::Kept
    }
}
