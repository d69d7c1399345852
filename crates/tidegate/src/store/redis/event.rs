//! Events of a store that are not decisions.

use super::audit::Finding;
use super::error::StoreError;

/// An event of the store: reported once, not for each request that notices.
///
/// ```no_run
/// use tidegate::{Policy, SharedGate, SharedGateError, StoreEvent, StoreSettings, StoreUrl};
///
/// fn gate(policy: Policy, url: StoreUrl) -> Result<SharedGate, SharedGateError> {
///     SharedGate::new(policy, StoreSettings::new(url), |event| match event {
///         StoreEvent::Lost(error) => eprintln!("rules decide by `on_store_error`: {error}"),
///         StoreEvent::Back => eprintln!("decisions are exact again"),
///         other => eprintln!("{other:?}"),
///     })
/// }
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum StoreEvent<'a> {
    /// It is unavailable from now on, for this reason; rules decide by their own `on_store_error`.
    Lost(&'a StoreError),
    /// It is still unavailable, now for another reason: one that somebody has to correct (it does
    /// not let this user in, refuses, or cannot be asked), or any that several checks found.
    /// Reported once for each in a row.
    StillLost(&'a StoreError),
    /// It is available again, and decisions are exact.
    Back,
    /// The node that decides about the keys of these slots of a cluster is unavailable, for this
    /// reason; rules decide about them by their own `on_store_error`, and the store decides about
    /// all other keys.
    PartLost {
        /// The first slot of the range.
        first_slot: u16,
        /// Its last slot.
        last_slot: u16,
        /// The reason.
        error: &'a StoreError,
    },
    /// Such a range is served again. [`Back`](Self::Back) reports it for all ranges together.
    PartBack {
        /// The first slot of the range.
        first_slot: u16,
        /// Its last slot.
        last_slot: u16,
    },
    /// It is available, but did not run a step for this reason: a key that another program has
    /// written, one of another version, values it cannot hold, too many requests. The decision was
    /// taken without it; without memory ([`StoreError::OutOfMemory`]) a new key was refused.
    /// Reported once a minute for each kind of reason.
    Undecided {
        /// The first key of the request, with its prefix.
        key: &'a [u8],
        /// The reason.
        error: &'a StoreError,
    },
    /// The number of nodes that share the store and are listed there
    /// ([`StoreSettings::nodes`](crate::StoreSettings)): this one's share of each limit follows.
    Nodes(u64),
    /// There are more nodes than units in a limit of these rules, so some of the nodes have no
    /// share of it, and deny every request that they decide without the store. Reported once for
    /// each rule.
    NoShare {
        /// The rules' names.
        rules: &'a [&'a str],
        /// The number of nodes.
        nodes: u64,
    },
    /// It answers, but there is more load than it decides in time, or many wait for it and it has been
    /// silent for less than a few deadlines: the other requests are decided
    /// in process by rules that are `local` or `open`, and refused by rules that are `closed`.
    /// Reported with the second such request within a second; one alone may be chance.
    Overloaded,
    /// It has decided every request in time for a second.
    OverloadEnded {
        /// The requests that it did not decide in that time.
        undecided: u64,
    },
    /// A property of its setup can make limits fail; reported once each.
    Finding(&'a Finding),
}

/// The function that receives events.
pub(crate) type Observer = Box<dyn Fn(StoreEvent<'_>) + Send + Sync>;
