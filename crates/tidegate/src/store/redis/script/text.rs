//! The text of scripts: whole files, joined.

use tidegate_core::{AlgorithmKind, Closed, MULDIV, Scripted};

use super::id::{Id, Runner};

const PRELUDE: &str = include_str!("prelude.lua");
const AMEND: &str = include_str!("amend.lua");
const ROOM: &str = include_str!("room.lua");
const DISPATCH: &str = include_str!("dispatch.lua");
const BATCH: &str = include_str!("batch.lua");
const EACH: &str = include_str!("each.lua");
/// Forgets limiters.
pub(super) const RESET: &str = include_str!("reset.lua");

/// The text of a script.
pub(super) fn of(id: Id) -> String {
    let mut files = vec![PRELUDE];
    if id.amends {
        files.extend([MULDIV, AMEND]);
    }
    files.extend(algorithms(id.kinds));
    files.extend(id.has_bounds.then_some(ROOM));
    files.push(match id.runner {
        Runner::Dispatch => DISPATCH,
        Runner::Batch => BATCH,
        Runner::Each => EACH,
    });
    files.join("\n")
}

/// The files of the algorithms whose bits are set in `kinds`, including that of a limit of 0 without a window;
/// each once.
fn algorithms(kinds: u32) -> Vec<&'static str> {
    let scripts = AlgorithmKind::ALL.iter().flat_map(|algorithm| algorithm.scripts());
    let mut files: Vec<&'static str> = Vec::new();
    for script in scripts.chain(Closed::SCRIPTS).filter(|script| kinds >> script.kind & 1 == 1) {
        if !files.contains(&script.text) {
            files.push(script.text);
        }
    }
    files
}
