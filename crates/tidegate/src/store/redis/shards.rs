//! The parts of a cluster, each with its own small breaker: a node that is away rests, and the requests
//! that it would decide are told so at once, while all other nodes go on.
//!
//! Every request to a dead node makes the client crate look for it again, and while it looks nobody is
//! answered. So only one in each pause is let through, to see whether the node, or another in its place, is
//! there.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use redis::Value;

use super::error::StoreError;
use super::event::StoreEvent;

/// Late answers in a row after which a part rests; a lost connection needs no second.
const STRIKES: u32 = 5;
/// How long a part rests before one request is let through.
const PAUSE_US: u64 = 100_000;

/// The ranges of slots that one node each held when the link was made. A range that moves since has the
/// same range's breaker still: what matters is only who is away together.
#[derive(Debug, Default)]
pub(super) struct Shards(Vec<Shard>);

#[derive(Debug)]
pub(super) struct Shard {
    first_slot: u16,
    last_slot: u16,
    strikes: AtomicU32,
    /// 0 while it does not rest.
    rests_until_us: AtomicU64,
    /// Whether it was told to be away, and not yet to be back.
    told: AtomicBool,
}

impl Shards {
    /// What `CLUSTER SLOTS` tells; what it does not tell has no breaker.
    pub(super) fn of(told: &Value) -> Self {
        let Value::Array(ranges) = told else { return Self::default() };
        let shard = |range: &Value| match range {
            Value::Array(parts) => match parts.as_slice() {
                [Value::Int(first), Value::Int(last), ..] => {
                    Some(Shard::new(u16::try_from(*first).ok()?, u16::try_from(*last).ok()?))
                }
                _ => None,
            },
            _ => None,
        };
        let mut all: Vec<_> = ranges.iter().filter_map(shard).collect();
        all.sort_unstable_by_key(|shard| shard.last_slot);
        Self(all)
    }

    /// The one that a slot belongs to.
    pub(super) fn get(&self, slot: u16) -> Option<&Shard> {
        self.0.get(self.0.partition_point(|shard| shard.last_slot < slot))
    }
}

impl Shard {
    const fn new(first_slot: u16, last_slot: u16) -> Self {
        let (strikes, rests_until_us) = (AtomicU32::new(0), AtomicU64::new(0));
        Self { first_slot, last_slot, strikes, rests_until_us, told: AtomicBool::new(false) }
    }

    /// Whether a request may be sent now; while it rests, one in each pause.
    pub(super) fn is_asked(&self, now_us: u64) -> bool {
        let until_us = self.rests_until_us.load(Relaxed);
        let next_us = now_us.saturating_add(PAUSE_US);
        until_us == 0
            || (now_us >= until_us
                && self
                    .rests_until_us
                    .compare_exchange(until_us, next_us, Relaxed, Relaxed)
                    .is_ok())
    }

    /// Notes what a request that was sent has brought; what there is to tell of it, once for each outage.
    pub(super) fn note<'e>(
        &self,
        error: Option<&'e StoreError>,
        now_us: u64,
    ) -> Option<StoreEvent<'e>> {
        let is_away = match error {
            Some(StoreError::Unreachable(_)) => true,
            Some(StoreError::Timeout) => self.strikes.fetch_add(1, Relaxed) + 1 >= STRIKES,
            _ => {
                self.goes_on();
                false
            }
        };
        if is_away {
            self.rests_until_us.store(now_us.saturating_add(PAUSE_US).max(1), Relaxed);
            return self.lost(error?);
        }
        // What other nodes say of a slot that moves is over soon; it neither is an outage nor ends one.
        if error.is_none() { self.back() } else { None }
    }

    /// It is asked again. Written only where it differs: all requests share it.
    fn goes_on(&self) {
        if self.strikes.load(Relaxed) > 0 {
            self.strikes.store(0, Relaxed);
        }
        if self.rests_until_us.load(Relaxed) > 0 {
            self.rests_until_us.store(0, Relaxed);
        }
    }

    fn lost<'e>(&self, error: &'e StoreError) -> Option<StoreEvent<'e>> {
        let Self { first_slot, last_slot, .. } = *self;
        let is_new = !self.told.swap(true, Relaxed);
        is_new.then_some(StoreEvent::PartLost { first_slot, last_slot, error })
    }

    fn back<'e>(&self) -> Option<StoreEvent<'e>> {
        let Self { first_slot, last_slot, .. } = *self;
        let was_told = self.told.load(Relaxed) && self.told.swap(false, Relaxed);
        was_told.then_some(StoreEvent::PartBack { first_slot, last_slot })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shards() -> Shards {
        let range = |first, last| Value::Array(vec![Value::Int(first), Value::Int(last)]);
        Shards::of(&Value::Array(vec![range(8_192, 16_383), range(0, 8_191)]))
    }

    fn lost() -> StoreError {
        StoreError::Unreachable("gone".to_owned())
    }

    #[test]
    fn a_slot_belongs_to_the_range_that_it_lies_in() {
        let shards = shards();
        let last = |slot| shards.get(slot).map(|shard| shard.last_slot);
        assert_eq!([0, 8_191, 8_192, 16_383].map(last), [8_191, 8_191, 16_383, 16_383].map(Some));
        assert!(Shards::of(&Value::Nil).get(7).is_none());
    }

    #[test]
    fn a_dead_node_rests_and_one_request_in_each_pause_looks_for_it() {
        let shards = shards();
        let (dead, alive) = (shards.get(0).unwrap(), shards.get(9_000).unwrap());
        assert!(dead.note(Some(&lost()), 0).is_some());
        let asked = (0..=3 * PAUSE_US).step_by(1_000).filter(|now_us| dead.is_asked(*now_us));
        assert_eq!(asked.collect::<Vec<_>>(), [PAUSE_US, 2 * PAUSE_US, 3 * PAUSE_US]);
        assert!(alive.is_asked(0));
        assert!(dead.note(None, 4 * PAUSE_US).is_some());
        assert!((0..10).all(|_| dead.is_asked(4 * PAUSE_US)), "it is there again");
    }

    #[test]
    fn late_answers_count_only_in_a_row() {
        let shards = shards();
        let shard = shards.get(0).unwrap();
        for _ in 0..3 {
            assert!((1..STRIKES).all(|_| shard.note(Some(&StoreError::Timeout), 0).is_none()));
            assert!(shard.note(None, 0).is_none());
        }
        assert!(shard.is_asked(0));
        let told = (0..STRIKES).filter_map(|_| shard.note(Some(&StoreError::Timeout), 0));
        assert_eq!(told.count(), 1);
        assert!(!shard.is_asked(0));
    }

    #[test]
    fn an_outage_of_a_part_is_told_once_and_its_end_when_it_answers() {
        let shards = shards();
        let shard = shards.get(0).unwrap();
        let down = StoreError::ClusterDown("down".to_owned());
        for outage in 0..3 {
            let told = [Some(lost()), Some(lost()), Some(down.clone()), Some(lost()), None, None];
            let told = told.iter().enumerate().filter_map(|(at, error)| {
                let event = shard.note(error.as_ref(), 0)?;
                Some((
                    at,
                    matches!(event, StoreEvent::PartBack { first_slot: 0, last_slot: 8_191 }),
                ))
            });
            assert_eq!(told.collect::<Vec<_>>(), [(0, false), (4, true)], "outage {outage}");
        }
    }
}
