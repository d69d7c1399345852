//! The reply of a server to a script.

use std::fmt;

use super::VERSION;

/// A server's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisReply {
    /// Nothing.
    Nil,
    /// A whole number.
    Int(i64),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Several replies.
    Array(Vec<RedisReply>),
}

/// A reply that is not a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAnAnswer {
    reply: RedisReply,
    other_version: Option<u8>,
}

impl NotAnAnswer {
    pub(super) const fn of(reply: RedisReply) -> Self {
        Self { reply, other_version: None }
    }

    /// Such a reply, with the version of a stored state that it names, if any.
    pub(super) const fn of_version(reply: RedisReply, other_version: Option<u8>) -> Self {
        Self { reply, other_version }
    }

    /// The version of a stored state, if it is not the version that this library reads.
    #[must_use]
    pub const fn other_version(&self) -> Option<u8> {
        self.other_version
    }
}

impl fmt::Display for NotAnAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(version) = self.other_version {
            return write!(
                f,
                "a key holds a limiter of version {version}; expected version {VERSION}, or nodes that \
                 know both while they are upgraded"
            );
        }
        match &self.reply {
            RedisReply::Nil => f.write_str(
                "a key holds what no limiter of this version wrote; expected a key prefix of Tidegate's own",
            ),
            reply => write!(f, "the script answered {reply:?}; expected what its version answers"),
        }
    }
}

impl std::error::Error for NotAnAnswer {}
