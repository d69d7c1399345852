//! Lists that take no memory of their own while they are as short as they mostly are.

use smallvec::SmallVec;

/// How many need none. A step over several limiters allocates anyway, to hold them all.
const AT_HAND: usize = 1;

/// Limiters that a request meets, and what came of each: a request that meets one is decided without
/// any allocation.
pub(crate) type InlineList<T> = SmallVec<[T; AT_HAND]>;
