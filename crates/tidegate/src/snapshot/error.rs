//! The reasons for which a snapshot is refused.
//!
//! A gate in memory returns it if it cannot be restored from a file.

use std::{error, fmt, io};

/// The reason for which a snapshot was refused.
///
/// ```
/// use tidegate::{Gate, Policy, RuleSpec, SnapshotError};
///
/// let policy = Policy::new(vec![RuleSpec::new("per-user", "10/s").key(["user"])])?;
/// let gate = match Gate::new(policy.clone()).with_snapshot(&b"a file of another program"[..]) {
///     Ok((gate, _)) => gate,
///     Err(error) => {
///         assert!(matches!(error, SnapshotError::NotASnapshot), "{error}");
///         Gate::new(policy) // starts fresh
///     }
/// };
/// assert!(gate.admits(&[("user", "ada")]));
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[non_exhaustive]
pub enum SnapshotError {
    /// It could not be read.
    Read(io::Error),
    /// It does not begin as a snapshot does.
    NotASnapshot,
    /// It is of another version of the format.
    Version {
        /// The version in the file.
        found: u32,
        /// The version that this program reads and writes.
        expected: u32,
    },
    /// It ends before its end was written.
    Truncated {
        /// The offset of the part that is not complete, in bytes.
        at: u64,
    },
    /// Bytes were changed: the checksum of the block that begins here is wrong.
    Checksum {
        /// The offset of the block, in bytes.
        at: u64,
    },
    /// The block that begins or ends here has the right checksum, but not the form that this program writes.
    Malformed {
        /// The offset, in bytes.
        at: u64,
    },
    /// The gate has limiters already: a snapshot is loaded before the first request.
    InUse,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "it cannot be read: {error}"),
            Self::NotASnapshot => {
                f.write_str("it is not a snapshot: it does not begin with \"tidegate\"")
            }
            Self::Version { found, expected } => {
                write!(f, "it is of version {found}, and this program reads version {expected}")
            }
            Self::Truncated { at } => write!(f, "it ends too early, in the part at byte {at}"),
            Self::Checksum { at } => {
                write!(f, "it is damaged: the checksum of the block at byte {at} is wrong")
            }
            Self::Malformed { at } => {
                write!(f, "the block at byte {at} is not what this program writes")
            }
            Self::InUse => {
                f.write_str("the gate has limiters already: load it before the first request")
            }
        }
    }
}

tidegate_core::debug_as_display!(SnapshotError);

impl error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Read(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}
