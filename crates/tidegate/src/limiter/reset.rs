//! Making the limiter of one key as good as new.

use super::KeyedLimiter;
use crate::clock::Clock;

impl<C: Clock> KeyedLimiter<C> {
    /// Makes the key's limiter as good as new, and lets whoever waits for it go on.
    ///
    /// All other keys stay as they are. So does the limiter that keys without room share: a key that
    /// was decided there has none of its own to be made as new.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, KeyedLimiter, Micros, Spec};
    ///
    /// let per_user = KeyedLimiter::new(Spec::new(AlgorithmKind::FixedWindow, 1, Micros::from_secs(3600)))?;
    /// assert!(per_user.admits("alice", 1));
    /// assert!(!per_user.admits("alice", 1));
    /// per_user.reset("alice");
    /// assert!(per_user.admits("alice", 1));
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    pub fn reset(&self, key: impl AsRef<[u8]>) {
        let fingerprint = self.seed.of_bytes(key.as_ref());
        self.limiters.forget(fingerprint);
        self.queues.wake(&fingerprint);
    }
}
