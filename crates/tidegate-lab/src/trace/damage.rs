//! Damage to compressed data, which ends a trace but is no error of its source.
//!
//! `gzip.rs` and `zstd.rs` report it, and the reader ends the trace there with a bad line.

use std::fmt;
use std::io::{self, ErrorKind};

/// The damage of the compressed data where reading stopped, with the name of the compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Damage {
    /// The data ends in the middle.
    Ends(&'static str),
    /// The data from here on is not of this kind, or fails its checksum.
    Corrupt(&'static str, &'static str),
}

impl Damage {
    /// The damage in an error; `None` for an error of the source itself.
    pub(super) fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ends(kind) => write!(f, "the {kind} data ends here, in the middle"),
            Self::Corrupt(kind, how) => write!(f, "the {kind} data is corrupt here: {how}"),
        }
    }
}

impl std::error::Error for Damage {}

impl From<Damage> for io::Error {
    fn from(damage: Damage) -> Self {
        Self::new(ErrorKind::InvalidData, damage)
    }
}
