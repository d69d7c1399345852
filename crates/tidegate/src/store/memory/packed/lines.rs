//! Lines by number, in segments that are made when first needed and never moved.

use std::sync::OnceLock;

/// Lines in the first segment: 1 KiB; few for the model checker.
const FIRST: usize = if cfg!(loom) { 4 } else { 16 };
/// Segments that grow: each after the first has as many lines as all before it.
const GROWING: usize = 6;
/// Lines in all growing segments, and in each that comes after them: 32 KiB, the largest piece that is made in one go.
const LARGE: usize = FIRST << (GROWING - 1);

/// Lines up to a fixed number. Making one invalidates no reference to another. Without lines it takes no memory of its
/// own, and with few lines at most twice the bytes they need.
#[derive(Debug)]
pub(super) struct Lines<L> {
    most: usize,
    growing: OnceLock<Box<[Segment<L>; GROWING]>>,
    /// The segments after the growing ones, which few tables need.
    large: OnceLock<Box<[Segment<L>]>>,
}

type Segment<L> = OnceLock<Box<[L]>>;

/// Where a line is among the growing segments.
struct Growing {
    segment: usize,
    /// Lines in all earlier segments.
    before: usize,
}

impl Growing {
    /// Finds a line by its number, which is below [`LARGE`].
    #[inline]
    const fn of(number: usize) -> Self {
        // The bit length of `number / FIRST`: 0 for 0, 1 for 1, 2 for 2 and 3, and so on.
        let segment = (number / FIRST * 2 + 1).ilog2() as usize;
        Self { segment, before: ((FIRST << segment) / 2) & !(FIRST - 1) }
    }

    /// The lines of the segment.
    const fn lines(&self) -> usize {
        if self.segment == 0 { FIRST } else { self.before }
    }
}

impl<L: Default> Lines<L> {
    /// Creates it without lines, with room for `most`.
    pub(super) const fn with_space_for(most: usize) -> Self {
        Self { most, growing: OnceLock::new(), large: OnceLock::new() }
    }

    /// The line with a number; `None` if it was not made.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&L> {
        let number = number as usize;
        if number < LARGE {
            let Growing { segment, before } = Growing::of(number);
            self.growing.get()?.get(segment)?.get()?.get(number - before)
        } else {
            self.large.get()?.get(number / LARGE - 1)?.get()?.get(number % LARGE)
        }
    }

    /// The bytes of the segments with the first `count` lines, if any line was made, and of their list.
    pub(super) fn bytes_up_to(&self, count: u32) -> usize {
        let count = count as usize;
        let lines = match self.growing.get() {
            None => 0,
            Some(_) if count <= LARGE => count.next_power_of_two().max(FIRST),
            Some(_) => count.next_multiple_of(LARGE),
        };
        lines * size_of::<L>() + self.large.get().map_or(0, |large| size_of_val(&**large))
    }

    /// Makes the line with a number; `None` if there is no room for it.
    pub(super) fn make(&self, number: u32) -> Option<&L> {
        let number = number as usize;
        // The first segment is made as a whole.
        if number >= self.most.next_multiple_of(FIRST) {
            return None;
        }
        if number < LARGE {
            let growing = Growing::of(number);
            let segments = self.growing.get_or_init(Box::default);
            let segment = segments.get(growing.segment)?;
            return made(segment, growing.lines()).get(number - growing.before);
        }
        let segments = || (1..self.most.div_ceil(LARGE)).map(|_| OnceLock::new()).collect();
        let segment = self.large.get_or_init(segments).get(number / LARGE - 1)?;
        made(segment, LARGE).get(number % LARGE)
    }
}

/// The lines of a segment, which are made if they were not.
fn made<L: Default>(segment: &Segment<L>, lines: usize) -> &[L] {
    segment.get_or_init(|| (0..lines).map(|_| L::default()).collect())
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::super::line::Line;
    use super::*;

    #[test]
    fn each_number_has_a_line_of_its_own_that_never_moves() {
        let lines = Lines::<Line<3, 1>>::with_space_for(3_000);
        assert!(lines.get(0).is_none() && lines.get(2_999).is_none());
        let made: Vec<_> = (0..3_000).map(|number| lines.make(number).unwrap()).collect();
        for (number, line) in (0..).zip(&made) {
            line.set_next(number);
        }
        for number in 0..3_000 {
            assert!(std::ptr::eq(lines.get(number).unwrap(), made[number as usize]));
            assert_eq!(lines.get(number).unwrap().next(), number);
        }
        assert!(lines.make(4_000).is_none());
    }

    #[test]
    fn few_lines_take_little_memory_and_many_at_most_twice_what_they_need() {
        let lines = Lines::<Line<3, 1>>::with_space_for(1 << 20);
        assert_eq!(lines.bytes_up_to(0), 0);
        for number in 0..3_000 {
            lines.make(number).unwrap();
            let (bytes, needed) = (lines.bytes_up_to(number + 1), (number as usize + 1) * 64);
            let list = if number as usize >= LARGE { ((1 << 20) / LARGE) * 24 } else { 0 };
            let most = (2 * needed).max(FIRST * 64).min(needed + LARGE * 64) + list;
            assert!((needed..=most).contains(&bytes), "{bytes} for {needed}");
        }
    }
}
