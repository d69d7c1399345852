//! Lines by number, in segments that are made when first needed and never moved.

use std::sync::OnceLock;

use super::line::Line;

/// Lines in a segment: 32 KiB, the largest piece that is made in one go; few for the model checker.
const SEGMENT: usize = if cfg!(loom) { 4 } else { 512 };

/// Lines up to a fixed number. Making one invalidates no reference to another. Without lines it takes no memory.
#[derive(Debug)]
pub(super) struct Lines {
    most: usize,
    segments: OnceLock<Segments>,
}

type Segments = Box<[OnceLock<Box<[Line]>>]>;

impl Lines {
    /// Creates it without lines, with room for `most`.
    pub(super) const fn with_room_for(most: usize) -> Self {
        Self { most, segments: OnceLock::new() }
    }

    /// The line with a number; `None` if it was not made.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&Line> {
        let segment = self.segments.get()?.get(number as usize / SEGMENT)?;
        segment.get()?.get(number as usize % SEGMENT)
    }

    /// The bytes of the segments with the first `count` lines, if any line was made.
    pub(super) fn bytes_up_to(&self, count: u32) -> usize {
        let segments = self.segments.get().map_or(0, |_| (count as usize).div_ceil(SEGMENT));
        segments * SEGMENT * size_of::<Line>()
    }

    /// Makes the line with a number; `None` if there is no room for it.
    pub(super) fn make(&self, number: u32) -> Option<&Line> {
        let none_yet = || (0..self.most.div_ceil(SEGMENT)).map(|_| OnceLock::new()).collect();
        let segment = self.segments.get_or_init(none_yet).get(number as usize / SEGMENT)?;
        let lines = segment.get_or_init(|| (0..SEGMENT).map(|_| Line::default()).collect());
        lines.get(number as usize % SEGMENT)
    }
}
