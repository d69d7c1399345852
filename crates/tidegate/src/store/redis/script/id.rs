//! The properties that distinguish scripts.

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
    /// The last file.
    pub(super) runner: Runner,
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

/// The form of a call, and so of its reply: its verb, and one limiter or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CallForm {
    One,
    Several,
    /// One limiter or several, and some may have been written under another rule.
    Amending,
    /// Any number of limiters, each under whatever rule it was written.
    GivingBack,
    /// Forgets any number of limiters.
    Resetting,
}
