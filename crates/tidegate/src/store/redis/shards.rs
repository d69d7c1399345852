//! The parts of a cluster, each with its own small breaker: a node that is away rests, and the requests
//! that it would decide are told so at once, while all other nodes go on.
//!
//! Every request to a dead node makes the client crate look for it again, and while it looks nobody is
//! answered. So only one in each pause is let through, to see whether the node, or another in its place, is
//! there.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use redis::Value;

use super::error::StoreError;

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
    last_slot: u16,
    strikes: AtomicU32,
    /// 0 while it does not rest.
    rests_until_us: AtomicU64,
}

impl Shards {
    /// What `CLUSTER SLOTS` tells; what it does not tell has no breaker.
    pub(super) fn of(told: &Value) -> Self {
        let Value::Array(ranges) = told else { return Self::default() };
        let last_slot = |range: &Value| match range {
            Value::Array(parts) => match parts.get(1) {
                Some(Value::Int(last)) => u16::try_from(*last).ok(),
                _ => None,
            },
            _ => None,
        };
        let mut all: Vec<_> = ranges.iter().filter_map(last_slot).map(Shard::new).collect();
        all.sort_unstable_by_key(|shard| shard.last_slot);
        Self(all)
    }

    /// The one that a slot belongs to.
    pub(super) fn get(&self, slot: u16) -> Option<&Shard> {
        self.0.get(self.0.partition_point(|shard| shard.last_slot < slot))
    }
}

impl Shard {
    const fn new(last_slot: u16) -> Self {
        Self { last_slot, strikes: AtomicU32::new(0), rests_until_us: AtomicU64::new(0) }
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

    /// Notes what a request that was sent has brought.
    pub(super) fn note(&self, error: Option<&StoreError>, now_us: u64) {
        let is_away = match error {
            // What other nodes say of a slot that moves costs nothing, and is over soon.
            Some(StoreError::Unreachable(_)) => true,
            Some(StoreError::Timeout) => self.strikes.fetch_add(1, Relaxed) + 1 >= STRIKES,
            _ => return self.is_there(),
        };
        if is_away {
            self.rests_until_us.store(now_us.saturating_add(PAUSE_US).max(1), Relaxed);
        }
    }

    fn is_there(&self) {
        // Written only where it differs: all requests share it.
        if self.strikes.load(Relaxed) > 0 {
            self.strikes.store(0, Relaxed);
        }
        if self.rests_until_us.load(Relaxed) > 0 {
            self.rests_until_us.store(0, Relaxed);
        }
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
        dead.note(Some(&lost()), 0);
        let asked = (0..=3 * PAUSE_US).step_by(1_000).filter(|now_us| dead.is_asked(*now_us));
        assert_eq!(asked.collect::<Vec<_>>(), [PAUSE_US, 2 * PAUSE_US, 3 * PAUSE_US]);
        assert!(alive.is_asked(0));
        dead.note(None, 4 * PAUSE_US);
        assert!((0..10).all(|_| dead.is_asked(4 * PAUSE_US)), "it is there again");
    }

    #[test]
    fn late_answers_count_only_in_a_row() {
        let shards = shards();
        let shard = shards.get(0).unwrap();
        for _ in 0..3 {
            (1..STRIKES).for_each(|_| shard.note(Some(&StoreError::Timeout), 0));
            shard.note(None, 0);
        }
        assert!(shard.is_asked(0));
        (0..STRIKES).for_each(|_| shard.note(Some(&StoreError::Timeout), 0));
        assert!(!shard.is_asked(0));
    }
}
