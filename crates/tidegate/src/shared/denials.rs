//! Limiters that the store lately denied, and until when; their number is bounded.
//!
//! Without this table, a decision without the store would admit, out of this node's share, requests that the
//! store has just denied. The table has a fixed number of places. Each limiter has four possible places; if all
//! are taken, the denial that ends first is dropped. A shard takes memory with its first denial.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::{Micros, Timestamp};

use crate::key::Fingerprint;

/// The number of locks that denials are spread over.
const SHARDS: usize = 64;
/// Groups of places in a shard; each limiter belongs to one group.
const GROUPS: usize = 256;
/// Places in a group.
const PLACES: usize = 4;
/// The most denials in the table: 65,536 of 32 bytes each, or 2 MiB.
#[cfg(test)]
const MOST: usize = SHARDS * GROUPS * PLACES;

/// The known denials.
#[derive(Debug)]
pub(super) struct Denials(Box<[Mutex<Vec<Place>>]>);

/// A place in the table: one denial, or empty.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The three words of the limiter's fingerprint; all zero if the place is empty.
    fingerprint: [u32; 3],
    /// The least cost that is denied.
    cost: u64,
    until: Timestamp,
}

impl Place {
    const EMPTY: Self = Self { fingerprint: [0; 3], cost: 0, until: Timestamp::EPOCH };
}

/// A known denial of a limiter: `cost` and more are denied for `wait` from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) cost: u64,
    pub(super) wait: Micros,
}

impl Denials {
    pub(super) fn new() -> Self {
        Self((0..SHARDS).map(|_| Mutex::default()).collect())
    }

    /// Notes that the store denied a limiter this cost until a time. A denial of a cost no larger that still
    /// lasts stays. If another thread has locked the shard, nothing is noted: every denial comes through here,
    /// and a limiter that is asked often is denied often.
    pub(super) fn note(
        &self,
        fingerprint: Fingerprint,
        cost: u64,
        now: Timestamp,
        until: Timestamp,
    ) {
        self.put(fingerprint, cost, until, |known| cost <= known.cost || known.until <= now);
    }

    /// Notes a denial in place of the known one.
    pub(super) fn replace(&self, fingerprint: Fingerprint, cost: u64, until: Timestamp) {
        self.put(fingerprint, cost, until, |_| true);
    }

    fn put(
        &self,
        fingerprint: Fingerprint,
        cost: u64,
        until: Timestamp,
        replaces: impl Fn(&Place) -> bool,
    ) {
        let words = fingerprint.words();
        let Some(Ok(mut shard)) = self.shard(words).map(|shard| shard.try_lock()) else { return };
        if shard.is_empty() {
            shard.resize(GROUPS * PLACES, Place::EMPTY);
        }
        let Some(group) = group_of(&mut shard, words) else { return };
        let place = match group.iter().position(|place| place.fingerprint == words) {
            Some(known) => group.get_mut(known),
            None => group.iter_mut().min_by_key(|place| place.until),
        };
        let Some(place) = place else { return };
        if place.fingerprint != words || replaces(place) {
            *place = Place { fingerprint: words, cost, until };
        }
    }

    /// Returns the known denial that holds for `cost` now; `None` if there is none.
    pub(super) fn of(&self, fingerprint: Fingerprint, cost: u64, now: Timestamp) -> Option<Known> {
        let words = fingerprint.words();
        let mut shard = held(self.shard(words)?);
        let place =
            *group_of(&mut shard, words)?.iter().find(|place| place.fingerprint == words)?;
        let denies = place.cost <= cost && now < place.until;
        denies.then(|| Known { cost: place.cost, wait: place.until.since(now) })
    }

    /// Forgets the denial of a limiter, because units were given back to it.
    pub(super) fn forget(&self, fingerprint: Fingerprint) {
        let words = fingerprint.words();
        let Some(mut shard) = self.shard(words).map(held) else { return };
        let group = group_of(&mut shard, words).into_iter().flatten();
        group.filter(|place| place.fingerprint == words).for_each(|place| *place = Place::EMPTY);
    }

    fn shard(&self, words: [u32; 3]) -> Option<&Mutex<Vec<Place>>> {
        self.0.get(words[0] as usize % SHARDS)
    }
}

fn held(shard: &Mutex<Vec<Place>>) -> MutexGuard<'_, Vec<Place>> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the places for a limiter; `None` if the shard has no places yet.
fn group_of(shard: &mut [Place], words: [u32; 3]) -> Option<&mut [Place]> {
    let first = words[1] as usize % GROUPS * PLACES;
    shard.get_mut(first..first + PLACES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Seed;

    fn at(us: u64) -> Timestamp {
        Timestamp::from_micros(us)
    }

    fn known(cost: u64, wait: u64) -> Option<Known> {
        Some(Known { cost, wait: Micros::from_micros(wait) })
    }

    #[test]
    fn a_denial_holds_for_its_cost_and_more_until_it_ends() {
        let (denials, fingerprint) = (Denials::new(), Seed::random().of_bytes(b"ada"));
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
        let (denials, fingerprint) = (Denials::new(), Seed::random().of_bytes(b"ada"));
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
    fn invented_keys_take_no_more_memory_than_there_is_and_the_last_ones_are_known() {
        let (denials, seed) = (Denials::new(), Seed::random());
        let fingerprint = |number: usize| seed.of_bytes(&number.to_le_bytes());
        for number in 0..4 * MOST {
            denials.note(fingerprint(number), 1, at(0), at(1_000 + number as u64));
        }
        let places: usize = denials.0.iter().map(|shard| held(shard).len()).sum();
        assert_eq!((places, size_of::<Place>()), (MOST, 32));
        let last = (3 * MOST..4 * MOST)
            .filter(|number| denials.of(fingerprint(*number), 1, at(1)).is_some());
        assert!(last.count() > MOST * 3 / 4);
    }
}
