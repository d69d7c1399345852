//! The units that a level has drained since a time, under the limits that were in force since then.
//!
//! All of these limits have one window W, so d * N / W units drain in d microseconds under a limit N. Sums of d * N are
//! whole numbers, and nothing is rounded before the end.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;

use crate::time::Timestamp;

/// The number of changes that are kept one by one.
const KEPT: usize = 8;

/// The limits that were in force before the present one, each until a time, oldest first. Before the oldest change that
/// is kept the fastest limit counts, so that less comes back, and never more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rates(Box<[Former]>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Former {
    limit: u64,
    until: Timestamp,
}

impl Rates {
    /// Notes that a limit was in force until `at`.
    pub fn end(&mut self, limit: u64, at: Timestamp) {
        if let Some(last) = self.0.last_mut().filter(|last| last.limit == limit) {
            last.until = at;
            return;
        }
        let mut new = Former { limit, until: at };
        // Changes are seldom, so the list is made again for each.
        let mut all = mem::take(&mut self.0).into_vec();
        if all.len() == KEPT {
            let oldest = all.remove(0);
            let next = all.first_mut().unwrap_or(&mut new);
            next.limit = next.limit.max(oldest.limit);
        }
        all.push(new);
        self.0 = all.into();
    }

    /// The rates of a level that drained under one of two, it is not known which: the faster at each time. Both end at
    /// the same time, or one has no change.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let mut times: Vec<_> = self.0.iter().chain(&other.0).map(|former| former.until).collect();
        times.sort_unstable();
        times.dedup();
        let mut both = Self::default();
        for until in times {
            both.end(self.limit_before(until).max(other.limit_before(until)), until);
        }
        both
    }

    fn limit_before(&self, at: Timestamp) -> u64 {
        // A list without this time has no change, and the other list has the limit.
        self.0.iter().find(|former| former.until >= at).map_or(0, |former| former.limit)
    }

    /// The units that drained from `since` until the last change, but not after `at`, times microseconds of the window;
    /// and when that change was.
    pub(crate) fn drained(&self, since: Timestamp, at: Timestamp) -> (u128, Timestamp) {
        // Below 2^53 us x 10^9 units in all, so that no sum overflows.
        let mut sum = 0_u128;
        let mut begin = since;
        for former in &self.0 {
            let end = former.until.min(at);
            sum += u128::from(end.since(begin).as_micros()) * u128::from(former.limit);
            // Limits that ended before `since` drained none of these units.
            begin = begin.max(end);
        }
        (sum, begin)
    }

    pub(crate) const fn heap_bytes(&self) -> usize {
        self.0.len() * size_of::<Former>()
    }

    pub(crate) const fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn forget(&mut self) {
        self.0 = Box::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(all: &[(u64, u64)]) -> Rates {
        let mut rates = Rates::default();
        all.iter().for_each(|(limit, until)| rates.end(*limit, Timestamp::from_micros(*until)));
        rates
    }

    fn drained(rates: &Rates, since: u64, at: u64) -> (u128, u64) {
        let [since, at] = [since, at].map(Timestamp::from_micros);
        let (sum, begin) = rates.drained(since, at);
        (sum, begin.as_micros())
    }

    #[test]
    fn each_limit_drains_until_it_ends() {
        let rates = of(&[(5, 100), (7, 110)]);
        assert_eq!(drained(&rates, 90, 200), (120, 110));
        assert_eq!(drained(&rates, 104, 200), (42, 110));
        assert_eq!(drained(&rates, 90, 105), (85, 105));
        assert_eq!(drained(&rates, 150, 200), (0, 150));
    }

    #[test]
    fn the_oldest_of_many_changes_count_as_the_fastest() {
        let all: Vec<_> = (1..=9).map(|number| (10 - number, 100 * number)).collect();
        assert_eq!(drained(&of(&all), 0, 1_000), (4_600, 900), "9 until 200 in place of 100");
        assert_eq!(of(&all).0.len(), KEPT);
        assert_eq!(of(&[(5, 100), (5, 110)]), of(&[(5, 110)]));
    }

    #[test]
    fn of_two_histories_the_faster_counts() {
        let both = of(&[(5, 100), (7, 200)]).or(&of(&[(6, 200)]));
        assert_eq!(drained(&both, 0, 300), (1_300, 200));
        assert_eq!(Rates::default().or(&both), both);
    }
}
