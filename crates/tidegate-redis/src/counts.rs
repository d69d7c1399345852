//! Counts of requests to Redis by their fate, and the times of overload.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

use crate::store::StoreCounts;
use tidegate_store::counters::Histogram;

/// An overload has ended when every request was decided in time for this long.
const CALM: Duration = Duration::from_secs(1);

/// Counts since the start, which the store's thread and callers write.
#[derive(Debug, Default)]
pub(crate) struct RequestCounts {
    /// Requests that went to the store in one call with others.
    pub(crate) merged: AtomicU64,
    /// Requests whose answer came too late.
    pub(crate) late: AtomicU64,
    /// Requests whose units were given back because their answer came too late.
    pub(crate) undone: AtomicU64,
    /// Units that were given back because a reply was late, or another slot refused.
    pub(crate) undone_units: AtomicU64,
    /// Units of such requests that could not be given back.
    pub(crate) not_undone_units: AtomicU64,
    /// Units of late replies to requests that had been admitted without the store.
    pub(crate) late_units_admitted: AtomicU64,
    /// Units of requests that never got a reply.
    pub(crate) unanswered_units: AtomicU64,
    /// Requests that the store did not decide because there was more load than it decides in time.
    pub(crate) overloaded: AtomicU64,
    /// Calls that failed.
    pub(crate) failed: AtomicU64,
    /// The time from sending calls to their answers.
    pub(crate) calls: Histogram,
    /// Calls that were sent and not answered yet.
    pub(crate) under_way: AtomicU64,
    /// The same, of calls that callers send themselves.
    pub(crate) direct: AtomicU64,
    overload: Mutex<Option<Overload>>,
}

/// A time in which the store does not decide every request.
#[derive(Clone, Copy, Debug)]
struct Overload {
    last: Instant,
    before: u64,
}

impl RequestCounts {
    /// Returns the counts as they are now.
    pub(crate) fn read(&self) -> StoreCounts {
        let mut counts = StoreCounts::default();
        counts.under_way = self.under_way.load(Relaxed) + self.direct.load(Relaxed);
        counts.merged = self.merged.load(Relaxed);
        counts.late = self.late.load(Relaxed);
        counts.undone = self.undone.load(Relaxed);
        counts.undone_units = self.undone_units.load(Relaxed);
        counts.not_undone_units = self.not_undone_units.load(Relaxed);
        counts.late_units_admitted = self.late_units_admitted.load(Relaxed);
        counts.unanswered_units = self.unanswered_units.load(Relaxed);
        counts.failed = self.failed.load(Relaxed);
        counts.calls = self.calls.read();
        counts
    }

    pub(crate) fn add(counter: &AtomicU64, count: usize) {
        if count > 0 {
            counter.fetch_add(count as u64, Relaxed);
        }
    }

    /// Notes that a request was not decided because of overload; returns whether it is the second
    /// one, with which an overload is reported: one late request alone may be chance.
    pub(super) fn overloaded(&self, now: Instant) -> bool {
        let mut overload = self.overload.lock().unwrap_or_else(PoisonError::into_inner);
        // Counted under the lock, so that exactly one caller sees the second request of an overload.
        let before = self.overloaded.fetch_add(1, Relaxed);
        let since = overload.map_or(before, |overload| overload.before);
        *overload = Some(Overload { last: now, before: since });
        before.saturating_sub(since) == 1
    }

    /// Returns whether an overload lasts.
    pub(super) fn is_overloaded(&self) -> bool {
        self.overload.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Returns how many requests the store did not decide in an overload that was reported and has
    /// ended by now.
    pub(super) fn overload_ended(&self, now: Instant) -> Option<u64> {
        let mut overload = self.overload.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = overload.filter(|overload| now.duration_since(overload.last) >= CALM)?;
        *overload = None;
        let undecided = self.overloaded.load(Relaxed).saturating_sub(ended.before);
        (undecided > 1).then_some(undecided)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overload_begins_once_and_ends_when_it_was_calm_for_a_second() {
        let (counts, start) = (RequestCounts::default(), Instant::now());
        let reported = [0, 1, 1].map(|half| counts.overloaded(start + half * CALM / 2));
        assert_eq!(reported, [false, true, false]);
        assert_eq!(counts.overload_ended(start + CALM), None);
        assert_eq!(counts.overload_ended(start + 2 * CALM), Some(3));
        assert!(!counts.is_overloaded());
        assert!(!counts.overloaded(start + 3 * CALM) && counts.is_overloaded());
        assert_eq!(counts.overload_ended(start + 5 * CALM), None, "one alone is not reported");
        let reported = [6, 6].map(|calms| counts.overloaded(start + calms * CALM));
        assert_eq!(reported, [false, true], "it is another overload");
    }
}
