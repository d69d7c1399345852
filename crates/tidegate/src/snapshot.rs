//! Snapshots: the limiters of a gate in memory as bytes, from which another process goes on.
//!
//! # Format, version 1
//!
//! Eight bytes `tidegate`, the version (4 bytes), then blocks. A block is a kind (1 byte), the length of its payload
//! (8 bytes), the payload, and a CRC-32 (4 bytes) of everything in the file before it but the other checksums, so no
//! block can be changed, left out or moved. Integers of a fixed size are little-endian. In payloads a *number* is an LEB128 of at most 64
//! bits, a *text* is its length in bytes (a number) and its UTF-8, and a *list* is its length (a number) and its items.
//!
//! | kind | payload |
//! |---|---|
//! | 1 head | when it was begun, in microseconds since the epoch; the number of lineages; the list of words of the hash secret: all numbers |
//! | 2 rule | domain and name (texts), its lineage (two numbers), the names of its key (a list of texts), 1 if each limiter has values of its own, else 0 (1 byte), a list of its variants: of each the entries that it is for (a list of pairs of texts) and its values |
//! | 3 limiters | the table (a number), then limiters up to the end of the payload |
//! | 4 ban | domain and name of its rule (texts), the values that count refusals, the values that ban |
//! | 5 answers | answers to requests with an id, up to the end of the payload |
//! | 6 end | nothing; nothing follows |
//!
//! *Values* are the kind of an algorithm's script (1 byte; 0 is unlimited, and nothing follows), its four
//! parameters as in the Redis store, and `max_debt` plus one, or 0 for none (numbers). The limiters of a rule or a ban follow its block; their tables are the
//! variants of the rule, or 0 for refusals and 1 for bans. A *limiter* is a fingerprint (12 bytes, all 0 for the
//! overflow limiter), its values if it has its own, and the list of numbers that its algorithm writes
//! ([`Persist`](tidegate_core::Persist)). An *answer* is a fingerprint, a byte that says whether it was allowed, three
//! numbers (since when, until when and of when it is), and a list of decisions: of each the flags (1 byte: the outcome
//! in the two low bits, then two bits for "without room" and "elsewhere"), the wait, the limit, the remaining units,
//! and the time until the reset (numbers).

mod blocks;
mod bytes;
mod error;
mod records;

pub(crate) use blocks::{Blocks, Kind, ReadBlocks};
#[cfg(feature = "redis")]
pub(crate) use bytes::put_option;
pub(crate) use bytes::{Cursor, put_list, put_number, put_text};
pub use error::SnapshotError;
pub(crate) use records::{
    Records, ScriptParameters, put_fingerprint, put_values, read_fingerprint, read_limiter,
    read_values,
};

/// The content of a snapshot ([`Gate::write_snapshot`](crate::Gate::write_snapshot)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotWritten {
    /// Limiters, including the limiters of bans.
    pub limiters: u64,
    /// Remembered answers to requests with an id.
    pub answers: u64,
    /// The length in bytes.
    pub bytes: u64,
}

/// The limiters that a gate took over from a snapshot ([`Gate::with_snapshot`](crate::Gate::with_snapshot)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotLoaded {
    /// Limiters that the gate goes on with, including the limiters of bans.
    pub limiters: u64,
    /// Limiters without usage.
    pub idle: u64,
    /// Limiters of rules and bans that the gate does not have, or that have another key now.
    pub dropped: u64,
    /// Limiters for which the caps of their rule have no room: their keys are treated like any other key without room.
    pub without_space: u64,
    /// Remembered answers to requests with an id.
    pub answers: u64,
    /// The time that the clock of the writer read when the snapshot was begun.
    pub written_at: tidegate_core::Timestamp,
}
