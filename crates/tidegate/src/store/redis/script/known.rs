//! The scripts made so far: each is made once, when it is first needed.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use sha1_smol::Sha1;

use super::id::ScriptId;
use super::text;

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
        Self::new(text::RESERVED.to_owned())
    }
}

/// At most one for each set of algorithms that a request combines.
static KNOWN: RwLock<BTreeMap<ScriptId, Arc<JoinedScript>>> = RwLock::new(BTreeMap::new());

pub(super) fn script(id: ScriptId) -> Arc<JoinedScript> {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
    known.unwrap_or_else(|| {
        let mut all = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(id).or_insert_with(|| Arc::new(JoinedScript::new(text::of(id)))))
    })
}
