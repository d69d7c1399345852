//! Counts of requests to the store by their fate, and the times of overload.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

use crate::stats::{Durations, Histogram};

/// An overload has ended when every request was decided in time for this long.
const CALM: Duration = Duration::from_secs(1);

/// Counts of requests to a shared store by their fate, since the gate was made; except
/// [`under_way`](StoreCounts::under_way).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreCounts {
    /// Calls that were sent and not yet answered.
    pub under_way: u64,
    /// Requests that went to the store in one call with others.
    pub merged: u64,
    /// Requests that were refused without asking the store, because it had just denied them.
    pub denied_again: u64,
    /// Units that were leased: taken ahead from the store, to be spent by this process.
    pub leased: u64,
    /// Leased units that admitted requests.
    pub leased_spent: u64,
    /// Leased units that the store got back unspent.
    pub leased_returned: u64,
    /// Leased units that were neither spent nor given back: the store lost the record of their lease, their limiter was
    /// reset or its rule counts in another way by now, they were given back after their window had ended, or the store did
    /// not reply for as long as they counted.
    pub leased_expired: u64,
    /// Of these, units whose window, bucket or tick had ended when they were given back.
    pub leased_too_late: u64,
    /// Of these, units whose rule counted in another way by then.
    pub leased_changed: u64,
    /// Of these, units of leases that the store had no record of: it lost data, or the limiter was reset.
    pub leased_unrecorded: u64,
    /// Of these, units that the store did not say it has back: it may have.
    pub leased_unanswered: u64,
    /// Leases that were granted in time.
    pub leases_granted: u64,
    /// Leases that the store refused: too few units were left, it had no room, or the limiter has other values.
    pub leases_refused: u64,
    /// Leases that were granted too late to be spent, or after their limiter was reset or its rule changed.
    pub leases_late: u64,
    /// Questions for a lease that got no reply.
    pub leases_unanswered: u64,
    /// Shares that were asked for as one ended, without a request; they are among the leases above.
    pub shares_renewed: u64,
    /// Requests that were decided without the store because it was unavailable.
    pub unavailable: u64,
    /// Requests that were decided in process because there was more load than the store decides in time.
    pub local: u64,
    /// Requests that were refused because there was more load than the store decides in time.
    pub shed: u64,
    /// Requests whose answer came too late.
    pub late: u64,
    /// Late requests whose units were given back.
    pub undone: u64,
    /// Units that a limiter got back because a reply was late, or because another slot refused the request. Units
    /// are counted for each limiter that they were taken from, here and in the next fields.
    pub undone_units: u64,
    /// Units of such requests that could not be given back, and that no caller got: the connection of the reply was
    /// gone, its server did not take them back, the rule had changed, or a queue had assigned later slots.
    pub not_undone_units: u64,
    /// Units of late replies to requests that had been admitted without the store by then.
    pub late_units_admitted: u64,
    /// Units of requests that were sent and never got a reply, because their connection broke or was silent for long:
    /// the store may have taken them.
    pub unanswered_units: u64,
    /// Calls that failed: the connection broke, or the store answered with an error.
    pub failed: u64,
    /// The time from sending calls to their answers.
    pub calls: Durations,
}

impl StoreCounts {
    /// Returns the units that the store counts but that no caller was told of, with the names of their causes:
    ///
    /// - `late_reply`: a late reply took them, and they could not be given back;
    /// - `unanswered`: no reply came, so this is the maximum that may be lost;
    /// - `too_late`: their window, bucket or tick had ended when they were given back;
    /// - `changed`: their rule counted in another way by then;
    /// - `no_record`: the store did not count them any more when they were given back.
    #[must_use]
    pub const fn lost(&self) -> [(&'static str, u64); 5] {
        [
            ("late_reply", self.not_undone_units),
            ("unanswered", self.unanswered_units.saturating_add(self.leased_unanswered)),
            ("too_late", self.leased_too_late),
            ("changed", self.leased_changed),
            ("no_record", self.leased_unrecorded),
        ]
    }
}

/// Counts since the start, which the store's thread and callers write.
#[derive(Debug, Default)]
pub(crate) struct Counts {
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
    overload: Mutex<Option<Overload>>,
}

/// A time in which the store does not decide every request.
#[derive(Clone, Copy, Debug)]
struct Overload {
    last: Instant,
    before: u64,
}

impl Counts {
    pub(crate) fn add(counter: &AtomicU64, count: usize) {
        if count > 0 {
            counter.fetch_add(count as u64, Relaxed);
        }
    }

    /// Notes that a request was not decided because of overload; returns whether it is the second
    /// one, with which an overload is reported: one late request alone may be chance.
    pub(super) fn overloaded(&self, now: Instant) -> bool {
        let mut overload = self.overload.lock().unwrap_or_else(PoisonError::into_inner);
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
        let (counts, start) = (Counts::default(), Instant::now());
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
