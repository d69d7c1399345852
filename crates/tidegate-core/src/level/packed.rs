//! Levels packed into words: by the end of the level, or with the time of its last unit.

use super::{Level, Rate};
use crate::algorithm::{HORIZON, Packing, WORD_BITS};
use crate::time::Timestamp;

const LARGEST_WORD: u64 = (1 << WORD_BITS) - 1;

impl Level {
    /// The packing of a level of at most `most` grains, as the grains from `base` to its end.
    pub(crate) fn packing(rate: Rate, most: u128) -> Packing {
        let last_end = u128::from(HORIZON.as_micros()) * rate.n as u128 + most;
        if last_end < 1 << WORD_BITS { Packing::One } else { Packing::Two }
    }

    /// The end in grains since `base`, low bits first. A larger debt stops at the largest value.
    #[inline]
    pub(crate) fn pack(&self, rate: Rate, base: Timestamp, packing: Packing) -> [u64; 2] {
        let grains = self.left(rate, base);
        match packing {
            Packing::One => [u64::try_from(grains).unwrap_or(u64::MAX).min(LARGEST_WORD), 0],
            Packing::Two | Packing::Six | Packing::Unpacked => {
                let high = u64::try_from(grains >> WORD_BITS).unwrap_or(u64::MAX);
                [grains as u64 & LARGEST_WORD, high]
            }
        }
    }

    #[inline]
    pub(crate) fn unpack(rate: Rate, base: Timestamp, words: [u64; 2]) -> Self {
        match u128::from(words[1]) << WORD_BITS | u128::from(words[0]) {
            // An idle limiter, which is empty at any reading of the clock.
            0 => Self::EMPTY,
            grains => Self { empty_at: rate.instant(base).saturating_add(grains), ..Self::EMPTY },
        }
    }

    /// The time of the last unit, and the grains that were left then; zeros for an empty level. A larger debt stops at the
    /// largest value.
    #[inline]
    pub(crate) fn pack_with_last(&self, rate: Rate) -> [u64; 2] {
        match self.left(rate, self.last) {
            0 => [0; 2],
            left => [self.last.as_micros(), u64::try_from(left).unwrap_or(u64::MAX)],
        }
    }

    #[inline]
    pub(crate) fn unpack_with_last(rate: Rate, [last, left]: [u64; 2]) -> Self {
        if left == 0 {
            return Self::EMPTY;
        }
        let last = Timestamp::from_micros(last);
        Self { empty_at: rate.instant(last) + u128::from(left), last, ..Self::EMPTY }
    }

    /// Adds units to a level with its last unit as words, if at most `most` grains are left at `now`. With them there must
    /// be no more grains than fit into a word.
    #[inline]
    pub(crate) fn add_packed(
        rate: Rate,
        [last, left]: [u64; 2],
        now: Timestamp,
        most: u128,
        units: u64,
    ) -> Option<[u64; 2]> {
        // The clock of the store never steps back: an earlier reading was overtaken on its way here.
        let last = Timestamp::from_micros(last);
        let at = now.max(last);
        let drained = u128::from(at.since(last).as_micros()) * u128::from(rate.n);
        let left = u128::from(left).saturating_sub(drained);
        (left <= most).then(|| [at.as_micros(), (left + rate.grains(units)) as u64])
    }
}
