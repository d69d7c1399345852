//! Errors of Redis as errors of a store, and their meaning for the server.

use redis::{ErrorKind, RedisError, ServerErrorKind};

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

/// The error that the client returned.
pub(super) fn of_client(error: RedisError) -> StoreError {
    let text = error.to_string();
    // The client knows some errors of a server by their kind, and the others only by their code.
    match error.kind() {
        ErrorKind::Server(kind) => of_known(kind, text),
        ErrorKind::Extension => match error.code() {
            Some("OOM") => StoreError::OutOfMemory,
            Some("BUSY") => StoreError::Busy,
            Some("MISCONF" | "NOREPLICAS") => StoreError::TakesNoWrites(text),
            Some("NOAUTH") => StoreError::Denied(format!("{text} (expected a password)")),
            Some("WRONGPASS") => StoreError::Denied(text),
            _ => StoreError::Refused(hinted(text)),
        },
        ErrorKind::AuthenticationFailed => StoreError::Denied(text),
        ErrorKind::Io if error.is_timeout() => StoreError::Timeout,
        ErrorKind::Io
        | ErrorKind::MasterNameNotFoundBySentinel
        | ErrorKind::InvalidClientConfig
        | ErrorKind::Parse => StoreError::Unreachable(hinted(text)),
        _ => StoreError::Refused(hinted(text)),
    }
}

/// The error of one request of several that went as one call.
pub(super) fn of_script(text: &str) -> StoreError {
    of_known(ServerErrorKind::ResponseError, text.to_owned())
}

/// An error of a server that the URL names as a single server.
pub(super) fn of_single_server(error: StoreError) -> StoreError {
    match error {
        StoreError::ClusterDown(text) if text.to_ascii_lowercase().contains("moved") => {
            StoreError::ClusterDown(format!(
                "{text} (the URL names a single server, and this is a node of a cluster: {CLUSTER})"
            ))
        }
        error => error,
    }
}

/// Returns whether an error lasts until an operator corrects it.
pub(super) const fn lasts(error: &StoreError) -> bool {
    matches!(error, StoreError::Unreadable(_) | StoreError::Denied(_) | StoreError::Refused(_))
}

/// Returns whether a script did nothing because a key has another layout by now.
pub(super) fn is_of_other_layout(error: &StoreError) -> bool {
    matches!(error, StoreError::Refused(text) if text.contains("WRONGTYPE"))
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
