//! The latest replies of the store about limiters, as long as they mean anything: denials, and the units left.
//!
//! Without the denials, a decision without the store would admit, out of this node's share, requests that the store has
//! just denied.

use std::num::NonZeroU64;

use tidegate_core::{Decision, Micros, Timestamp};

use crate::key::Fingerprint;
use crate::layers::recent::RecentReports;

/// The time for which a reply of the store holds that less than half of a limiter is left.
const LITTLE: Micros = Micros::from_millis(100);
/// The time for which a reply of the store holds that plenty is left; and the number of equal requests that counts as
/// plenty, which is more than all nodes admit within that time.
const PLENTY: (Micros, u64) = (Micros::from_millis(10), 10_000);

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

/// The news of a limiter for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Less than half is left.
    Little,
    /// Plenty is left.
    Plenty,
}

/// The units left of the limiters that the store reported lately: plenty for requests of a cost and of smaller ones, or
/// less than half.
#[derive(Debug)]
pub(super) struct Lefts(RecentReports<Option<NonZeroU64>>);

impl Lefts {
    pub(super) fn new() -> Self {
        Self(RecentReports::new())
    }

    /// Notes the units left after a reply of the store.
    pub(super) fn note(&self, fingerprint: Fingerprint, decision: &Decision, now: Timestamp) {
        let Decision { remaining, limit, .. } = *decision;
        let (left, holds) = if remaining.saturating_mul(2) < limit {
            (None, LITTLE)
        } else if let Some(cost) = NonZeroU64::new(remaining / PLENTY.1) {
            (Some(cost), PLENTY.0)
        } else {
            return self.forget(fingerprint);
        };
        self.0.note(fingerprint, left, now.plus(holds), |_| true);
    }

    /// Returns the knowledge about a limiter for a request of this cost; `None` if there is none.
    pub(super) fn news(&self, fingerprint: Fingerprint, cost: u64, now: Timestamp) -> Option<News> {
        match self.0.of(fingerprint, now)?.0 {
            None => Some(News::Little),
            Some(largest) => (cost <= largest.get()).then_some(News::Plenty),
        }
    }

    pub(super) fn forget(&self, fingerprint: Fingerprint) {
        self.0.forget(fingerprint);
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::Outcome;

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

    #[test]
    fn a_reply_of_little_or_of_plenty_holds_for_a_while_and_one_between_says_nothing() {
        let (lefts, known_by) = (Lefts::new(), Seed::random().of(b"ada"));
        let after = |us| Timestamp::from_micros(1_000).plus(Micros::from_micros(us));
        let note = |remaining, limit| {
            let outcome = Outcome::Allow { delay: Micros::ZERO };
            let decision = Decision { outcome, limit, remaining, reset_after: Micros::ZERO };
            lefts.note(known_by, &decision, after(0));
        };
        let known = |cost, us| {
            let news = lefts.news(known_by, cost, after(us));
            (news == Some(News::Little), news.is_some())
        };
        assert_eq!(known(1, 0), (false, false));
        note(49, 100);
        assert_eq!([known(1, 99_999), known(u64::MAX, 0)], [(true, true); 2]);
        assert_eq!(known(1, 100_000), (false, false));
        note(29_999, 40_000);
        assert_eq!([known(2, 9_999), known(3, 0)], [(false, true), (false, false)]);
        assert_eq!(known(2, 10_000), (false, false));
        note(49, 100);
        note(50, 100);
        assert_eq!(known(1, 0), (false, false));
        // The largest number that there is has no second meaning.
        note(u64::MAX, u64::MAX);
        assert_eq!(known(u64::MAX / 10_000, 0), (false, true));
    }
}
