//! The text of scripts: whole files, joined.

use tidegate_core::{AlgorithmKind, Closed, MULDIV, Script, Scripted};

use super::id::{Runner, ScriptId};

const PRELUDE: &str = include_str!("prelude.lua");
const AMEND: &str = include_str!("amend.lua");
const BAR: &str = include_str!("bar.lua");
const GIVE_BACK: &str = include_str!("give_back.lua");
const SPACE: &str = include_str!("space.lua");
const DISPATCH: &str = include_str!("dispatch.lua");
const LEASE: &str = include_str!("lease.lua");
const BATCH: &str = include_str!("batch.lua");
const EACH: &str = include_str!("each.lua");
/// Removes limiters.
pub(super) const REMOVE: &str = include_str!("reset.lua");
/// Runs an operation on the record of a reservation.
pub(super) const RESERVED: &str = include_str!("reserved.lua");

/// The text of a script.
pub(super) fn of(id: ScriptId) -> String {
    let mut files = vec![PRELUDE];
    if id.amends || id.settles {
        files.extend([MULDIV, BAR]);
    }
    files.extend(id.amends.then_some(AMEND));
    // The record of a lease has all data about its units.
    let settles = id.settles && id.runner != Runner::Lease;
    files.extend(settles.then_some(GIVE_BACK));
    files.extend(algorithms(id.kinds, |script| script.text));
    files.extend(id.has_bounds.then_some(SPACE));
    match id.runner {
        Runner::Dispatch => files.push(DISPATCH),
        Runner::Lease => {
            files.extend(algorithms(id.kinds, |script| script.lease));
            files.extend([LEASE, DISPATCH]);
        }
        Runner::Batch => files.push(BATCH),
        Runner::Each => files.push(EACH),
    }
    files.join("\n")
}

/// The files of the algorithms whose bits are set in `kinds`, including the file of a limit of 0 without a window; each
/// once.
fn algorithms(kinds: u32, file: impl Fn(&Script) -> &'static str) -> Vec<&'static str> {
    let scripts = AlgorithmKind::ALL.iter().flat_map(|algorithm| algorithm.scripts());
    let mut files: Vec<&'static str> = Vec::new();
    for script in scripts.chain(Closed::SCRIPTS).filter(|script| kinds >> script.kind & 1 == 1) {
        let file = file(script);
        if !file.is_empty() && !files.contains(&file) {
            files.push(file);
        }
    }
    files
}
