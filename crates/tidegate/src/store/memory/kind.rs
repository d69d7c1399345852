//! How the states of a rule are kept: chosen once, when its table is built.

use std::sync::Arc;

use tidegate_core::{Algorithm, Timestamp, Visitor};

use super::inherited::Inherited;
use super::packed::Packed;
use super::sharded::Sharded;
use super::table::{Build, Table};

impl Build<'_> {
    /// The table of an algorithm that begins with some limiters: packed where the algorithm can do that and the
    /// clock never steps back.
    pub(super) fn table<R: Algorithm>(
        &self,
        algorithm: R,
        from: Inherited<R>,
        now: Timestamp,
    ) -> Box<dyn Table> {
        let (budget, on_full, later) =
            (Arc::clone(self.budget), self.on_full, Arc::clone(&self.later));
        match self.base.filter(|_| self.packs(&algorithm)) {
            Some(base) => {
                let table = Packed::new(algorithm, base, budget, on_full, later);
                table.inherit(from, now);
                Box::new(table)
            }
            None => Box::new(Sharded::of_one_rule(algorithm, from, budget, on_full, later)),
        }
    }
}

impl Visitor for Build<'_> {
    type Out = Box<dyn Table>;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Box<dyn Table> {
        self.table(algorithm.clone(), Inherited::default(), Timestamp::EPOCH)
    }
}
