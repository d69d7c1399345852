//! The answer to a call that cannot be decided: a refusal with its reason, or a gRPC error. `call.rs` asks for it with
//! the refusal of the call.
//!
//! A caller of the proxy may cause it, with bytes that the proxy passes on, and a proxy may let a request through when
//! it gets an error. So the answer is OVER_LIMIT, if an operator has not chosen otherwise.

use hyper::body::Bytes;
use prost_types::value::Kind as ValueKind;
use prost_types::{Struct, Value};

use super::BadRequest;
use super::response::{self, RateLimitResponse};
use crate::once_a_minute::warn_of;
use crate::refusal::RequestRefusal;

/// The field of the metadata with the reason of a refusal that no rule made.
const REASON: &str = "reason";

/// The refusal in place of an error that the request has caused, which is logged.
///
/// # Errors
/// Returns the error if it has another cause, or if errors are to be answered.
pub(super) fn refusal(choice: BadRequest, why: RequestRefusal) -> Result<Bytes, RequestRefusal> {
    // A store that is away, or a verb that is not granted, is no mistake of the message.
    let Some(kind) = why.kind.warning() else { return Err(why) };
    warn_of(kind, &why.detail);
    match choice {
        BadRequest::OverLimit => Ok(refused(&why.detail)),
        BadRequest::Error => Err(why),
    }
}

/// The field of the metadata with the reason of a refusal.
pub(super) fn reason(text: &str) -> (String, Value) {
    (REASON.to_owned(), Value { kind: Some(ValueKind::StringValue(text.to_owned())) })
}

/// The bytes of a refusal with its reason.
fn refused(reason: &str) -> Bytes {
    let response = RateLimitResponse {
        overall_code: response::Code::OverLimit.into(),
        dynamic_metadata: Some(Struct { fields: [self::reason(reason)].into() }),
        ..Default::default()
    };
    response.framed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::RefusalKind;
    use tonic::{Code, Status};

    #[test]
    fn what_a_request_has_caused_is_refused_and_nothing_else() {
        for (kind, code, is_refused) in [
            (RefusalKind::InvalidBody, Code::InvalidArgument, true),
            (RefusalKind::InvalidQuestion, Code::InvalidArgument, true),
            (RefusalKind::InvalidLimit, Code::InvalidArgument, true),
            (RefusalKind::BodyTooLarge, Code::ResourceExhausted, true),
            (RefusalKind::TooMuchUnread, Code::ResourceExhausted, true),
            (RefusalKind::BodyTimeout, Code::DeadlineExceeded, true),
            (RefusalKind::BrokenBody, Code::Cancelled, true),
            (RefusalKind::UnknownCoding, Code::Unimplemented, true),
            (RefusalKind::InvalidFrame, Code::Internal, true),
            (RefusalKind::Internal, Code::Internal, true),
            (RefusalKind::VerbForbidden, Code::PermissionDenied, false),
            (RefusalKind::Unavailable, Code::Unavailable, false),
            (RefusalKind::Unauthorized, Code::Unauthenticated, false),
        ] {
            let why = kind.because("because of this");
            let error = refusal(BadRequest::Error, why.clone()).unwrap_err();
            let status = Status::from(error);
            assert_eq!((status.code(), status.message()), (code, "because of this"));
            let refused = refusal(BadRequest::OverLimit, why);
            assert_eq!(refused.is_ok(), is_refused, "{kind:?}");
            let has_reason =
                |bytes: &Bytes| bytes.windows(15).any(|part| part == b"because of this");
            assert!(refused.is_err() || refused.is_ok_and(|bytes| has_reason(&bytes)));
        }
    }
}
