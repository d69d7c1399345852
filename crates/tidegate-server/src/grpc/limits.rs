//! How much a client may ask of the service before it is cut off.

use std::time::Duration;

use crate::listener::{IDLE, STALLED};

/// Bytes that any call takes besides its message and its answer.
pub(super) const OF_A_CALL: usize = 6 << 10;

/// The bounds of one connection and of one call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Calls that one connection may have under way.
    pub(super) streams: u32,
    /// Bytes of the head of a call.
    pub(super) head_bytes: u32,
    /// Bytes of a message.
    pub(super) message_bytes: usize,
    /// How long a message may take to come.
    pub(super) message: Duration,
    /// A connection that brought no call by one who may ask for so long, or a quarter longer, while none was under
    /// way, is asked to leave, and cut after a quarter of it.
    pub(super) idle: Duration,
    /// How long a client may leave an answer where it is, and take nothing of it.
    pub(super) stalled: Duration,
    /// How often a silent client is asked whether it is there.
    pub(super) ping: Duration,
    /// How long it may take to say so.
    pub(super) pong: Duration,
    /// How long a health probe waits for a decision.
    pub(super) probe: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            streams: 1024,
            head_bytes: 16 << 10,
            message_bytes: 64 << 10,
            message: Duration::from_secs(5),
            idle: IDLE,
            stalled: STALLED,
            ping: Duration::from_secs(30),
            pong: Duration::from_secs(10),
            probe: Duration::from_secs(1),
        }
    }
}
