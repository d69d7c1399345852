//! Lists that need no allocation while they are as short as usual.

use smallvec::SmallVec;

/// How many items need no allocation. A step over several limiters allocates anyway, to hold them
/// all.
const AT_HAND: usize = 1;

/// The limiters of a request, or their results: a request with one limiter is decided without an
/// allocation.
pub(crate) type InlineList<T> = SmallVec<[T; AT_HAND]>;
