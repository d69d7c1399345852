//! Bytes that states take on the heap.

#[cfg(all(test, not(loom)))]
mod tests;

use tidegate_core::{Room, Timestamp};

use super::budget::Need;

/// Bytes that a state may take more with one unit: a chunk of a log, which is a quarter of the most it
/// can take, within these bounds.
const GROWTH: std::ops::RangeInclusive<usize> = 64..=16 << 10;

/// Bytes of a state on the heap.
pub(super) fn heap_bytes<R: Room>(room: &R, state: &R::State) -> usize {
    usize::try_from(room.heap_bytes(state)).unwrap_or(usize::MAX / 2)
}

pub(super) fn most_heap_bytes<R: Room>(room: &R) -> usize {
    usize::try_from(room.most_heap_bytes()).unwrap_or(usize::MAX / 8)
}

/// What states of a room take on the heap: those of a fixed size never grow.
pub(super) fn need_of<R: Room>(room: &R) -> Need {
    let (first, most) = (heap_bytes(room, &room.fresh(Timestamp::EPOCH)), most_heap_bytes(room));
    let next = if first == most { 0 } else { (most / 4).clamp(*GROWTH.start(), *GROWTH.end()) };
    Need { first: first + next, next }
}
