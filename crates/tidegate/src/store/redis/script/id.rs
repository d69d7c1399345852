//! The properties by which one script differs from another.

use super::step::Step;

/// The properties of a script; scripts of equal properties are the same text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Id {
    pub(super) form: Form,
    pub(super) step: Step,
    /// A bit for each kind of algorithm in the call.
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

/// The requests that a script can decide.
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
