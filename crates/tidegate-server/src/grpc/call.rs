//! One unary call: reads the message within bounds, and sends the answer. `routes.rs` calls [`unary`] with the
//! decision as a function.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use hyper::body::{Buf, Bytes, Incoming};
use hyper::http::header::CONTENT_TYPE;
use hyper::http::{HeaderMap, Method, Request, Response};

use super::Bounds;
use super::reply::{self, GrpcReply};
use super::response::PREFIX_BYTES;
use crate::listener::{BadBody, KeptBytes, answer_begins, read_body};
use crate::refusal::{RefusalKind, RequestRefusal};

/// Most bytes of a message, as usual for gRPC: more than a proxy makes of the header fields that it takes.
const MESSAGE_BYTES: usize = 4 << 20;

/// The text about a call that panicked.
const DEFECT: &str = "a defect of the server ended this call";

/// Answers a call with the result of `answer` for its message, or with what `refusal` makes of a call that cannot be
/// decided. A panic in it is an error of this call alone.
pub(super) async fn unary(
    request: Request<Incoming>,
    bounds: Bounds,
    mut kept: KeptBytes,
    answer: impl AsyncFnOnce(Bytes) -> Result<Bytes, RequestRefusal>,
    refusal: impl FnOnce(RequestRefusal) -> Result<Bytes, RequestRefusal>,
) -> Response<GrpcReply> {
    let call = async {
        let message = message(request.into_body(), bounds, &mut kept).await?;
        answer(message).await
    };
    let answer = unpanicked(call).await;
    answer_begins();
    match answer {
        Ok(bytes) => reply::message(bytes, kept),
        Err(why) => reply::undecided(refusal(why), Some(kept)),
    }
}

/// Returns whether a request is a call of gRPC, in a known encoding of messages.
pub(super) fn is_grpc(method: &Method, headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    let encoding = kind.strip_prefix(b"application/grpc");
    method == Method::POST && matches!(encoding, Some(b"" | b"+proto"))
}

/// The bytes of the call's message.
async fn message(
    body: Incoming,
    bounds: Bounds,
    kept: &mut KeptBytes,
) -> Result<Bytes, RequestRefusal> {
    match tokio::time::timeout(bounds.body, whole(body, MESSAGE_BYTES, kept)).await {
        Ok(bytes) => unwrapped(bytes?),
        Err(_) => {
            let within = bounds.body;
            Err(RefusalKind::BodyTimeout
                .because(format!("the message did not come within {within:?}")))
        }
    }
}

async fn whole(body: Incoming, most: usize, kept: &mut KeptBytes) -> Result<Bytes, RequestRefusal> {
    // The bound is of the message; a body has a prefix before it.
    let bytes = most + PREFIX_BYTES;
    read_body(body, bytes, bytes, |bytes| kept.add(bytes)).await.map_err(|bad| match bad {
        BadBody::Broken(error) => RefusalKind::BrokenBody.because(format!("broke off: {error}")),
        BadBody::TooLarge => {
            RefusalKind::BodyTooLarge.because(format!("expected at most {most} bytes of message"))
        }
        BadBody::TooMuch => reply::too_much_kept(),
    })
}

/// A message without its prefix.
fn unwrapped(mut body: Bytes) -> Result<Bytes, RequestRefusal> {
    let flag = body.try_get_u8().map_err(|_| incomplete())?;
    // UNIMPLEMENTED is the status that gRPC defines for an encoding that a server does not know.
    if flag != 0 {
        return Err(RefusalKind::UnknownCoding
            .because("the message is compressed: expected grpc-encoding identity"));
    }
    let length = body.try_get_u32().map_err(|_| incomplete())? as usize;
    match body.len().cmp(&length) {
        std::cmp::Ordering::Equal => Ok(body),
        std::cmp::Ordering::Less => Err(incomplete()),
        std::cmp::Ordering::Greater => {
            Err(RefusalKind::InvalidFrame.because("expected one message"))
        }
    }
}

fn incomplete() -> RequestRefusal {
    RefusalKind::InvalidFrame.because("the call ended before its message did")
}

/// The result of a call; a panic becomes INTERNAL.
pub(super) fn unpanicked<T>(
    call: impl Future<Output = Result<T, RequestRefusal>>,
) -> impl Future<Output = Result<T, RequestRefusal>> {
    // The state that it uses survives a panic anywhere in the server.
    AssertUnwindSafe(call).catch_unwind().map(|result| {
        result.unwrap_or_else(|_| {
            tracing::error!("a gRPC call panicked");
            Err(RefusalKind::Internal.because(DEFECT))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::testing::{
        DECIDES, WINDOW, ada, call, connected, endless, refusing_routes, routes, routes_to,
    };
    use crate::limiters::Limiters;
    use http_body_util::BodyExt;
    use std::time::Duration;
    use tidegate::Policy;
    use tokio::time::timeout;

    #[test]
    fn a_message_is_as_long_as_its_prefix_says() {
        let read = |bytes: &'static [u8]| {
            let read = unwrapped(Bytes::from_static(bytes));
            read.map(|bytes| bytes.to_vec()).map_err(|status| status.code())
        };
        assert_eq!(read(b"\0\0\0\0\x02hi"), Ok(b"hi".to_vec()));
        assert_eq!(read(b"\0\0\0\0\0"), Ok(Vec::new()));
        for broken in [&b""[..], b"\0\0\0", b"\0\0\0\0\x02h", b"\0\0\0\0\x01hi"] {
            assert_eq!(read(broken), Err(tonic::Code::Internal), "{broken:?}");
        }
        assert_eq!(read(b"\x01\0\0\0\x02hi"), Err(tonic::Code::Unimplemented));
    }

    #[tokio::test]
    async fn a_panic_is_that_calls_error() {
        let answered: Result<(), _> = unpanicked(async { panic!("a defect") }).await;
        assert_eq!(answered.unwrap_err().code(), tonic::Code::Internal);
        assert_eq!(unpanicked(async { Ok(7) }).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_message_that_does_not_end_in_time_is_that_calls_error() {
        let bounds = Bounds { body: Duration::from_millis(200), ..Bounds::default() };
        let mut called = connected(routes(bounds, None), bounds, WINDOW).await;
        let begins = ada("edge").slice(..PREFIX_BYTES + 1);
        let status = called.status(endless(DECIDES, begins));
        let status = timeout(Duration::from_secs(10), status).await;
        assert_eq!(status.as_deref(), Ok("4"), "deadline exceeded");
        assert_eq!(called.status(call(DECIDES, ada("edge"))).await, "0");
    }

    #[tokio::test]
    async fn a_message_that_does_not_end_in_time_is_over_the_limit() {
        let bounds = Bounds { body: Duration::from_millis(200), ..Bounds::default() };
        let mut called = connected(refusing_routes(bounds), bounds, WINDOW).await;
        let begins = ada("edge").slice(..PREFIX_BYTES + 1);
        let response = called.send.send_request(endless(DECIDES, begins)).await.unwrap();
        let body = response.into_body().frame().await.unwrap().unwrap().into_data().unwrap();
        // The prefix, and field 1 of the answer: OVER_LIMIT.
        assert_eq!(body[PREFIX_BYTES..PREFIX_BYTES + 2], [0x08, 2]);
        assert_eq!(called.status(call(DECIDES, ada("edge"))).await, "0");
    }

    #[tokio::test]
    async fn a_panic_in_a_decision_leaves_the_connection_to_other_calls() {
        let bounds = Bounds::default();
        let routes = routes_to(Limiters::that_panic(Policy::default()), bounds, None);
        let mut called = connected(routes, bounds, WINDOW).await;
        for (domain, status) in [("edge", "0"), ("panics", "13"), ("edge", "0")] {
            assert_eq!(called.status(call(DECIDES, ada(domain))).await, status, "{domain}");
        }
    }
}
