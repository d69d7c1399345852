//! Scripts: whole files, joined, each made once, when it is first needed.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use sha1_smol::Sha1;
use tidegate_core::{AlgorithmKind, Closed, MULDIV, Script, Scripted};

const PRELUDE: &str = include_str!("prelude.lua");
const AMEND: &str = include_str!("amend.lua");
const BAR: &str = include_str!("bar.lua");
const GIVE_BACK: &str = include_str!("give_back.lua");
const SPACE: &str = include_str!("space.lua");
const CARRY: &str = include_str!("carry.lua");
const DISPATCH: &str = include_str!("dispatch.lua");
const LEASE: &str = include_str!("lease.lua");
const BATCH: &str = include_str!("batch.lua");
const EACH: &str = include_str!("each.lua");
/// Removes limiters.
pub(super) const REMOVE: &str = include_str!("reset.lua");
/// Runs an operation on the record of a reservation.
const RESERVED: &str = include_str!("reserved.lua");

/// A script with its digest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JoinedScript {
    /// The text, for `EVAL` or `SCRIPT LOAD`.
    pub text: String,
    /// The hexadecimal SHA-1 of the text, for `EVALSHA`.
    pub sha1: String,
}

impl JoinedScript {
    pub(crate) fn new(text: String) -> Self {
        let sha1 = Sha1::from(&text).digest().to_string();
        Self { text, sha1 }
    }

    /// The script of the records of reservations.
    pub(crate) fn reserved() -> Self {
        Self::new(RESERVED.to_owned())
    }
}

/// The files of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ScriptId {
    /// A bit for each kind of algorithm in the call.
    pub(super) kinds: u32,
    /// True if limiters may have been written under another rule.
    pub(super) amends: bool,
    /// True if units are settled or undone.
    pub(super) settles: bool,
    /// True if there may be no space for new keys.
    pub(super) has_bounds: bool,
    /// True if units are carried to a store that may have lost them.
    pub(super) carries: bool,
    /// The last file.
    pub(super) runner: Runner,
}

impl ScriptId {
    /// The script of these kinds of algorithm that neither amends nor settles nor carries, and has no bounds.
    pub(super) const fn new(kinds: u32, runner: Runner) -> Self {
        Self { kinds, amends: false, settles: false, has_bounds: false, carries: false, runner }
    }
}

/// The file that runs steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Runner {
    /// One step.
    Dispatch,
    /// One step that takes a lease.
    Lease,
    /// Several requests, whose limiters may be the same.
    Batch,
    /// Several requests of one limiter each.
    Each,
}

/// At most one for each set of algorithms that a request combines.
static KNOWN: RwLock<BTreeMap<ScriptId, Arc<JoinedScript>>> = RwLock::new(BTreeMap::new());

pub(super) fn script(id: ScriptId) -> Arc<JoinedScript> {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
    known.unwrap_or_else(|| {
        let mut all = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(id).or_insert_with(|| Arc::new(JoinedScript::new(text_of(id)))))
    })
}

/// The text of a script.
fn text_of(id: ScriptId) -> String {
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
    files.extend(id.carries.then_some(CARRY));
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
