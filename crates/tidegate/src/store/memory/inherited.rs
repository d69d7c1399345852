//! What a table begins with, and whether a state can be packed.

use tidegate_core::{Algorithm, Timestamp};

use crate::key::Fingerprint;

/// Limiters that a table begins with, each with its fingerprint, and the one shared by keys without
/// algorithm.
pub(super) struct Inherited<R: Algorithm> {
    pub(super) limiters: Vec<(Fingerprint, R::State)>,
    pub(super) shared: Option<R::State>,
}

impl<R: Algorithm> Default for Inherited<R> {
    fn default() -> Self {
        Self { limiters: Vec::new(), shared: None }
    }
}

/// Whether nothing of a state is cut off when it is packed. The time of its last unit is not packed, so
/// both are compared as they are after one unit more.
pub(super) fn stays_whole<R: Algorithm>(
    algorithm: &R,
    base: Timestamp,
    state: &R::State,
    now: Timestamp,
) -> bool {
    let (mut whole, mut packed) =
        (state.clone(), algorithm.unpack(base, algorithm.pack(base, state)));
    let at = algorithm.advance(&mut whole, now);
    algorithm.take(&mut whole, at, 1);
    algorithm.take(&mut packed, at, 1);
    whole == packed
}
