//! Lists that need no allocation while they are as short as usual.

use smallvec::SmallVec;

/// The number of items that need no allocation.
const AT_HAND: usize = 1;

/// The limiters of a request, or their results: a request with one limiter is decided without an
/// allocation.
pub type InlineList<T> = SmallVec<[T; AT_HAND]>;

/// An empty list with room for so many items.
#[inline]
pub fn with_space_for<T>(items: usize) -> InlineList<T> {
    match items {
        0..=AT_HAND => InlineList::new(),
        _ => InlineList::from_vec(Vec::with_capacity(items)),
    }
}

/// Lists that a step over several limiters makes and drops: without an allocation for few limiters.
pub type StepList<T> = SmallVec<[T; 8]>;
