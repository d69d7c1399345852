//! What a connection's client has not read yet: bounded, or one with a closed window makes the server hold it.
//!
//! An answer is as long as its question. So few large requests of a connection are answered at a time, from
//! their first byte until the last of the answer has left for the client; the others wait unread.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Request, Response};

/// Most large requests of one connection that are answered at a time.
const LARGE_AT_ONCE: usize = 4;
/// Bytes of the body of a request from which it is large, and its answer may be.
const LARGE_BYTES: u64 = 4 << 10;
/// Most bytes of an answer that are handed to the connection before it has room for more.
const PIECE_BYTES: usize = 16 << 10;

/// The places for large requests of one connection.
#[derive(Clone)]
pub(super) struct Places(Arc<Semaphore>);

impl Places {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(LARGE_AT_ONCE)))
    }

    /// Waits for the place of a request; one that is not large needs none.
    pub(super) async fn place(self, large: bool) -> Option<OwnedSemaphorePermit> {
        if large { self.0.acquire_owned().await.ok() } else { None }
    }
}

/// Whether the answer to a request may be large; where its length is not told, it may.
pub(super) fn is_large(request: &Request) -> bool {
    request.body().size_hint().upper().is_none_or(|bytes| bytes > LARGE_BYTES)
}

/// An answer that is taken in pieces, as the client reads them, and the place it holds meanwhile.
pub(super) struct Unread {
    rest: Bytes,
    _place: Option<OwnedSemaphorePermit>,
}

impl Unread {
    /// The answer, which holds its place until it is read.
    pub(super) fn of(
        answer: Response,
        place: Option<OwnedSemaphorePermit>,
    ) -> hyper::Response<Self> {
        answer.map(|body| Self { rest: body.into_inner().unwrap_or_default(), _place: place })
    }
}

impl Body for Unread {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.rest.len().min(PIECE_BYTES);
        let piece = self.rest.split_to(piece);
        Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{Limits, testing};
    use http_body_util::{BodyExt, Full};
    use hyper::client::conn::http2::Builder;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn few_large_answers_lie_unread_and_all_are_given_once_they_are_read() {
        let answered = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&answered);
        let site = testing::site(move |request: Request| {
            counted.fetch_add(usize::from(is_large(&request)), Ordering::SeqCst);
            let bytes = if is_large(&request) { 100 << 10 } else { 0 };
            async move { Response::new(vec![b'x'; bytes].into()) }
        });
        let server = testing::serve(site, Limits::default()).await;
        let mut client = Builder::new(TokioExecutor::new());
        client.initial_stream_window_size(1_000);
        let stream = TokioIo::new(server.connect().await);
        let (mut send, connection) = client.handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let mut ask = |bytes: usize| {
            let request = hyper::Request::post(format!("http://{}/", server.at));
            send.send_request(request.body(Full::new(Bytes::from(vec![b' '; bytes]))).unwrap())
        };
        let large: Vec<_> = (0..3 * LARGE_AT_ONCE).map(|_| tokio::spawn(ask(5_000))).collect();
        for _ in 0..10 {
            assert_eq!(ask(1).await.unwrap().status(), 200, "a small one is answered at once");
        }
        assert!(answered.load(Ordering::SeqCst) <= LARGE_AT_ONCE);
        let read = large.into_iter().map(async |one| {
            one.await.unwrap().unwrap().into_body().collect().await.unwrap().to_bytes().len()
        });
        let read = futures_util::future::join_all(read).await;
        assert_eq!(read, vec![100 << 10; 3 * LARGE_AT_ONCE]);
    }
}
