//! Findings about the setup of a store.

use std::fmt;
use std::time::Duration;

use tidegate_core::Shown;

/// The oldest version with all commands that the scripts need.
pub(crate) const LEAST_VERSION: (u32, u32) = (6, 2);

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
    pub(crate) fn is_like(&self, other: &Self) -> bool {
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
