//! Why a store took no decision. The fallback layer decides by it in place of the store, and events and logs print
//! it.

use std::fmt;

/// Why the store took no decision.
///
/// ```
/// use tidegate::StoreError;
///
/// /// Returns true if an operator has to act before the store decides again.
/// fn needs_operator(error: &StoreError) -> bool {
///     matches!(error, StoreError::Denied(_) | StoreError::ReadOnly | StoreError::OutOfMemory)
/// }
/// assert!(needs_operator(&StoreError::ReadOnly) && !needs_operator(&StoreError::Timeout));
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// No answer came in time. Units may have been taken, so the store is not asked again.
    Timeout,
    /// It cannot be reached, or the connection was lost.
    Unreachable(String),
    /// It was unavailable a moment ago, and is checked again soon; nothing was sent.
    Away,
    /// It answers, but cannot decide this in time. Nothing was taken, or units that it took are
    /// given back.
    Overloaded {
        /// True if other requests ask for one of its keys at the same time.
        together: bool,
    },
    /// `-OOM`: it has no memory for the write.
    OutOfMemory,
    /// `-READONLY`: it is a replica, on which nothing is ever decided.
    ReadOnly,
    /// `-MISCONF`, `-NOREPLICAS`: it accepts no writes, because it could not keep them as
    /// configured.
    TakesNoWrites(String),
    /// `-BUSY`: another client's script keeps it from answering.
    Busy,
    /// `-LOADING`: it reads its data after a start.
    Loading,
    /// `-CROSSSLOT`: the limiters of one request live on different nodes of a cluster.
    CrossSlot,
    /// The cluster does not serve the key at this moment.
    ClusterDown(String),
    /// The password or the certificates to trust cannot be read; nothing was sent.
    Unreadable(String),
    /// It does not let this user in, or forbids a command.
    Denied(String),
    /// Any other error.
    Refused(String),
    /// A limiter was written by nodes of another version, which this version cannot read. It is left unchanged.
    OtherVersion(String),
    /// Its answer is not the answer of a script.
    Answer(String),
}

/// Returns whether an error says that the server will not answer other requests either.
pub const fn is_of_server(error: &StoreError) -> bool {
    match error {
        StoreError::Timeout
        | StoreError::Unreachable(_)
        | StoreError::ReadOnly
        | StoreError::TakesNoWrites(_)
        | StoreError::Busy
        | StoreError::Loading
        | StoreError::ClusterDown(_)
        | StoreError::Unreadable(_)
        | StoreError::Denied(_) => true,
        StoreError::Away
        | StoreError::Overloaded { .. }
        | StoreError::OutOfMemory
        | StoreError::CrossSlot
        | StoreError::Refused(_)
        | StoreError::OtherVersion(_)
        | StoreError::Answer(_) => false,
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("the store did not answer in time"),
            Self::Unreachable(text) => write!(f, "the store cannot be reached: {text}"),
            Self::Away => f.write_str("the store is away; it is looked at again soon"),
            Self::Overloaded { .. } => {
                f.write_str("the store is asked for more than it decides in time")
            }
            Self::OutOfMemory => f.write_str(
                "the store has no memory left: expected a `maxmemory` that holds all limiters",
            ),
            Self::ReadOnly => {
                f.write_str("the store is a replica: expected the address of the primary")
            }
            Self::TakesNoWrites(text) => write!(f, "the store takes no writes: {text}"),
            Self::Busy => f.write_str("the store is kept busy by a script that does not end"),
            Self::Loading => f.write_str("the store is still reading its data"),
            Self::CrossSlot => f.write_str(
                "the limiters of one request live in different slots of the cluster: expected rules \
                 whose `hash_tag` names one entry that all of them have in their key",
            ),
            Self::ClusterDown(text) => write!(f, "the cluster has no answer: {text}"),
            Self::Unreadable(text) => write!(f, "the store cannot be asked: {text}"),
            Self::Denied(text) => write!(f, "the store does not let this user do it: {text}"),
            Self::Refused(text) => write!(f, "the store refuses: {text}"),
            Self::OtherVersion(text) => write!(f, "nodes of two versions share the store: {text}"),
            Self::Answer(text) => write!(f, "the store answers what it should not: {text}"),
        }
    }
}

tidegate_core::debug_as_display!(StoreError);

impl std::error::Error for StoreError {}
