//! How the states of a rule are kept: chosen once, when its table is built.

use std::sync::Arc;

use tidegate_core::{Packing, Room, Timestamp, Visitor};

use super::budget::Budget;
use super::later::Later;
use super::packed::Packed;
use super::table::Table;
use super::whole::Whole;
use crate::key::Fingerprint;
use crate::rules::OnFull;

/// What a table is built with.
#[derive(Clone, Debug)]
pub(crate) struct Build<'a> {
    /// What packed times count from; `None` where the clock may step back.
    pub(super) base: Option<Timestamp>,
    pub(super) budget: &'a Arc<Budget>,
    pub(super) on_full: OnFull,
    /// What decides once the table is closed.
    pub(super) later: Arc<Later<dyn Table>>,
}

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

impl Build<'_> {
    /// The table of a room that begins with some limiters: packed where the room can do that and the
    /// clock never steps back.
    pub(super) fn table<R: Room>(
        &self,
        room: R,
        from: Inherited<R>,
        now: Timestamp,
    ) -> Box<dyn Table> {
        let (budget, on_full, later) =
            (Arc::clone(self.budget), self.on_full, Arc::clone(&self.later));
        match self.base.filter(|_| self.packs(&room)) {
            Some(base) => {
                let table = Packed::new(room, base, budget, on_full, later);
                table.inherit(from, now);
                Box::new(table)
            }
            None => {
                let table = Whole::new(room, budget, on_full, later);
                table.inherit(from);
                Box::new(table)
            }
        }
    }

    /// Whether the states of a room are packed.
    pub(super) fn packs<R: Room>(&self, room: &R) -> bool {
        self.base.is_some() && room.packing() == Packing::One
    }
}

impl Visitor for Build<'_> {
    type Out = Box<dyn Table>;

    fn visit<R: Room>(self, room: &R) -> Box<dyn Table> {
        self.table(room.clone(), Inherited::default(), Timestamp::EPOCH)
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
