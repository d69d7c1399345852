//! The text of scripts: whole files, joined.

use std::time::Duration;

use tidegate_core::{AlgorithmKind, Layout, MULDIV, Rule, Spec};

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
    let window = Duration::from_secs(1);
    let specs = AlgorithmKind::ALL.iter().map(|algorithm| Spec::new(*algorithm, 1, window));
    let mut sorted_set = Spec::new(AlgorithmKind::SlidingLog, 1, window);
    sorted_set.layout = Some(Layout::SortedSet);
    let mut closed = Spec::new(AlgorithmKind::FixedWindow, 0, window);
    closed.window = None;
    let scripts = specs
        .chain([sorted_set, closed])
        .filter_map(|spec| Some(Rule::new(spec).ok()?.script_input(0)?.script));
    let mut files: Vec<&'static str> = Vec::new();
    for script in scripts.filter(|script| kinds >> script.kind & 1 == 1) {
        if !files.contains(&script.text) {
            files.push(script.text);
        }
    }
    files
}
