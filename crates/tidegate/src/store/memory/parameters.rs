//! The checked limits of one rule, with the memory that states under them need.

use tidegate_core::Room;

use super::budget::Need;
use super::heap::need_of;

/// The limits of one rule.
#[derive(Debug)]
pub(super) struct Parameters<R: Room> {
    pub(super) room: R,
    /// Heap bytes that a state under them needs.
    pub(super) heap: Need,
}

impl<R: Room> Parameters<R> {
    pub(super) fn new(room: R) -> Self {
        Self { heap: need_of(&room), room }
    }

    /// Parameters of states that fit words, and so need no memory of their own.
    pub(super) const fn packed(room: R) -> Self {
        Self { heap: Need { first: 0, next: 0 }, room }
    }
}
