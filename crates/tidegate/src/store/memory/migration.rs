//! The way of limiters from the tables of a rule to those that succeed them: those that nobody met.

use tidegate_core::{Field, RuleError, RuleErrors};

use super::build::SharedTable;
use super::table::Table;
use crate::key::Fingerprint;

/// Tables that are to be emptied, each with the one that succeeds it, if there is one.
#[derive(Default)]
pub(super) struct Migrations(pub(super) Vec<(SharedTable, Option<SharedTable>)>);

impl Migrations {
    /// Moves what no step has met.
    pub(super) fn run(self) {
        for (old, new) in &self.0 {
            match new {
                Some(new) => sweep(old, new),
                None => drain(old),
            }
        }
        let new = self.0.iter().filter_map(|(_, new)| new.as_ref());
        new.for_each(|new| new.succession().end());
    }
}

/// Moves all limiters that are left in an old table into the one that succeeds it, one at a time.
pub(super) fn sweep(old: &SharedTable, new: &SharedTable) {
    limiters(&**old).for_each(|fingerprint| new.adopt(fingerprint));
    new.adopt_overflow();
    // Of several old tables only the first one's is adopted.
    drop(old.take_overflow());
}

/// Drops all limiters of a table that nothing succeeds.
pub(super) fn drain(old: &SharedTable) {
    let budget = old.budget();
    limiters(&**old).for_each(|fingerprint| {
        drop(old.take_out(fingerprint));
        budget.release(1);
    });
    drop(old.take_overflow());
}

/// The limiters of a table that is not asked any more, part by part: none comes, and none comes back to a part
/// that was looked at.
fn limiters(old: &dyn Table) -> impl Iterator<Item = Fingerprint> {
    (0..).map_while(|part| old.fingerprints(part)).flatten()
}

/// The mistake of a memory in which the limiters that there are have no room.
pub(super) fn too_small(given: usize, bytes: usize, limiters: usize) -> RuleErrors {
    RuleErrors::from(RuleError::OutOfRange {
        field: Field::MaxMemory,
        given: given.to_string(),
        expected: format!(
            "at least the {bytes} bytes that the {limiters} limiters in use would take"
        ),
    })
}
