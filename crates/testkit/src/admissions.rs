//! The units that were admitted, as far as their callers know, and the bounds that they are held to.
//!
//! A caller knows when it asked and when it was answered, and the units were admitted between the two. Of a simulation
//! the moment itself is known: it asks and is answered at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Units that were admitted at one moment, no earlier than `asked` and no later than `answered`, in microseconds of one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// When it was asked for.
    pub asked: u64,
    /// When the answer was there.
    pub answered: u64,
    /// Units.
    pub units: u64,
}

impl Admission {
    /// Units that were admitted at this moment.
    #[must_use]
    pub const fn at(time: u64, units: u64) -> Self {
        Self { asked: time, answered: time, units }
    }
}

/// The largest number of units that were certainly admitted within an interval of this length, and the beginning of
/// that interval. An interval does not contain its end.
///
/// ```
/// use testkit::admissions::{Admission, most_within};
///
/// let unsure = Admission { asked: 5, answered: 40, units: 9 };
/// let history = [Admission::at(10, 1), unsure, Admission::at(19, 2), Admission::at(20, 4)];
/// assert_eq!(most_within(&history, 10), (6, 19));
/// assert_eq!(most_within(&history, 11), (7, 10));
/// ```
#[must_use]
pub fn most_within(history: &[Admission], length: u64) -> (u64, u64) {
    let (mut begun, mut ended) = (history.to_vec(), history.to_vec());
    begun.sort_unstable_by_key(|one| one.asked);
    ended.sort_unstable_by_key(|one| one.answered);
    let mut ended = ended.into_iter().peekable();
    // Units that were answered before the end of the interval; units that were asked for before its beginning; and
    // units that were asked for before its beginning and answered no earlier than its end.
    let (mut done, mut earlier) = (0, 0);
    let (mut around, mut units_around) = (BinaryHeap::new(), 0);
    let mut most = (0, 0);
    for same in begun.chunk_by(|a, b| a.asked == b.asked) {
        let begins = same.first().map_or(0, |one| one.asked);
        let ends = begins.saturating_add(length);
        while let Some(one) = ended.next_if(|one| one.answered < ends) {
            done += one.units;
        }
        while let Some(Reverse((answered, units))) = around.peek().copied()
            && answered < ends
        {
            let _ = around.pop();
            units_around -= units;
        }
        // Units that are around the whole interval are among the earlier units, but were never among the done
        // units.
        most = most.max((done + units_around - earlier, begins));
        for one in same {
            earlier += one.units;
            units_around += one.units;
            around.push(Reverse((one.answered, one.units)));
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::Rng;

    #[test]
    fn the_most_within_an_interval_is_the_sum_by_definition() {
        let mut rng = Rng::new(1);
        for _ in 0..500 {
            let mut one = || {
                let asked = rng.below(100);
                Admission {
                    asked,
                    answered: asked + rng.pick([0, 0, 1, 7, 60]),
                    units: rng.below(9),
                }
            };
            let history: Vec<_> = (0..30).map(|_| one()).collect();
            let length = rng.between(1, 40);
            let within = |begins: u64| {
                let inside =
                    |one: &&Admission| one.asked >= begins && one.answered < begins + length;
                history.iter().filter(inside).map(|one| one.units).sum::<u64>()
            };
            let naive = (0..200).map(within).max();
            assert_eq!(Some(most_within(&history, length).0), naive, "{length}: {history:?}");
        }
    }
}
