//! The body of a response to a call: one message and its trailers, or a body of tonic; each counted against the
//! connection until it was sent. `call.rs` and `routes.rs` make it, and hyper takes its frames.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::http::header::CONTENT_TYPE;
use hyper::http::{HeaderMap, HeaderValue, Response, StatusCode};
use tonic::Status;
use tonic::metadata::GRPC_CONTENT_TYPE;

use crate::listener::{KeptBytes, RequestUnderWay, TOO_MUCH};
use crate::refusal::{RefusalKind, RequestRefusal};

/// Bytes of any call in addition to its message and its answer.
pub(super) const OF_A_CALL: usize = 6 << 10;

/// The frames still to be sent.
pub(super) enum GrpcReply {
    /// A message, then its trailers.
    Message(Bytes),
    /// Trailers after the message.
    Trailers,
    /// Nothing.
    Done,
    /// A body of tonic's own services, with the claim for its pieces, and its guard of a request
    /// under way.
    Tonic(tonic::body::Body, Option<(KeptBytes, Option<RequestUnderWay>)>),
}

impl GrpcReply {
    /// Counts a long answer as under way until its end. Any other answer is complete and only has to be read.
    pub(super) fn under_way(self, under_way: Option<RequestUnderWay>) -> Self {
        match self {
            Self::Tonic(body, Some((kept, _))) => Self::Tonic(body, Some((kept, under_way))),
            other => other,
        }
    }
}

/// A message followed by the status OK, counted until it was sent.
pub(super) fn message(bytes: Bytes, mut kept: KeptBytes) -> Response<GrpcReply> {
    if !kept.resize(OF_A_CALL + bytes.len()) {
        return too_much();
    }
    sent(bytes, kept)
}

fn sent(bytes: Bytes, kept: KeptBytes) -> Response<GrpcReply> {
    let mut response = Response::new(GrpcReply::Message(kept.all_sent(bytes)));
    response.headers_mut().insert(CONTENT_TYPE, GRPC_CONTENT_TYPE);
    response
}

/// The answer to a call that cannot be decided: a message that refuses it, or its status. The claim for the call is
/// `None` if there was no room even for that.
#[cold]
pub(super) fn undecided(
    answer: Result<Bytes, RequestRefusal>,
    kept: Option<KeptBytes>,
) -> Response<GrpcReply> {
    let bytes = match answer {
        Ok(bytes) => bytes,
        Err(why) => return failed(why),
    };
    match kept.and_then(|kept| kept.into_refusal(OF_A_CALL + bytes.len())) {
        Some(kept) => sent(bytes, kept),
        None => too_much(),
    }
}

/// The answer to a call without room for itself or its answer.
pub(super) fn too_much() -> Response<GrpcReply> {
    failed(too_much_kept())
}

pub(super) fn too_much_kept() -> RequestRefusal {
    RefusalKind::TooMuchUnread.because(TOO_MUCH)
}

impl From<RequestRefusal> for Status {
    fn from(why: RequestRefusal) -> Self {
        Self::new(why.code(), why.detail)
    }
}

/// A status other than OK, in the head.
pub(super) fn failed(why: RequestRefusal) -> Response<GrpcReply> {
    // A response without a message carries its status in the head, and needs no trailers.
    Status::from(why).into_http::<tonic::body::Body>().map(|_| GrpcReply::Done)
}

/// The answer to a request that is not a call.
pub(super) fn not_grpc() -> Response<GrpcReply> {
    let said = "expected a call of gRPC: POST, content-type application/grpc\n";
    let mut response = Response::new(GrpcReply::Tonic(
        tonic::body::Body::new(http_body_util::Full::new(Bytes::from_static(said.as_bytes()))),
        None,
    ));
    *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

impl Body for GrpcReply {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        if let Self::Tonic(body, held) = this {
            let frame = ready!(Pin::new(body).poll_frame(cx));
            return Poll::Ready(frame.map(|frame| frame.and_then(|frame| counted(frame, held))));
        }
        Poll::Ready(match std::mem::replace(this, Self::Done) {
            Self::Message(bytes) => {
                *this = Self::Trailers;
                Some(Ok(Frame::data(bytes)))
            }
            Self::Trailers => Some(Ok(Frame::trailers(ok_trailers()))),
            Self::Done | Self::Tonic(..) => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Message(_) | Self::Trailers => false,
            Self::Done => true,
            Self::Tonic(body, ..) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Message(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Trailers | Self::Done => SizeHint::with_exact(0),
            Self::Tonic(body, ..) => body.size_hint(),
        }
    }
}

/// A frame whose data are counted until they were sent.
fn counted(
    frame: Frame<Bytes>,
    held: &mut Option<(KeptBytes, Option<RequestUnderWay>)>,
) -> Result<Frame<Bytes>, Status> {
    let (data, kept) = match (frame.into_data(), held) {
        (Ok(data), Some((kept, _))) => (data, kept),
        (Ok(data), None) => return Ok(Frame::data(data)),
        (Err(other), _) => return Ok(other),
    };
    // A stream of tonic has no known length, so each piece is claimed when it is made.
    if kept.add(data.len()) {
        Ok(Frame::data(kept.sent(data)))
    } else {
        Err(too_much_kept().into())
    }
}

/// The trailers of a successful call.
fn ok_trailers() -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(Status::GRPC_STATUS, HeaderValue::from_static("0"));
    trailers
}
