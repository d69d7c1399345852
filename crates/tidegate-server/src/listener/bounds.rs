//! The bounds of a listener, of its connections and of their requests, in every protocol. `cli/bounds.rs` sets some by
//! flags; the others are constants of the server.

use std::time::Duration;

/// Bytes that every connection may make the server keep, independent of others.
pub(crate) const FREE: usize = 64 << 10;

/// Bytes of bodies that a client may send over HTTP/2 before they are read: of one stream, and of
/// all.
pub(crate) const WINDOW_BYTES: u32 = 64 << 10;
pub(crate) const WINDOW_OF_ALL_BYTES: u32 = 256 << 10;

/// The bounds of one listener. Idle and slow clients are checked periodically, so that a request
/// sets no timer: a bound on them may be exceeded by the time between two checks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Connections open at a time; more wait in the system's queue.
    pub(crate) connections: u32,
    /// The time in which a client must agree on encryption.
    pub(crate) handshake: Duration,
    /// The time in which the head of a request, or a command, must arrive in full, and a RESP client
    /// to authenticate if it must; checks may add half of that time.
    pub(crate) head: Duration,
    /// A connection without an admitted request for this long, or up to a quarter longer, ends.
    /// Over HTTP it is shut down gracefully, and cut after a quarter of this time.
    pub(crate) idle: Duration,
    /// The time for which a client may leave its answers unread.
    pub(crate) stalled: Duration,
    /// The time for which the server waits for the answers of a client that has closed its side, and may be gone.
    pub(crate) half_closed: Duration,
    /// The time in which the body of a request, or the message of a call, must arrive.
    pub(crate) body: Duration,
    /// Bytes of a body or of a message.
    pub(crate) body_bytes: usize,
    /// The largest number of bytes that the server keeps for a connection.
    pub(crate) kept_bytes: usize,
    /// The largest number of bytes that the server keeps for all connections, beyond the [`FREE`] bytes of each.
    pub(crate) kept_bytes_of_all: usize,
    /// The time between two pings of a silent client of gRPC.
    pub(crate) ping: Duration,
    /// The time in which the client must reply.
    pub(crate) pong: Duration,
    /// The time for which a health probe waits for a decision.
    pub(crate) probe: Duration,
    /// The time that requests under way have once the process is asked to stop.
    pub(crate) drain: Duration,
}

impl Bounds {
    /// The part of [`Self::drain`] that requests may spend waiting for a limiter; the rest is for
    /// answering them.
    pub(crate) fn patience(&self) -> Duration {
        self.drain - self.drain / 8
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: 10_000,
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(30),
            idle: Duration::from_secs(60),
            stalled: Duration::from_secs(30),
            half_closed: Duration::from_secs(1),
            body: Duration::from_secs(5),
            // A proxy may take 60 KiB of header fields, which JSON may write as six times as many.
            body_bytes: 1 << 20,
            kept_bytes: 8 << 20,
            kept_bytes_of_all: 128 << 20,
            ping: Duration::from_secs(30),
            pong: Duration::from_secs(10),
            probe: Duration::from_secs(1),
            drain: Duration::from_secs(8),
        }
    }
}
