//! Limiters that the store lately denied, and until when.
//!
//! Without this, a decision without the store would admit, out of this node's share, requests that the store has
//! just denied.

use tidegate_core::{Micros, Timestamp};

use crate::key::Fingerprint;
use crate::layers::recent::RecentReports;

/// The known denials: the smallest denied cost of each limiter.
#[derive(Debug)]
pub(super) struct Denied(RecentReports<u64>);

/// A known denial of a limiter: `cost` and more are denied for `wait` from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownDenial {
    pub(crate) cost: u64,
    pub(crate) wait: Micros,
}

impl Denied {
    pub(super) fn new() -> Self {
        Self(RecentReports::new())
    }

    /// Notes that the store denied a limiter this cost until a time. A denial of a cost no larger that still
    /// lasts stays.
    pub(super) fn note(
        &self,
        fingerprint: Fingerprint,
        cost: u64,
        now: Timestamp,
        until: Timestamp,
    ) {
        self.0.note(fingerprint, cost, until, |last| {
            last.is_none_or(|(known, ends)| cost <= known || ends <= now)
        });
    }

    /// Returns the known denial that holds for `cost` now; `None` if there is none.
    pub(super) fn of(
        &self,
        fingerprint: Fingerprint,
        cost: u64,
        now: Timestamp,
    ) -> Option<KnownDenial> {
        let (denied, wait) = self.0.of(fingerprint, now)?;
        (denied <= cost).then_some(KnownDenial { cost: denied, wait })
    }

    /// Forgets the denial of a limiter, because units were given back to it.
    pub(super) fn forget(&self, fingerprint: Fingerprint) {
        self.0.forget(fingerprint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Seed;

    fn at(us: u64) -> Timestamp {
        Timestamp::from_micros(us)
    }

    fn known(cost: u64, wait: u64) -> Option<KnownDenial> {
        Some(KnownDenial { cost, wait: Micros::from_micros(wait) })
    }

    #[test]
    fn a_denial_holds_for_its_cost_and_more_until_it_ends() {
        let (denials, fingerprint) = (Denied::new(), Seed::random().of(b"ada"));
        assert_eq!(denials.of(fingerprint, 5, at(10)), None);
        denials.note(fingerprint, 3, at(10), at(100));
        assert_eq!(denials.of(fingerprint, 2, at(10)), None);
        assert_eq!(denials.of(fingerprint, 3, at(10)), known(3, 90));
        assert_eq!(denials.of(fingerprint, 9, at(99)), known(3, 1));
        assert_eq!(denials.of(fingerprint, 9, at(100)), None);
        denials.forget(fingerprint);
        assert_eq!(denials.of(fingerprint, 9, at(50)), None);
    }

    #[test]
    fn the_denial_of_a_smaller_cost_is_kept_while_it_lasts() {
        let (denials, fingerprint) = (Denied::new(), Seed::random().of(b"ada"));
        denials.note(fingerprint, 3, at(0), at(100));
        denials.note(fingerprint, 8, at(10), at(500));
        assert_eq!(denials.of(fingerprint, 8, at(20)), known(3, 80));
        denials.note(fingerprint, 1, at(30), at(60));
        assert_eq!(denials.of(fingerprint, 2, at(40)), known(1, 20));
        denials.note(fingerprint, 8, at(60), at(500));
        assert_eq!(
            (denials.of(fingerprint, 7, at(70)), denials.of(fingerprint, 8, at(70))),
            (None, known(8, 430))
        );
    }
}
