//! Bounds of a client's input, and of the commands answered in one turn. A client that has not authenticated has smaller
//! bounds.

/// The most bytes of one word of a command.
pub(super) const WORD_BYTES: usize = 64 << 10;
/// Most words of one command.
pub(super) const WORDS: usize = 1_024;
/// Most bytes of one command, its lengths and line ends included.
pub(super) const COMMAND_BYTES: usize = 256 << 10;
/// Most bytes of an inline command.
pub(super) const INLINE_BYTES: usize = 64 << 10;
/// Commands of one connection that wait for the shared store at a time.
pub(super) const AT_ONCE: usize = 64;

/// Commands of one connection that are answered before other connections.
pub(super) const TURN_COMMANDS: u64 = 1_000;
/// Bytes of replies after which other connections come first.
pub(super) const TURN_BYTES: usize = 64 << 10;

/// Wrong tokens on one connection before it ends.
pub(super) const WRONG_TOKENS: u32 = 10;

/// Bounds of the bytes that a client may send before they are parsed, and may leave unread.
#[derive(Debug)]
pub(super) struct InputBounds {
    /// Words of a command.
    pub(super) words: usize,
    pub(super) word_bytes: usize,
    pub(super) command_bytes: usize,
    /// Bytes of an inline command.
    pub(super) inline_bytes: usize,
    /// Bytes of input kept at a time; more than any command has.
    pub(super) input_bytes: usize,
    /// Bytes of a new connection's input buffer.
    pub(super) first_bytes: usize,
    /// The largest number of unread bytes of replies, even if the budget has more.
    pub(super) unread_bytes: usize,
}

/// The bounds of an authenticated client.
pub(super) static AUTHENTICATED: InputBounds = InputBounds {
    words: WORDS,
    word_bytes: WORD_BYTES,
    command_bytes: COMMAND_BYTES,
    inline_bytes: INLINE_BYTES,
    // Enough for a command that has one word too many.
    input_bytes: COMMAND_BYTES + 2 * WORD_BYTES,
    first_bytes: 4 << 10,
    unread_bytes: usize::MAX,
};

/// The bounds of a client that has not authenticated yet: the same as in Redis, so that such clients cost little.
pub(super) static UNAUTHENTICATED: InputBounds = InputBounds {
    words: 10,
    word_bytes: STRANGER_BYTES,
    command_bytes: STRANGER_BYTES,
    inline_bytes: STRANGER_BYTES,
    input_bytes: STRANGER_BYTES + 64,
    first_bytes: 512,
    unread_bytes: STRANGER_BYTES,
};

const STRANGER_BYTES: usize = 16 << 10;
