//! A random time that spreads callers who would come back together.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// A random time up to a bound, added to a wait.
///
/// Callers who were refused by one limit often get the same wait, as at the end of a fixed window, and come back in one
/// moment. With jitter they come back spread over the bound. A wait is never made shorter, and never longer than by the
/// bound. Waiters in a queue (`acquire`) are served in order and one after the other, and need none.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Jitter, Limiter};
///
/// let limiter = Limiter::new("1/m")?;
/// let jitter = Jitter::up_to(Duration::from_secs(5));
/// assert!(limiter.admits(1));
/// if let Some(wait) = limiter.check(1).retry_after() {
///     let spread = jitter.after(wait);
///     assert!(spread >= wait && spread <= wait + Duration::from_secs(5));
/// }
/// # Ok::<(), tidegate::RuleErrors>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jitter {
    most: Duration,
}

impl Jitter {
    /// Creates jitter of at most this length; zero adds nothing. A part below a microsecond is ignored.
    #[must_use]
    pub const fn up_to(most: Duration) -> Self {
        Self { most }
    }

    /// Returns `wait` plus a random time from zero to the bound, drawn again for each call; at most [`Duration::MAX`].
    #[must_use]
    pub fn after(self, wait: Duration) -> Duration {
        let most = u64::try_from(self.most.as_micros()).unwrap_or(u64::MAX);
        // A state of its own for each call, with keys that no client can choose.
        let random = RandomState::new().hash_one(0_u8);
        // 64 random bits scaled to the range; a remainder would prefer small numbers.
        let extra = (u128::from(random) * (u128::from(most) + 1)) >> 64;
        wait.saturating_add(Duration::from_micros(extra as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_never_shorter_nor_longer_than_by_the_bound_and_each_third_of_it_occurs() {
        let (wait, most) = (Duration::from_millis(700), Duration::from_micros(299));
        let mut thirds = [0_u32; 3];
        for _ in 0..3_000 {
            let spread = Jitter::up_to(most).after(wait);
            assert!(spread >= wait && spread <= wait + most, "{spread:?}");
            let third = (spread - wait).as_micros() / 100;
            thirds[third as usize] += 1;
        }
        assert!(thirds.iter().all(|count| *count > 500), "{thirds:?}");
    }

    #[test]
    fn the_ends_of_the_range() {
        let (none, whole) = (Jitter::up_to(Duration::ZERO), Jitter::up_to(Duration::MAX));
        assert_eq!(none.after(Duration::from_secs(1)), Duration::from_secs(1));
        assert_eq!(whole.after(Duration::MAX), Duration::MAX);
        assert_ne!(whole.after(Duration::ZERO), whole.after(Duration::ZERO));
    }
}
