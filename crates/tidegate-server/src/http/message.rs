//! A request and an answer, as types, and the content of an answer: whole, or a stream of events. Handlers make them;
//! `unread.rs` hands the content to hyper.

use hyper::body::{Bytes, Incoming};
use tokio::sync::mpsc;

/// A request as hyper reads it, whose body may still arrive.
pub(super) type HttpRequest = hyper::Request<Incoming>;
/// An answer of a handler.
pub(super) type HttpResponse = hyper::Response<Content>;

/// The content of an answer.
#[derive(Debug)]
pub(super) enum Content {
    Whole(Bytes),
    /// A stream of events, each whole as it is sent.
    Events(mpsc::Receiver<Bytes>),
}

impl Content {
    /// The bytes; none of a stream.
    pub(super) fn into_whole(self) -> Bytes {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Events(_) => Bytes::new(),
        }
    }

    /// The bytes, if they are known before they are sent.
    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Self::Whole(bytes) => Some(bytes.len()),
            Self::Events(_) => None,
        }
    }
}

impl Default for Content {
    fn default() -> Self {
        Self::Whole(Bytes::new())
    }
}

impl<B: Into<Bytes>> From<B> for Content {
    fn from(bytes: B) -> Self {
        Self::Whole(bytes.into())
    }
}
