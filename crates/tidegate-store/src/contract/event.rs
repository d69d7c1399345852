//! Events of a store that are not decisions: it is lost or back, overloaded, or set up in a way that breaks limits, as a
//! finding says.
//!
//! The store and the layers over it report each event once. A gate hands it to the function that its caller gave
//! it, which the server logs.

use std::fmt;
use std::time::Duration;

use tidegate_core::Shown;
use tidegate_rules::shared::StoreError;

/// Called with events of a store, and of the layers over it.
pub type OnEvent = std::sync::Arc<dyn Fn(StoreEvent<'_>) + Send + Sync>;

/// An event of the store: reported once, not for each request that notices.
///
/// ```no_run
/// use tidegate::{Policy, SharedGate, SharedGateError, StoreEvent, StoreSettings, StoreUrl};
///
/// fn gate(policy: Policy, url: StoreUrl) -> Result<SharedGate, SharedGateError> {
///     SharedGate::new(policy, StoreSettings::new(url), |event| eprintln!("{event}"))
/// }
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum StoreEvent<'a> {
    /// The store is unavailable from now on, for this reason; rules decide by their own `on_store_error`.
    Lost(&'a StoreError),
    /// The store is still unavailable, now for another reason. A reason that an operator has to correct (the store
    /// refuses this user, or cannot be asked) is reported at once; any other reason when several checks in a row find
    /// it. A reason is reported again only after another reason.
    StillLost(&'a StoreError),
    /// The store is available again, and decisions are exact.
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
    /// The store is available, but did not run a step for this reason: a key that another program has
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
    /// ([`StoreSettings::nodes`](tidegate_rules::settings::StoreSettings)): this node's share of each limit changes
    /// accordingly.
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
    /// The store answers, but does not decide every request in time; or many requests wait for a store that has been
    /// silent too briefly to count as unavailable. Rules that are `local` or `open` decide the other requests in this
    /// process, and rules that are `closed` refuse them. Reported with the second such request within a second,
    /// because one alone may be chance.
    Overloaded,
    /// The store has decided every request in time for a second.
    OverloadEnded {
        /// The requests that it did not decide during the whole overload.
        undecided: u64,
    },
    /// Eight leases in a row were granted too late to be spent, or not answered, so the store decides requests that
    /// leases should decide: their life is too short for the time of its replies, or it is silent.
    LeasesLate {
        /// The rule of the last of these leases.
        rule: &'a str,
    },
    /// After that a reply to a question for a lease came in time.
    LeasesInTime,
    /// The store lost data: it was restarted without its file, was flushed, or a replica without the last writes took
    /// its place. Reported five seconds after the first of these limiters was asked.
    DataLost {
        /// The number of limiters whose units in use this process has carried there since.
        limiters: u64,
    },
    /// A property of its setup can make limits fail; reported once each.
    Finding(&'a Finding),
}

/// One sentence, without a line break. It leaves out the key of [`StoreEvent::Undecided`], which contains values that
/// callers choose.
///
/// ```
/// use tidegate::{StoreError, StoreEvent};
///
/// let event = StoreEvent::Lost(&StoreError::Timeout);
/// assert!(event.to_string().starts_with("the store is unavailable: "));
/// assert_eq!(StoreEvent::Nodes(3).to_string(), "3 nodes share the store");
/// ```
impl fmt::Display for StoreEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(error) => write!(
                f,
                "the store is unavailable: {error}; rules decide by their `on_store_error` until it is back"
            ),
            Self::StillLost(error) => {
                write!(f, "the store is still unavailable, now for another reason: {error}")
            }
            Self::Back => f.write_str("the store is back; decisions are exact again"),
            Self::PartLost { first_slot, last_slot, error } => write!(
                f,
                "the node of the slots {first_slot} to {last_slot} is unavailable: {error}; rules decide about its \
                 keys by their `on_store_error` until it is back"
            ),
            Self::PartBack { first_slot, last_slot } => write!(
                f,
                "the node of the slots {first_slot} to {last_slot} is back; decisions about its keys are exact again"
            ),
            Self::Undecided { error, .. } => {
                write!(f, "the store is available and did not decide a request: {error}")
            }
            Self::Nodes(nodes) => write!(f, "{nodes} nodes share the store"),
            Self::NoShare { rules, nodes } => write!(
                f,
                "{nodes} nodes share the store, more than the units of a limit: some nodes have no share of {}",
                rules.join(", ")
            ),
            Self::Overloaded => f.write_str(
                "the store does not decide every request in time; rules that are `closed` refuse the other requests, \
                 and this process decides them for all other rules",
            ),
            Self::OverloadEnded { undecided } => write!(
                f,
                "the store decides every request in time again; it left {undecided} requests undecided"
            ),
            Self::LeasesLate { rule } => write!(
                f,
                "leases of the rule `{rule}` are granted too late to be spent, or not at all; the store decides each \
                 request"
            ),
            Self::LeasesInTime => f.write_str("leases are granted in time again"),
            Self::DataLost { limiters } => write!(
                f,
                "the store lost data; the units in use of {limiters} limiters were carried there"
            ),
            Self::Finding(finding) => write!(f, "{finding}"),
        }
    }
}

/// The function that receives events.
pub type StoreObserver = Box<dyn Fn(StoreEvent<'_>) + Send + Sync>;

/// The oldest version with all commands that the scripts need.
pub const LEAST_VERSION: (u32, u32) = (6, 2);

/// A property of the store that can make limits fail.
///
/// ```
/// use tidegate::{Finding, StoreEvent};
///
/// /// An observer of a `SharedGate`: limits that can vanish are worth a page at night.
/// fn observe(event: StoreEvent<'_>) {
///     match event {
///         StoreEvent::Finding(Finding::Evicts { policy }) => eprintln!("limits may vanish: {policy}"),
///         StoreEvent::Finding(finding) => eprintln!("{finding}"),
///         _ => {}
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// It drops keys when memory is short, and with them limits.
    Evicts {
        /// Its `maxmemory-policy`.
        policy: String,
    },
    /// It is older than the oldest tested version.
    OldVersion {
        /// The version that it reports.
        version: String,
    },
    /// The user may not read its setup (at one node of a cluster or more), so other findings may be
    /// missing.
    MayNotLook {
        /// The server's error.
        message: String,
    },
    /// Clocks of the cluster's primaries differ: a key whose slot moves gets another time.
    ClocksApart {
        /// The difference.
        by: Duration,
    },
}

impl Finding {
    /// Returns whether both are the same kind of finding, with any values.
    #[doc(hidden)]
    pub fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evicts { policy } => write!(
                f,
                "the store evicts keys when memory is short, and limits with them: \
                 `maxmemory-policy` is {policy}, expected noeviction"
            ),
            Self::OldVersion { version } => write!(
                f,
                "the store is version {version}: expected {}.{} or later",
                LEAST_VERSION.0, LEAST_VERSION.1
            ),
            Self::MayNotLook { message } => write!(
                f,
                "it is not known if the store evicts keys or is too old: expected a user with the \
                 right `+info` ({message})"
            ),
            Self::ClocksApart { by } => write!(
                f,
                "the clocks of the cluster's primaries are {} apart: expected them synchronised",
                Shown(*by)
            ),
        }
    }
}
