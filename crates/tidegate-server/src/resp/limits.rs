//! How much a client may send, leave unread, and let the server wait.

use std::time::Duration;

/// Most bytes of one word of a command.
pub(super) const WORD_BYTES: usize = 64 << 10;
/// Most words of one command.
pub(super) const WORDS: usize = 1_024;
/// Most bytes of one command, its lengths and line ends included.
pub(super) const COMMAND_BYTES: usize = 256 << 10;
/// Most bytes of an inline command.
pub(super) const INLINE_BYTES: usize = 64 << 10;
/// Commands of one connection that wait for the shared store at once.
pub(super) const AT_ONCE: usize = 64;

/// The bounds of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// A connection that brought nothing for so long, or up to twice that, is closed.
    pub(crate) idle: Duration,
    /// So is one whose command does not come to its end, whose replies are not read, or whose client does
    /// not say who it is where it must.
    pub(crate) stalled: Duration,
    /// How long a client that says no more, and may be gone, is waited with for its replies.
    pub(crate) half_closed: Duration,
    /// Bytes of replies that a connection may leave unread before no more is read from it.
    pub(crate) unread: usize,
    /// The same for all connections together; beyond it each may leave no more than [`FREE`].
    pub(crate) unread_of_all: usize,
}

/// Bytes of replies that every connection may leave unread, whatever the others do.
pub(super) const FREE: usize = 64 << 10;

impl Default for Limits {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(300),
            stalled: Duration::from_secs(10),
            half_closed: Duration::from_secs(1),
            unread: 8 << 20,
            unread_of_all: 128 << 20,
        }
    }
}
