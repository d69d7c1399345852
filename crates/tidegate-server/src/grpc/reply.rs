//! The body of a response: one message and the trailers that end it, or what tonic made.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::http::header::CONTENT_TYPE;
use hyper::http::{HeaderMap, HeaderValue, Response, StatusCode};
use tonic::Status;
use tonic::metadata::GRPC_CONTENT_TYPE;

/// What is sent, a frame at a time.
pub(super) enum Reply {
    /// A message that is still to be sent, then its trailers.
    Message(Bytes),
    /// The message is sent.
    Trailers,
    /// All is sent, or there was nothing.
    Done,
    /// What tonic's own services answer.
    Tonic(tonic::body::Body),
}

/// A message with the status OK behind it.
pub(super) fn message(bytes: Bytes) -> Response<Reply> {
    let mut response = Response::new(Reply::Message(bytes));
    response.headers_mut().insert(CONTENT_TYPE, GRPC_CONTENT_TYPE);
    response
}

/// A status other than OK, in the head.
pub(super) fn failed(status: Status) -> Response<Reply> {
    status.into_http::<tonic::body::Body>().map(|_| Reply::Done)
}

/// An answer to what is no call at all.
pub(super) fn not_grpc() -> Response<Reply> {
    let said = "expected a call of gRPC: POST, content-type application/grpc\n";
    let mut response = Response::new(Reply::Tonic(tonic::body::Body::new(
        http_body_util::Full::new(Bytes::from_static(said.as_bytes())),
    )));
    *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        if let Self::Tonic(body) = this {
            return Pin::new(body).poll_frame(cx);
        }
        Poll::Ready(match std::mem::replace(this, Self::Done) {
            Self::Message(bytes) => {
                *this = Self::Trailers;
                Some(Ok(Frame::data(bytes)))
            }
            Self::Trailers => Some(Ok(Frame::trailers(well()))),
            Self::Done | Self::Tonic(_) => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Message(_) | Self::Trailers => false,
            Self::Done => true,
            Self::Tonic(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Message(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Trailers | Self::Done => SizeHint::with_exact(0),
            Self::Tonic(body) => body.size_hint(),
        }
    }
}

/// The trailers of a call that went well.
fn well() -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(Status::GRPC_STATUS, HeaderValue::from_static("0"));
    trailers
}
