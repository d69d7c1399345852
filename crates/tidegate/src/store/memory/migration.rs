//! The migration of limiters that no step has asked, from the tables of a rule to their successors.
//!
//! `replace` runs it after a policy is published, and `alone` after a change of its rule. Steps go on: each moves
//! its own limiters first, and this moves the others.

use tidegate_core::{Field, RuleError, RuleErrors};

use super::table::{Table, TableInForce};
use crate::key::Fingerprint;

/// Tables to be emptied.
#[derive(Default)]
pub(super) struct Migrations {
    /// Each with its successor.
    pub(super) succeeded: Vec<(TableInForce, TableInForce)>,
    /// Tables whose limiters are dropped.
    pub(super) ended: Vec<TableInForce>,
}

impl Migrations {
    /// Moves or drops all limiters that no step has moved.
    pub(super) fn run(self) {
        self.succeeded.iter().for_each(|(old, new)| sweep(&**old, &**new));
        // Afterwards, because a table may succeed several tables.
        self.succeeded.iter().for_each(|(_, new)| new.succession().end());
        for old in &self.ended {
            for fingerprint in limiters(&**old) {
                drop(old.take_out(fingerprint));
                old.budget().release(1);
            }
            drop(old.overflow().take_out());
        }
    }
}

/// Moves all limiters left in an old table into its successor, one at a time.
pub(super) fn sweep(old: &dyn Table, new: &dyn Table) {
    limiters(old).for_each(|fingerprint| new.adopt(fingerprint));
    new.overflow().adopt();
    // A table that succeeds several tables adopts only the first table's overflow limiter.
    drop(old.overflow().take_out());
}

/// Iterates over the limiters of a table that is not asked any more, part by part: no limiter comes into a part that
/// was read.
fn limiters(old: &dyn Table) -> impl Iterator<Item = Fingerprint> {
    // Each part is unlocked before its limiters are moved, because the new table is locked first.
    (0..).map_while(|part| old.fingerprints(part)).flatten()
}

/// The error for a memory cap that is too small for the existing limiters.
pub(super) fn too_small(given: usize, bytes: usize, limiters: usize) -> RuleErrors {
    RuleErrors::from(RuleError::OutOfRange {
        field: Field::MaxMemory,
        given: given.to_string(),
        expected: format!(
            "at least the {bytes} bytes that the {limiters} limiters in use would take"
        ),
    })
}
