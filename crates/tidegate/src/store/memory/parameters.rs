//! The checked values of one rule, with the memory that states under them need, which tables claim from the budget.

use tidegate_core::{Algorithm, Past, Timestamp};

use super::budget::Need;
use crate::key::Fingerprint;

/// By how much one unit may grow a state, in bytes: a quarter of a log's largest size, within these bounds.
const GROWTH: std::ops::RangeInclusive<usize> = 64..=16 << 10;

/// The values of one rule.
#[derive(Debug)]
pub(super) struct Parameters<R: Algorithm> {
    pub(super) algorithm: R,
    /// Heap bytes that a state needs.
    pub(super) heap: Need,
    /// True if the words of a state do not say when its last unit came.
    pub(super) are_packed: bool,
}

impl<R: Algorithm> Parameters<R> {
    /// Parameters of unpacked states; states of a fixed size never grow.
    pub(super) fn new(algorithm: R) -> Self {
        let fresh = heap_bytes(&algorithm, &algorithm.fresh(Timestamp::EPOCH));
        let most = most_heap_bytes(&algorithm);
        let next = if fresh == most { 0 } else { (most / 4).clamp(*GROWTH.start(), *GROWTH.end()) };
        Self { algorithm, heap: Need { first: fresh + next, next }, are_packed: false }
    }

    /// Parameters of packed states, which need no memory of their own.
    pub(super) const fn packed(algorithm: R) -> Self {
        Self { algorithm, heap: Need { first: 0, next: 0 }, are_packed: true }
    }
}

/// Returns the heap bytes of a state, including its memory of the past.
pub(super) fn heap_bytes<R: Algorithm>(algorithm: &R, state: &R::State) -> usize {
    let past = algorithm.past(state).map_or(0, Past::heap_bytes);
    usize::try_from(algorithm.heap_bytes(state)).unwrap_or(usize::MAX / 2) + past
}

pub(super) fn most_heap_bytes<R: Algorithm>(algorithm: &R) -> usize {
    // Small enough that a sum of a few needs does not overflow.
    usize::try_from(algorithm.most_heap_bytes()).unwrap_or(usize::MAX / 8)
}

/// Bytes of a limiter in the map and the queue of a shard, growth included, without its heap bytes.
pub(super) const fn bytes_beside_heap<E>() -> usize {
    // While a map or a queue grows, it has its old places and twice as many new places.
    3 * (size_of::<(Fingerprint, Option<E>, usize)>() + size_of::<Fingerprint>())
}

/// Returns whether packing a state into so many words cuts nothing off. The time of the last unit is not packed, so
/// both states are compared after one more unit.
pub(super) fn stays_whole<R: Algorithm, const WORDS: usize>(
    algorithm: &R,
    base: Timestamp,
    state: &R::State,
    now: Timestamp,
) -> bool {
    let (mut whole, mut packed) =
        (state.clone(), algorithm.unpack::<WORDS>(base, algorithm.pack(base, state)));
    let at = algorithm.advance(&mut whole, now);
    algorithm.take(&mut whole, at, 1);
    algorithm.take(&mut packed, at, 1);
    whole == packed
}

#[cfg(all(test, not(loom)))]
mod tests;
