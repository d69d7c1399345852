//! The properties by which one script differs from another.

use super::step::Step;

/// The properties of a script; scripts with equal properties have the same text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Id {
    pub(super) form: Form,
    pub(super) step: Step,
    /// A bit for each kind of algorithm in the call.
    pub(super) kinds: u32,
    /// Whether the time is an argument instead of the server's.
    pub(super) time_given: bool,
    /// Whether the answer is remembered under an id.
    pub(super) remembers: bool,
    /// Whether a limiter's values may come in force only with units taken under them.
    pub(super) tries: bool,
    /// Whether a limiter is asked for a unit that it does not take.
    pub(super) looks: bool,
    /// Whether a rule keeps a bounded number of keys.
    pub(super) counts: bool,
    /// Whether the server has no memory for new limiters.
    pub(super) no_memory: bool,
}

/// The kinds of decisions that a script can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Form {
    One,
    Several,
    /// Several limiters, or one, some of which may have been written under another rule.
    Amending,
    /// Any number of limiters, each under whatever rule it was written.
    GivingBack,
    /// Several requests, each over any limiters.
    Batch,
}
