//! How the states of a rule are kept: chosen once, when its table is built.

use std::sync::Arc;

use tidegate_core::{Packing, Room, Timestamp, Visitor};

use super::budget::Budget;
use super::later::Later;
use super::packed::Packed;
use super::table::{OnFull, Table};
use super::whole::Whole;
use crate::key::Fingerprint;

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
    /// The table of a room that begins with some limiters: packed where the room can do that, the
    /// clock never steps back, and none of them would be cut off.
    pub(super) fn table<R: Room>(
        &self,
        room: R,
        from: Inherited<R>,
        now: Timestamp,
    ) -> Box<dyn Table> {
        let (budget, on_full, later) =
            (Arc::clone(self.budget), self.on_full, Arc::clone(&self.later));
        match self.base.filter(|base| can_be_packed(&room, *base, &from, now)) {
            Some(base) => {
                let table = Packed::new(room, base, budget, on_full, later);
                table.inherit(from);
                Box::new(table)
            }
            None => {
                let table = Whole::new(room, budget, on_full, later);
                table.inherit(from);
                Box::new(table)
            }
        }
    }

    /// Whether the states of a room are packed, if none has to be cut off for it.
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

fn can_be_packed<R: Room>(room: &R, base: Timestamp, from: &Inherited<R>, now: Timestamp) -> bool {
    let stays = |state: &R::State| {
        let packed = room.unpack(base, room.pack(base, state));
        room.used(&packed, now) == room.used(state, now)
    };
    room.packing() == Packing::One && from.limiters.iter().all(|(_, state)| stays(state))
}
