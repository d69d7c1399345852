//! How the states of a rule are kept: chosen once, when its table is built.

use std::sync::Arc;

use tidegate_core::{Room, Timestamp, Visitor};

use super::inherited::Inherited;
use super::packed::Packed;
use super::sharded::Sharded;
use super::table::{Build, Table};

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
            None => Box::new(Sharded::of_one_rule(room, from, budget, on_full, later)),
        }
    }
}

impl Visitor for Build<'_> {
    type Out = Box<dyn Table>;

    fn visit<R: Room>(self, room: &R) -> Box<dyn Table> {
        self.table(room.clone(), Inherited::default(), Timestamp::EPOCH)
    }
}
