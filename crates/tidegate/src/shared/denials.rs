//! Limiters that the store has lately said are used up, and until when: so many at most.
//!
//! A decision that is taken without the store would else admit, out of this node's share, what the store has
//! just denied for longer. The table is one of places: a limiter has four that it may stand in, and where all
//! are taken the denial that ends first makes room. It takes memory for a shard with the first denial there.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::{Micros, Timestamp};

use crate::key::Fingerprint;

/// Locks that denials are spread over.
const SHARDS: usize = 64;
/// Groups of places in a shard; a limiter stands in one of them.
const GROUPS: usize = 256;
/// Places in a group.
const PLACES: usize = 4;
/// Most denials that are known at once: 65,536, of 32 bytes each, which is 2 MiB.
#[cfg(test)]
const MOST: usize = SHARDS * GROUPS * PLACES;

/// The denials that are known.
#[derive(Debug)]
pub(super) struct Denials(Box<[Mutex<Vec<Place>>]>);

/// A denial, or nothing.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The three words of the limiter's fingerprint; all zero where there is no denial.
    fingerprint: [u32; 3],
    /// The least cost that is denied.
    cost: u64,
    until: Timestamp,
}

impl Place {
    const EMPTY: Self = Self { fingerprint: [0; 3], cost: 0, until: Timestamp::EPOCH };
}

/// What is known of a limiter: that the store denies it `cost` and more for `wait` from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) cost: u64,
    pub(super) wait: Micros,
}

impl Denials {
    pub(super) fn new() -> Self {
        Self((0..SHARDS).map(|_| Mutex::default()).collect())
    }

    /// Notes that the store denied a limiter this cost until a time. A denial of no larger cost that still
    /// lasts stays. Where another thread is in the shard nothing is noted, for this is on the way of each
    /// denial, and there are many of whatever is asked often.
    pub(super) fn note(
        &self,
        fingerprint: Fingerprint,
        cost: u64,
        now: Timestamp,
        until: Timestamp,
    ) {
        self.put(fingerprint, cost, until, |known| cost <= known.cost || known.until <= now);
    }

    /// Notes the same in place of whatever is known of the limiter.
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

    /// What the store has said of a limiter that is asked for `cost` now; `None` where nothing is known that
    /// denies it.
    pub(super) fn of(&self, fingerprint: Fingerprint, cost: u64, now: Timestamp) -> Option<Known> {
        let words = fingerprint.words();
        let mut shard = held(self.shard(words)?);
        let place =
            *group_of(&mut shard, words)?.iter().find(|place| place.fingerprint == words)?;
        let denies = place.cost <= cost && now < place.until;
        denies.then(|| Known { cost: place.cost, wait: place.until.since(now) })
    }

    /// Forgets what the store has said of a limiter, for something was given back to it.
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

/// The places that a limiter may stand in; `None` where the shard has none yet.
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
