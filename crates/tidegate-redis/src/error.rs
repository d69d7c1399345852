//! Errors of Redis as errors of a store, and their meaning for the server.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tidegate_rules::shared::is_of_server;

use super::script::NotAnAnswer;
use crate::store::StoreError;

/// Texts of errors about a command or key that a user may not use. They are needed if the error's kind is lost
/// on the way: in scripts (the first two, from 7.2 on the third), and when the client selects a database (the
/// last).
const DENIED: [&str; 4] = [
    "can't run this command",
    "can't access at least one of the keys",
    "ACL failure in script",
    "has no permissions to run",
];

/// The URL of a cluster.
const CLUSTER: &str = "expected redis+cluster://host:port,…";

/// Parts of errors from a server of another kind than the URL or the settings name, with a remedy.
const HINTS: [(&str, &str); 7] = [
    (
        "cluster support disabled",
        "the URL names a cluster, and this is a single server: expected redis://host:port",
    ),
    (
        "does not point to a sentinel",
        "the URL names Sentinel, and this is a server: expected redis://host:port",
    ),
    (NO_EVAL, OF_SENTINEL),
    (NO_EVALSHA, OF_SENTINEL),
    ("UnknownIssuer", "expected its authority, or itself, in `tls_roots`"),
    ("CaUsedAsEndEntity", "expected a certificate that signs no others, with CA:FALSE"),
    ("Parse error", "expected Redis or Valkey at this address"),
];
const NO_EVAL: &str = "unknown command 'EVAL'";
const NO_EVALSHA: &str = "unknown command 'EVALSHA'";
const OF_SENTINEL: &str = "if this is a Sentinel, its URL is redis+sentinel://host:port,…/name";

/// The text of an error, with a remedy if one is known.
fn hinted(text: String) -> String {
    match HINTS.iter().find(|(part, _)| text.contains(part)) {
        Some((_, hint)) => format!("{text} ({hint})"),
        None => text,
    }
}

/// The meaning of an error for the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symptom {
    /// It will not answer other requests either.
    Gone,
    /// Nothing.
    None,
}

/// An error of a store as the client of Redis makes and reads it.
pub(super) trait RedisMeaning: Sized {
    /// Returns whether a script did nothing because a key has another layout by now.
    fn is_of_other_layout(&self) -> bool;

    /// The error that the client returned.
    fn of(error: &RedisError) -> Self;

    /// The error of one request of several that went as one call.
    fn of_script(text: &str) -> Self;

    /// The error of a server that the URL names as a single server.
    fn of_single_server(self) -> Self;

    /// Returns whether it lasts until an operator corrects it.
    fn lasts(&self) -> bool;

    /// Returns its meaning for the server that returned it.
    fn symptom(&self) -> Symptom;
}

impl RedisMeaning for StoreError {
    fn is_of_other_layout(&self) -> bool {
        matches!(self, Self::Refused(text) if text.contains("WRONGTYPE"))
    }

    fn of(error: &RedisError) -> Self {
        let text = error.to_string();
        // The client knows some errors of a server by their kind, and the others only by their code.
        match error.kind() {
            ErrorKind::Server(kind) => of_known(kind, text),
            ErrorKind::Extension => match error.code() {
                Some("OOM") => Self::OutOfMemory,
                Some("BUSY") => Self::Busy,
                Some("MISCONF" | "NOREPLICAS") => Self::TakesNoWrites(text),
                Some("NOAUTH") => Self::Denied(format!("{text} (expected a password)")),
                Some("WRONGPASS") => Self::Denied(text),
                _ => Self::Refused(hinted(text)),
            },
            ErrorKind::AuthenticationFailed => Self::Denied(text),
            ErrorKind::Io if error.is_timeout() => Self::Timeout,
            ErrorKind::Io
            | ErrorKind::MasterNameNotFoundBySentinel
            | ErrorKind::InvalidClientConfig
            | ErrorKind::Parse => Self::Unreachable(hinted(text)),
            _ => Self::Refused(hinted(text)),
        }
    }

    fn of_script(text: &str) -> Self {
        of_known(ServerErrorKind::ResponseError, text.to_owned())
    }

    fn of_single_server(self) -> Self {
        match self {
            Self::ClusterDown(text) if text.to_ascii_lowercase().contains("moved") => {
                Self::ClusterDown(format!(
                    "{text} (the URL names a single server, and this is a node of a cluster: {CLUSTER})"
                ))
            }
            error => error,
        }
    }

    fn lasts(&self) -> bool {
        matches!(self, Self::Unreadable(_) | Self::Denied(_) | Self::Refused(_))
    }

    fn symptom(&self) -> Symptom {
        if is_of_server(self) { Symptom::Gone } else { Symptom::None }
    }
}

/// The error that the client returned.
pub(super) fn of_client(error: RedisError) -> StoreError {
    StoreError::of(&error)
}

/// The error of a server, by its kind or its text.
fn of_known(kind: ServerErrorKind, text: String) -> StoreError {
    match kind {
        ServerErrorKind::BusyLoading => StoreError::Loading,
        ServerErrorKind::ReadOnly => StoreError::ReadOnly,
        ServerErrorKind::CrossSlot => StoreError::CrossSlot,
        ServerErrorKind::NoPerm => StoreError::Denied(text),
        ServerErrorKind::Moved
        | ServerErrorKind::Ask
        | ServerErrorKind::TryAgain
        | ServerErrorKind::ClusterDown
        | ServerErrorKind::MasterDown => StoreError::ClusterDown(text),
        // The error of a command in a script, as servers before 7.0 report it.
        _ if text.contains("OOM command not allowed") => StoreError::OutOfMemory,
        _ if text.contains("READONLY") => StoreError::ReadOnly,
        _ if text.contains("MISCONF") || text.contains("NOREPLICAS") => {
            StoreError::TakesNoWrites(text)
        }
        _ if DENIED.iter().any(|denied| text.contains(denied)) => {
            StoreError::Denied(format!("{text} (ACL LOG of the store names what is missing)"))
        }
        _ => StoreError::Refused(hinted(text)),
    }
}

impl From<NotAnAnswer> for StoreError {
    fn from(reply: NotAnAnswer) -> Self {
        match reply.other_version() {
            Some(_) => Self::OtherVersion(reply.to_string()),
            None => Self::Answer(reply.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_another_kind_of_server_names_the_url_that_it_has() {
        for (text, expected) in [
            ("ResponseError: This instance has cluster support disabled", "expected redis://host"),
            ("unknown command 'EVAL', with args", "redis+sentinel://host:port,…/name"),
            ("unknown command 'EVALSHA', with args", "redis+sentinel://host:port,…/name"),
            ("Address does not point to a sentinel node", "expected redis://host"),
            ("invalid peer certificate: UnknownIssuer", "`tls_roots`"),
            ("invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))", "CA:FALSE"),
            ("Incompatible type - Parse error at 1\nUnexpected `33`", "expected Redis or Valkey"),
        ] {
            let shown = hinted(text.to_owned());
            assert!(shown.starts_with(text) && shown.contains(expected), "{shown}");
        }
        assert_eq!(hinted("unknown command 'GETT'".to_owned()), "unknown command 'GETT'");
    }
}
