//! The units left of limiters by the last replies of the store, as long as they mean anything.

use std::num::NonZeroU64;

use tidegate_core::{Decision, Micros, Timestamp};

use crate::key::Fingerprint;
use crate::layers::recent::RecentReports;

/// The time for which a reply of the store holds that less than half of a limiter is left.
const LITTLE: Micros = Micros::from_millis(100);
/// The time for which a reply of the store holds that plenty is left; and the number of equal requests that counts as
/// plenty, which is more than all nodes admit within that time.
const PLENTY: (Micros, u64) = (Micros::from_millis(10), 10_000);

/// The units left of a limiter.
#[derive(Clone, Copy, Debug, Default)]
enum UnitsLeft {
    /// Less than half.
    #[default]
    Little,
    /// Plenty for requests of this cost and smaller ones.
    Plenty(NonZeroU64),
}

/// The news of a limiter for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Less than half is left.
    Little,
    /// Plenty is left.
    Plenty,
}

/// The units left of the limiters that the store reported lately.
#[derive(Debug)]
pub(super) struct Lefts(RecentReports<UnitsLeft>);

impl Lefts {
    pub(super) fn new() -> Self {
        Self(RecentReports::new())
    }

    /// Notes the units left after a reply of the store.
    pub(super) fn note(&self, fingerprint: Fingerprint, decision: &Decision, now: Timestamp) {
        let Decision { remaining, limit, .. } = *decision;
        let (left, holds) = if remaining.saturating_mul(2) < limit {
            (UnitsLeft::Little, LITTLE)
        } else if let Some(cost) = NonZeroU64::new(remaining / PLENTY.1) {
            (UnitsLeft::Plenty(cost), PLENTY.0)
        } else {
            return self.forget(fingerprint);
        };
        self.0.note(fingerprint, left, now.plus(holds), |_| true);
    }

    /// Returns the knowledge about a limiter for a request of this cost; `None` if there is none.
    pub(super) fn news(&self, fingerprint: Fingerprint, cost: u64, now: Timestamp) -> Option<News> {
        match self.0.of(fingerprint, now)?.0 {
            UnitsLeft::Little => Some(News::Little),
            UnitsLeft::Plenty(largest) => (cost <= largest.get()).then_some(News::Plenty),
        }
    }

    pub(super) fn forget(&self, fingerprint: Fingerprint) {
        self.0.forget(fingerprint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Seed;
    use tidegate_core::Outcome;

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
