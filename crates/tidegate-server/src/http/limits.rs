//! How much a client may ask over HTTP before it is cut off; what holds for every listener is in [`crate::listener`].

use std::time::Duration;

use crate::listener::{HEAD, IDLE, STALLED};

/// The bounds of one HTTP connection and of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How long the head of a request may take over HTTP/1.1, or half as long again.
    pub(crate) head: Duration,
    /// A connection that brought no request that was let in for so long, or a quarter longer, is asked to leave, and
    /// cut after a quarter of it.
    pub(crate) idle: Duration,
    /// How long a client may leave an answer where it is, and take nothing of it.
    pub(crate) stalled: Duration,
    /// How long a client that says no more, and may be gone, is waited with for its answers.
    pub(crate) half_closed: Duration,
    /// How long the body of a request may take.
    pub(crate) body: Duration,
    /// Bytes of a body.
    pub(crate) body_bytes: usize,
    /// How long a health probe waits for a decision.
    pub(crate) probe: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: HEAD,
            idle: IDLE,
            stalled: STALLED,
            half_closed: Duration::from_secs(1),
            body: Duration::from_secs(5),
            body_bytes: 64 << 10,
            probe: Duration::from_secs(1),
        }
    }
}
