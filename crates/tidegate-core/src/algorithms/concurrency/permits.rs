//! The permits of one limiter, in the order in which they end.
//!
//! This is the state that `Concurrency` reads and changes. Permits that have ended stay in the list until a later
//! step drops them.

use alloc::collections::VecDeque;

use crate::time::{Micros, Timestamp};

/// Units that one request took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TakenPermit {
    /// When it ends if it is neither returned nor renewed.
    pub(super) ends: Timestamp,
    /// 0 if it can be neither returned nor renewed.
    pub(super) token_us: u64,
    pub(super) units: u64,
}

impl TakenPermit {
    fn order(&self) -> (Timestamp, u64) {
        (self.ends, self.token_us)
    }
}

/// Permits in the order of their ends, and of their tokens for equal ends; each has at least one unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TakenPermits {
    by_end: VecDeque<TakenPermit>,
    units: u64,
}

/// The smallest number of permits that memory is allocated for.
const FEWEST: usize = 4;

impl TakenPermits {
    pub(super) const BYTES_PER_PERMIT: u64 = size_of::<TakenPermit>() as u64;

    /// The units of all, those that have ended included; they stop at `u64::MAX`.
    pub(super) const fn units(&self) -> u64 {
        self.units
    }

    pub(super) fn heap_bytes(&self) -> u64 {
        self.by_end.capacity() as u64 * Self::BYTES_PER_PERMIT
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &TakenPermit> {
        self.by_end.iter()
    }

    pub(super) fn get(&self, index: usize) -> Option<&TakenPermit> {
        self.by_end.get(index)
    }

    pub(super) fn last_end(&self) -> Option<Timestamp> {
        self.by_end.back().map(|permit| permit.ends)
    }

    /// The number of permits that have ended by `at`, and of their units.
    pub(super) fn ended(&self, at: Timestamp) -> (usize, u64) {
        let ended = self.by_end.iter().take_while(|permit| permit.ends <= at);
        ended.fold((0, 0), |(permits, units), permit| (permits + 1, units + permit.units))
    }

    pub(super) fn drop_ended(&mut self, at: Timestamp) {
        while let Some(permit) = self.by_end.front().filter(|permit| permit.ends <= at) {
            self.units -= permit.units;
            self.by_end.pop_front();
        }
    }

    /// When the permit of the `nth` unit ends, in the order in which units end; 1 is the first. It reads at most
    /// `nth` permits.
    pub(super) fn end_of_unit(&self, nth: u64) -> Option<Timestamp> {
        if nth == 0 {
            return None;
        }
        let mut left = nth;
        for permit in &self.by_end {
            if left <= permit.units {
                return Some(permit.ends);
            }
            left -= permit.units;
        }
        None
    }

    /// The place of the permit with this token. Only renewed permits are out of the order of their tokens.
    pub(super) fn find(&self, token_us: u64) -> Option<usize> {
        let found = self.by_end.binary_search_by_key(&token_us, |permit| permit.token_us);
        // A permit that the search finds is the right permit in any order, because a token is given once.
        found.ok().or_else(|| self.by_end.iter().position(|permit| permit.token_us == token_us))
    }

    /// Returns whether there is memory for one more.
    pub(super) fn has_place(&self) -> bool {
        self.by_end.len() < self.by_end.capacity()
    }

    /// Allocates memory for another permit, of at most `most`, or frees memory that is far too large.
    pub(super) fn make_place(&mut self, most: u64) {
        let held = self.by_end.len();
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        if !self.has_place() {
            let more = held.max(FEWEST).min(most.saturating_sub(held));
            self.by_end.reserve_exact(more.max(1));
        // An eighth, and then twice the need: use that goes up and down does not allocate each time.
        } else if held.max(FEWEST).saturating_mul(8) < self.by_end.capacity() {
            self.by_end.shrink_to(2 * held.max(FEWEST));
        }
    }

    pub(super) fn insert(&mut self, permit: TakenPermit) {
        // So the sum of all units cannot overflow anywhere.
        let permit = TakenPermit { units: permit.units.min(u64::MAX - self.units), ..permit };
        if permit.units == 0 {
            return;
        }
        // From the back, because a new permit usually ends last.
        let earlier = self.by_end.iter().rposition(|one| one.order() <= permit.order());
        let index = earlier.map_or(0, |index| index + 1);
        self.units += permit.units;
        self.by_end.insert(index, permit);
    }

    /// Adds units to the last permit to end, in place of a permit of their own. That permit can no longer be returned.
    pub(super) fn join_last(&mut self, permit: TakenPermit) {
        let Some(last) = self.by_end.back_mut() else { return self.insert(permit) };
        let units = permit.units.min(u64::MAX - self.units);
        *last = TakenPermit {
            ends: last.ends.max(permit.ends),
            token_us: 0,
            units: last.units + units,
        };
        self.units += units;
    }

    pub(super) fn remove(&mut self, index: usize) {
        if let Some(permit) = self.by_end.remove(index) {
            self.units -= permit.units;
        }
    }

    /// Gives back units of one permit, at most all of them, and returns how many.
    pub(super) fn give_back(&mut self, index: usize, units: u64) -> u64 {
        let Some(permit) = self.by_end.get_mut(index) else { return 0 };
        let given = units.min(permit.units);
        if given == permit.units {
            self.remove(index);
        } else {
            permit.units -= given;
            self.units -= given;
        }
        given
    }

    /// Moves all ends back.
    pub(super) fn move_back(&mut self, step: Micros) {
        self.by_end.iter_mut().for_each(|permit| permit.ends = permit.ends.minus(step));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_many_permits_is_freed_when_the_next_is_taken_and_few_are_out() {
        const MANY: u64 = 10_000;
        let mut permits = TakenPermits::default();
        for token_us in 1..=MANY {
            permits.make_place(MANY);
            permits.insert(TakenPermit { ends: Timestamp::MAX, token_us, units: 1 });
        }
        assert!(permits.heap_bytes() >= MANY * TakenPermits::BYTES_PER_PERMIT);
        (0..MANY).for_each(|_| permits.remove(0));
        permits.make_place(MANY);
        let few = 2 * FEWEST as u64 * TakenPermits::BYTES_PER_PERMIT;
        assert!(permits.heap_bytes() <= few, "{} bytes", permits.heap_bytes());
        assert!(permits.has_place());
    }
}
