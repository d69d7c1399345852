//! Idle limiters are dropped, a few chains at a time.

use tidegate_core::{Algorithm, Timestamp};

use super::Packed;
use super::chains::Chain;
use crate::store::memory::sync::Ordering::Relaxed;

impl<R: Algorithm, const PLACES: usize, const WORDS: usize> Packed<R, PLACES, WORDS> {
    /// Drops idle limiters from the next few unlocked chains; returns their number.
    pub(super) fn sweep(&self, chains: u32, now: Timestamp) -> usize {
        let mut swept = 0;
        for _ in 0..chains {
            let number = self.next_swept.fetch_add(1, Relaxed) % self.chains.count();
            if let Some(chain) = self.chains.try_lock(number) {
                swept += self.sweep_chain(&chain, now);
            }
        }
        swept
    }

    /// Drops idle limiters from a locked chain; returns their number.
    pub(super) fn sweep_chain(&self, chain: &Chain<'_, PLACES, WORDS>, now: Timestamp) -> usize {
        let swept = chain.sweep(|fingerprint, words| {
            let goes = self.rules.algorithm.is_idle(&self.unpack(fingerprint, words), now);
            if goes {
                self.forget_spilled(fingerprint, words);
            }
            goes
        });
        self.budget.resize(swept * Self::BYTES, 0);
        self.budget.release_idle(swept);
        swept
    }
}
