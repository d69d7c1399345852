//! Decides many keys in one call.

use super::KeyedLimiter;
use super::plans::CallRule;
use crate::clock::Clock;
use crate::key::{Fingerprint, Key};
use crate::step::Step;

/// Number of keys whose memory [`KeyedLimiter::check_many`] prefetches together.
const BATCH: usize = 16;

impl<C: Clock> KeyedLimiter<C> {
    /// Decides independent requests of one unit each, in order; returns for each whether it goes on.
    ///
    /// This is faster than separate calls if the limiters are not in the processor's caches: the
    /// memory of up to 16 keys is prefetched, and then they are decided. A limiter with plans decides its keys one by
    /// one, without prefetching.
    ///
    /// ```
    /// let limiter = tidegate::KeyedLimiter::new("2/h")?;
    /// let admitted = limiter.check_many(&["ada", "ada", "bob", "ada"]);
    /// assert_eq!(admitted, [true, true, true, false]);
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use = "the result says which requests were refused"]
    pub fn check_many<K: Key>(&self, keys: &[K]) -> Vec<bool> {
        if self.plans.is_some() {
            return keys.iter().map(|key| self.admits(key, 1)).collect();
        }
        let mut verdicts = Vec::with_capacity(keys.len());
        for batch in keys.chunks(BATCH) {
            let (early, clock) = self.reading(&self.clock).apart();
            let mut fingerprints = [Fingerprint::FIRST; BATCH];
            for (fingerprint, key) in fingerprints.iter_mut().zip(batch) {
                *fingerprint = self.seed.of(&key);
            }
            let fingerprints = &fingerprints[..batch.len()];
            std::hint::black_box(self.limiters.touch(fingerprints));
            let admits = |fingerprint| match self.queues.are_idle() {
                true => self.limiters.admits(fingerprint, 1, early, clock),
                false => {
                    let one = self.call(fingerprint, CallRule::Table, 1).step(Step::Decide);
                    one.verdict.is_allowed()
                }
            };
            verdicts.extend(fingerprints.iter().copied().map(admits));
        }
        verdicts
    }
}
