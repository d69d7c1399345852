//! The scripts that were made so far: each is made once, when it is first needed.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use sha1_smol::Sha1;

use super::call::Step;
use super::text;

/// What tells one script from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Id {
    pub(super) form: Form,
    pub(super) step: Step,
    /// A bit for each kind of room in the call.
    pub(super) kinds: u32,
    /// Whether the time is an argument, and not the server's.
    pub(super) time_given: bool,
    /// Whether the answer is kept for when the same is asked again.
    pub(super) remembers: bool,
    /// Whether there are figures that come in force only with what is taken under them.
    pub(super) tries: bool,
    /// Whether a limiter is asked for what it does not take.
    pub(super) looks: bool,
    /// Whether a rule keeps so many keys at most.
    pub(super) counts: bool,
    /// Whether the server has no memory for limiters that begin.
    pub(super) no_memory: bool,
}

/// What a script can be asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Form {
    One,
    Several,
    /// Several, or one, of which some may have been written under another rule.
    Amending,
    /// Any, each under whatever rule it was written.
    GivingBack,
    /// Several requests, each of any limiters.
    Batch,
}

/// A script as a server knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Script {
    /// The text, for `EVAL` or `SCRIPT LOAD`.
    pub text: String,
    /// The hexadecimal SHA-1 of the text, for `EVALSHA`.
    pub sha1: String,
}

impl Script {
    pub(crate) fn new(text: String) -> Self {
        let sha1 = Sha1::from(&text).digest().to_string();
        Self { text, sha1 }
    }
}

/// At most one for each set of algorithms that meet on a request.
static KNOWN: LazyLock<RwLock<HashMap<Id, Arc<Script>>>> = LazyLock::new(RwLock::default);

/// The script of `id`.
pub(super) fn script(id: Id) -> Arc<Script> {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
    known.unwrap_or_else(|| {
        let mut all = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(id).or_insert_with(|| Arc::new(Script::new(text::of(id)))))
    })
}
