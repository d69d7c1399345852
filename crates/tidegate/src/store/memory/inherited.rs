//! What a table begins with, and whether a state can be packed.

use tidegate_core::{Room, Timestamp};

use crate::key::Fingerprint;

/// Limiters that a table begins with, each with its fingerprint, and the one shared by keys without
/// room.
pub(super) struct Inherited<R: Room> {
    pub(super) limiters: Vec<(Fingerprint, R::State)>,
    pub(super) shared: Option<R::State>,
}

impl<R: Room> Default for Inherited<R> {
    fn default() -> Self {
        Self { limiters: Vec::new(), shared: None }
    }
}

/// Whether nothing of a state is cut off when it is packed. The time of its last unit is not packed, so
/// both are compared as they are after one unit more.
pub(super) fn stays_whole<R: Room>(
    room: &R,
    base: Timestamp,
    state: &R::State,
    now: Timestamp,
) -> bool {
    let (mut whole, mut packed) = (state.clone(), room.unpack(base, room.pack(base, state)));
    let at = room.advance(&mut whole, now);
    room.take(&mut whole, at, 1);
    room.take(&mut packed, at, 1);
    whole == packed
}
