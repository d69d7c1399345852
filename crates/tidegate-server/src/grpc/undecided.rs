//! The answer to a call that cannot be decided: a refusal with its reason, or a gRPC error. `call.rs` asks for it with the
//! status of the call.
//!
//! A caller of the proxy may cause it, with bytes that the proxy passes on, and a proxy may let a request through when
//! it gets an error. So the answer is OVER_LIMIT, if an operator has not chosen otherwise.

use hyper::body::Bytes;
use prost_types::value::Kind as ValueKind;
use prost_types::{Struct, Value};
use tonic::{Code as StatusCode, Status};

use super::BadRequest;
use super::response::{Code, RateLimitResponse};
use crate::once_a_minute::{WarningKind, warn_of};

/// The field of the metadata with the reason of a refusal that no rule made.
const REASON: &str = "reason";

/// The refusal in place of an error that the request has caused.
///
/// # Errors
/// Returns the status if another cause has it, or if errors are to be answered.
pub(super) fn refusal(choice: BadRequest, status: Status) -> Result<Bytes, Status> {
    match status.code() {
        // These have been logged with their kind.
        StatusCode::InvalidArgument => {}
        StatusCode::ResourceExhausted => warn_of(WarningKind::Size, status.message()),
        StatusCode::Internal if is_defect(&status) => {
            warn_of(WarningKind::Defect, status.message())
        }
        StatusCode::Internal
        | StatusCode::DeadlineExceeded
        | StatusCode::Cancelled
        | StatusCode::Unimplemented => warn_of(WarningKind::Incomplete, status.message()),
        // A store that is away, or a verb that is not granted, is no mistake of the message.
        _ => return Err(status),
    }
    match choice {
        BadRequest::OverLimit => Ok(refused(status.message())),
        BadRequest::Error => Err(status),
    }
}

/// The text of the status of a call that panicked.
pub(super) const DEFECT: &str = "a defect of the server ended this call";

fn is_defect(status: &Status) -> bool {
    status.message() == DEFECT
}

/// The field of the metadata with the reason of a refusal.
pub(super) fn reason(text: &str) -> (String, Value) {
    (REASON.to_owned(), Value { kind: Some(ValueKind::StringValue(text.to_owned())) })
}

/// The bytes of a refusal with its reason.
fn refused(reason: &str) -> Bytes {
    let response = RateLimitResponse {
        overall_code: Code::OverLimit.into(),
        dynamic_metadata: Some(Struct { fields: [self::reason(reason)].into() }),
        ..Default::default()
    };
    response.framed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_request_has_caused_is_refused_and_nothing_else() {
        for (status, is_refused) in [
            (Status::invalid_argument("not a RateLimitRequest"), true),
            (Status::resource_exhausted("expected at most 4 bytes"), true),
            (Status::deadline_exceeded("did not come"), true),
            (Status::cancelled("broke off"), true),
            (Status::unimplemented("the message is compressed"), true),
            (Status::internal("the call ended before its message did"), true),
            (Status::internal(DEFECT), true),
            (Status::permission_denied("gives hits back"), false),
            (Status::unavailable("the store is away"), false),
            (Status::unauthenticated("expected a token"), false),
        ] {
            let error = refusal(BadRequest::Error, status.clone()).unwrap_err();
            assert_eq!((error.code(), error.message()), (status.code(), status.message()));
            let refused = refusal(BadRequest::OverLimit, status.clone());
            assert_eq!(refused.is_ok(), is_refused, "{status:?}");
            let reason = status.message().as_bytes();
            let has_reason = |bytes: &Bytes| bytes.windows(reason.len()).any(|part| part == reason);
            assert!(refused.is_err() || refused.is_ok_and(|bytes| has_reason(&bytes)));
        }
    }
}
