//! The body of a response: one message and the trailers that end it, or what tonic made.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::http::header::CONTENT_TYPE;
use hyper::http::{HeaderMap, HeaderValue, Response, StatusCode};
use tonic::Status;
use tonic::metadata::GRPC_CONTENT_TYPE;

use crate::listener::{Kept, TOO_MUCH, UnderWay};

/// Bytes that any call takes besides its message and its answer.
pub(super) const OF_A_CALL: usize = 6 << 10;

/// What is sent, a frame at a time.
pub(super) enum Reply {
    /// A message that is still to be sent, then its trailers.
    Message(Bytes),
    /// The message is sent.
    Trailers,
    /// All is sent, or there was nothing.
    Done,
    /// What tonic's own services answer, what each piece of it is counted in, and that it is under way.
    Tonic(tonic::body::Body, Option<(Kept, Option<UnderWay>)>),
}

impl Reply {
    /// What lasts is under way until its end; all else is done, but for the client to read it.
    pub(super) fn under_way(self, under_way: Option<UnderWay>) -> Self {
        match self {
            Self::Tonic(body, Some((kept, _))) => Self::Tonic(body, Some((kept, under_way))),
            other => other,
        }
    }
}

/// A message with the status OK behind it, counted until it has left.
pub(super) fn message(bytes: Bytes, mut kept: Kept) -> Response<Reply> {
    if !kept.resize(OF_A_CALL + bytes.len()) {
        return too_much();
    }
    let mut response = Response::new(Reply::Message(kept.all_sent(bytes)));
    response.headers_mut().insert(CONTENT_TYPE, GRPC_CONTENT_TYPE);
    response
}

/// An answer to a call for which there is no room, or whose answer there is none for.
pub(super) fn too_much() -> Response<Reply> {
    failed(too_much_kept())
}

pub(super) fn too_much_kept() -> Status {
    Status::resource_exhausted(TOO_MUCH)
}

/// A status other than OK, in the head.
pub(super) fn failed(status: Status) -> Response<Reply> {
    status.into_http::<tonic::body::Body>().map(|_| Reply::Done)
}

/// An answer to what is no call at all.
pub(super) fn not_grpc() -> Response<Reply> {
    let said = "expected a call of gRPC: POST, content-type application/grpc\n";
    let mut response = Response::new(Reply::Tonic(
        tonic::body::Body::new(http_body_util::Full::new(Bytes::from_static(said.as_bytes()))),
        None,
    ));
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
        if let Self::Tonic(body, held) = this {
            let frame = ready!(Pin::new(body).poll_frame(cx));
            return Poll::Ready(frame.map(|frame| frame.and_then(|frame| counted(frame, held))));
        }
        Poll::Ready(match std::mem::replace(this, Self::Done) {
            Self::Message(bytes) => {
                *this = Self::Trailers;
                Some(Ok(Frame::data(bytes)))
            }
            Self::Trailers => Some(Ok(Frame::trailers(well()))),
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

/// A frame whose data are counted until they have left.
fn counted(
    frame: Frame<Bytes>,
    held: &mut Option<(Kept, Option<UnderWay>)>,
) -> Result<Frame<Bytes>, Status> {
    let (data, kept) = match (frame.into_data(), held) {
        (Ok(data), Some((kept, _))) => (data, kept),
        (Ok(data), None) => return Ok(Frame::data(data)),
        (Err(other), _) => return Ok(other),
    };
    if kept.add(data.len()) { Ok(Frame::data(kept.sent(data))) } else { Err(too_much_kept()) }
}

/// The trailers of a call that went well.
fn well() -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(Status::GRPC_STATUS, HeaderValue::from_static("0"));
    trailers
}
