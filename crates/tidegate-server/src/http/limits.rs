//! How much a client may ask over HTTP before it is cut off; what holds for every door is at the door.

use std::time::Duration;

/// The bounds of one HTTP connection and of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How long the head of a request may take; an HTTP/1.1 connection between requests as well, but for one
    /// that has brought nothing yet but checks that come whole: for it there is `idle` alone.
    pub(crate) head: Duration,
    /// A connection that brought no request that was let in for so long is asked to leave, and after as long again cut.
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
            head: Duration::from_secs(30),
            idle: Duration::from_secs(60),
            stalled: Duration::from_secs(30),
            half_closed: Duration::from_secs(1),
            body: Duration::from_secs(5),
            body_bytes: 64 << 10,
            probe: Duration::from_secs(1),
        }
    }
}
