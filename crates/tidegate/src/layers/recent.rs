//! Recent reports of the store about limiters, each valid until some time; their number is bounded.
//!
//! The table has a fixed number of places. Each limiter has four possible places; if all are taken, the report
//! that ends first is dropped. A shard takes memory with its first report.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::{Micros, Timestamp};

use crate::key::Fingerprint;

/// The number of locks that reports are spread over.
const SHARDS: usize = 64;
/// Groups of places in a shard; each limiter belongs to one group.
const GROUPS: usize = 256;
/// Places in a group.
const PLACES: usize = 4;

/// The last report of each limiter.
#[derive(Debug)]
pub(crate) struct RecentReports<T>(Box<[Mutex<Vec<ReportPlace<T>>>]>);

/// A place in the table: one report, or empty.
#[derive(Clone, Copy, Debug)]
struct ReportPlace<T> {
    /// The three words of the limiter's fingerprint; all zero if the place is empty.
    fingerprint: [u32; 3],
    reported: T,
    until: Timestamp,
}

impl<T: Copy + Default> ReportPlace<T> {
    fn empty() -> Self {
        Self { fingerprint: [0; 3], reported: T::default(), until: Timestamp::EPOCH }
    }
}

impl<T: Copy + Default> RecentReports<T> {
    pub(crate) fn new() -> Self {
        Self((0..SHARDS).map(|_| Mutex::default()).collect())
    }

    /// Notes a report until a time, if the last report, with its own end, `gives_way`. The closure runs under the lock,
    /// also if there is no report. If another thread has locked the shard, nothing is noted: every report comes through
    /// here, and a limiter that is asked often is reported often.
    pub(crate) fn note(
        &self,
        fingerprint: Fingerprint,
        reported: T,
        until: Timestamp,
        gives_way: impl Fn(Option<(T, Timestamp)>) -> bool,
    ) {
        let words = fingerprint.words();
        let Some(Ok(mut shard)) = self.shard(words).map(|shard| shard.try_lock()) else { return };
        if shard.is_empty() {
            shard.resize(GROUPS * PLACES, ReportPlace::empty());
        }
        let Some(group) = group_of(&mut shard, words) else { return };
        let place = match group.iter().position(|place| place.fingerprint == words) {
            Some(known) => group.get_mut(known),
            None => group.iter_mut().min_by_key(|place| place.until),
        };
        let Some(place) = place else { return };
        // A report of another limiter has no say: it ends first in its group, and is replaced.
        let last = (place.fingerprint == words).then_some((place.reported, place.until));
        if gives_way(last) {
            *place = ReportPlace { fingerprint: words, reported, until };
        }
    }

    /// Returns the last report of a limiter, and how much longer it holds; `None` if none does.
    pub(crate) fn of(&self, fingerprint: Fingerprint, now: Timestamp) -> Option<(T, Micros)> {
        let words = fingerprint.words();
        let mut shard = held(self.shard(words)?);
        let place =
            *group_of(&mut shard, words)?.iter().find(|place| place.fingerprint == words)?;
        (now < place.until).then(|| (place.reported, place.until.since(now)))
    }

    /// Forgets the report of a limiter.
    pub(crate) fn forget(&self, fingerprint: Fingerprint) {
        let words = fingerprint.words();
        let Some(mut shard) = self.shard(words).map(held) else { return };
        let group = group_of(&mut shard, words).into_iter().flatten();
        group
            .filter(|place| place.fingerprint == words)
            .for_each(|place| *place = ReportPlace::empty());
    }

    fn shard(&self, words: [u32; 3]) -> Option<&Mutex<Vec<ReportPlace<T>>>> {
        self.0.get(words[0] as usize % SHARDS)
    }
}

fn held<T>(shard: &Mutex<Vec<ReportPlace<T>>>) -> MutexGuard<'_, Vec<ReportPlace<T>>> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the places for a limiter; `None` if the shard has no places yet.
fn group_of<T>(shard: &mut [ReportPlace<T>], words: [u32; 3]) -> Option<&mut [ReportPlace<T>]> {
    let first = words[1] as usize % GROUPS * PLACES;
    shard.get_mut(first..first + PLACES)
}

/// The maximum number of reports in the table: 65,536 of 32 bytes each, or 2 MiB.
#[cfg(test)]
const MOST: usize = SHARDS * GROUPS * PLACES;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Seed;

    #[test]
    fn invented_keys_take_no_more_memory_than_there_is_and_the_last_ones_are_known() {
        let (recent, seed) = (RecentReports::<u64>::new(), Seed::random());
        let fingerprint = |number: usize| seed.of(&number.to_le_bytes());
        let at = Timestamp::from_micros;
        for number in 0..4 * MOST {
            recent.note(fingerprint(number), 1, at(1_000 + number as u64), |_| true);
        }
        let places: usize = recent.0.iter().map(|shard| held(shard).len()).sum();
        assert_eq!((places, size_of::<ReportPlace<u64>>()), (MOST, 32));
        let last =
            (3 * MOST..4 * MOST).filter(|number| recent.of(fingerprint(*number), at(1)).is_some());
        assert!(last.count() > MOST * 3 / 4);
    }
}
