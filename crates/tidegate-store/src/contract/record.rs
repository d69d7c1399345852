//! Notes of a store: records of reservations, which are bytes that it keeps under a name until they are claimed, or end,
//! and receipts of steps, which its replies carry.
//!
//! A gate over a shared store writes a record for each named reservation, so that any node can find and settle it;
//! one claim consumes it, so that it is settled once.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The operation on one record of a store.
///
/// A record is written once, and claimed once. The claim consumes the content; the store keeps the number of the claim
/// until the record ends, so that a claim that is sent again has the same reply.
#[derive(Clone, Copy, Debug)]
pub enum RecordVerb<'a> {
    /// Writes a record that ends after `life`. A record that is there stays as it is: the reply is
    /// [`Done`](RecordReply::Done), or [`Claimed`](RecordReply::Claimed) if it was claimed.
    Write {
        /// The content.
        content: &'a [u8],
        /// The life of the record.
        life: Duration,
    },
    /// Reads a record that no caller has claimed.
    Read,
    /// Claims a record.
    Claim {
        /// A random number, which no other claim has.
        by: u64,
    },
    /// Makes a record that no caller has claimed last `life` from now.
    Extend {
        /// The life of the record.
        life: Duration,
    },
}

/// The reply to a [`RecordVerb`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordReply {
    /// The store has no such record: it has ended, or was never written.
    Unknown,
    /// Another claim has consumed it.
    Claimed,
    /// It was written, now or before, or extended, or this claim has it.
    Done,
    /// The content of a record that was read, and the rest of its life.
    Content(Vec<u8>, Duration),
}

/// A note of the store for undoing a step, which no caller understands.
#[derive(Clone)]
pub struct Receipt(Arc<dyn Any + Send + Sync>);

impl Receipt {
    /// Any value of the store.
    #[must_use]
    pub fn new(of_store: impl Any + Send + Sync) -> Self {
        Self(Arc::new(of_store))
    }

    /// Returns the value that the store put in; `None` if it has another type.
    #[must_use]
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receipt")
    }
}
