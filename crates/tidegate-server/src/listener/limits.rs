//! How many connections a listener holds open, and how long it waits for them.

use std::time::Duration;

/// How long a connection may bring nothing.
pub(crate) const IDLE: Duration = Duration::from_secs(60);
/// How long the head of a request, or a command, may take to come to its end.
pub(crate) const HEAD: Duration = Duration::from_secs(30);
/// How long a client may take nothing of what it is told.
pub(crate) const STALLED: Duration = Duration::from_secs(30);

/// The bounds of one listener, whatever is spoken behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Connections open at once; more wait in the queue of the system.
    pub(crate) connections: u32,
    /// How long a client may take to agree on encryption.
    pub(crate) handshake: Duration,
    /// How long a client may leave what it is told where it is, and read none of it.
    pub(crate) stalled: Duration,
    /// How long requests under way have once the process is asked to stop.
    pub(crate) drain: Duration,
}

impl Limits {
    /// How much of [`Self::drain`] those who wait for a limiter may go on waiting: what is left of it is
    /// there to tell them.
    pub(crate) fn patience(&self) -> Duration {
        self.drain - self.drain / 8
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            handshake: Duration::from_secs(10),
            stalled: STALLED,
            drain: Duration::from_secs(8),
        }
    }
}
