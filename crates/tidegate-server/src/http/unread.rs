//! An answer that its client has not read yet, handed to hyper in pieces as the connection has space. `connection.rs`
//! wraps every response in [`Unread`].
//!
//! The rest of the answer, and each piece on its way, holds its part of the bytes that the connection keeps
//! ([`KeptBytes`](crate::listener::KeptBytes)). A long answer ends when its last piece was sent; until then its
//! stream can be reset.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::task::{Context, Poll};

use super::message::{Content, HttpResponse};
use super::request_claims::{AnswerClaims, RequestClaims};
use futures_util::task::AtomicWaker;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::mpsc;

/// The largest piece of an answer, in bytes.
const PIECE_BYTES: usize = 16 << 10;

/// An answer that is taken in pieces, as the client reads it, with its claims.
pub(super) struct Unread {
    rest: Bytes,
    /// The rest of a stream.
    events: Option<mpsc::Receiver<Bytes>>,
    claims: AnswerClaims,
    /// The last piece of a long answer.
    last: Option<Arc<LastPieceSent>>,
}

/// Shows whether the last piece was sent.
#[derive(Default)]
struct LastPieceSent {
    is_sent: AtomicBool,
    waker: AtomicWaker,
}

impl LastPieceSent {
    fn poll_left(&self, cx: &Context<'_>) -> Poll<()> {
        // Registered before the flag is read: a piece that is sent between the two would wake no task.
        self.waker.register(cx.waker());
        if self.is_sent.load(Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// The last piece of a long answer.
struct LastPiece {
    piece: Bytes,
    last: Arc<LastPieceSent>,
}

impl Drop for LastPiece {
    fn drop(&mut self) {
        // Set before the wake, so that the task that is woken sees it.
        self.last.is_sent.store(true, Release);
        self.last.waker.wake();
    }
}

impl AsRef<[u8]> for LastPiece {
    fn as_ref(&self) -> &[u8] {
        &self.piece
    }
}

impl Unread {
    /// The answer of a request with these claims.
    pub(super) fn of(answer: HttpResponse, held: RequestClaims) -> hyper::Response<Self> {
        let (answer, claims) = held.answered(answer);
        Self::holding(answer, claims)
    }

    /// The answer of a request without claims.
    pub(super) fn alone(answer: HttpResponse) -> hyper::Response<Self> {
        Self::holding(answer, AnswerClaims::default())
    }

    fn holding(answer: HttpResponse, claims: AnswerClaims) -> hyper::Response<Self> {
        answer.map(|content| {
            let (rest, events) = match content {
                Content::Whole(bytes) => (bytes, None),
                Content::Events(events) => (Bytes::new(), Some(events)),
            };
            let last = (rest.len() > PIECE_BYTES).then(Arc::default);
            Self { rest, events, claims, last }
        })
    }
}

impl Body for Unread {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(events) = &mut self.events {
            return events.poll_recv(cx).map(|next| next.map(|bytes| Ok(Frame::data(bytes))));
        }
        if self.rest.is_empty() {
            // hyper has all bytes and the client may not: a stream can be reset only until it has ended.
            let left = self.last.as_ref().map_or(Poll::Ready(()), |last| last.poll_left(cx));
            return left.map(|()| None);
        }
        let length = self.rest.len().min(PIECE_BYTES);
        let mut piece = self.rest.split_to(length);
        if self.rest.is_empty() {
            if let Some(last) = self.last.clone() {
                piece = Bytes::from_owner(LastPiece { piece, last });
            }
            // The last piece holds the rest of the claim, including the space of the request itself.
            if let Some(kept) = self.claims.kept.take() {
                piece = kept.all_sent(piece);
            }
        } else if let Some(kept) = &mut self.claims.kept {
            piece = kept.sent(piece);
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        // A long answer has not ended when its rest is empty: `poll_frame` waits for its last piece.
        self.rest.is_empty() && self.last.is_none() && self.events.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match self.events {
            None => SizeHint::with_exact(self.rest.len() as u64),
            Some(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::body;
    use crate::http::message::HttpRequest;
    use crate::http::request_claims::LARGE_AT_ONCE;
    use crate::http::testing;
    use crate::listener::Bounds;
    use crate::listener::ByteBudget;
    use futures_util::future::join_all;
    use http_body_util::{BodyExt, Full};
    use hyper::StatusCode;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    type Sent = Full<Bytes>;

    fn post(bytes: usize) -> hyper::Request<Sent> {
        let body = Full::new(Bytes::from(vec![b' '; bytes]));
        hyper::Request::post("http://a/").body(body).unwrap()
    }

    #[tokio::test]
    async fn few_large_answers_lie_unread_and_all_are_given_once_they_are_read() {
        const LONG: usize = 100 << 10;
        let answered = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&answered);
        let endpoint = testing::endpoint(move |request: HttpRequest| {
            let counted = Arc::clone(&counted);
            async move {
                let large = body::read(request, Bounds::default()).await.unwrap().len() > 1_024;
                counted.fetch_add(usize::from(large), Ordering::SeqCst);
                HttpResponse::new(vec![b'x'; if large { LONG } else { 0 }].into())
            }
        });
        let server = testing::serve(endpoint, Bounds::default()).await;
        let (mut send, _) = server.connect_by_http_2(1_000).await;
        let large: Vec<_> =
            (0..3 * LARGE_AT_ONCE).map(|_| tokio::spawn(send.send_request(post(5_000)))).collect();
        for _ in 0..10 {
            let small = send.send_request(post(1)).await.unwrap();
            assert_eq!(small.status(), 200, "a small one is answered at once");
        }
        assert!(answered.load(Ordering::SeqCst) <= LARGE_AT_ONCE);
        let read = large.into_iter().map(async |one| {
            one.await.unwrap().unwrap().into_body().collect().await.unwrap().to_bytes().len()
        });
        let read = join_all(read).await;
        assert_eq!(read, vec![LONG; 3 * LARGE_AT_ONCE]);
    }

    /// Each answer is as long as that to a batch of a kilobyte.
    #[tokio::test]
    async fn answers_that_nobody_reads_are_bounded_for_each_connection_and_for_all() {
        const ANSWER: usize = 40 << 10;
        const EACH: usize = 10 * ANSWER;
        let endpoint = testing::endpoint(async |_| HttpResponse::new(vec![b'x'; ANSWER].into()));
        let budget = Arc::new(ByteBudget::of(EACH, 2 * EACH));
        let server = testing::serve_within(endpoint, Bounds::default(), Arc::clone(&budget)).await;
        let (mut clients, mut heads) = (Vec::new(), Vec::new());
        let mut given = Vec::new();
        for _ in 0..4 {
            let (mut send, _) = server.connect_by_http_2(0).await;
            let before = heads.len();
            for _ in 0..4 {
                let asked: Vec<_> = (0..4).map(|_| send.send_request(post(1))).collect();
                heads.extend(join_all(asked).await.into_iter().map(Result::unwrap));
            }
            let new = heads[before..].iter();
            given.push(new.filter(|head| head.status() == StatusCode::OK).count());
            clients.push(send);
            assert!(budget.taken() <= 2 * EACH, "{}", budget.taken());
        }
        assert!(given[0] > 0 && given.iter().all(|given| *given < 10), "{given:?}");
        let free = 4 * (64 << 10);
        assert!(given.iter().sum::<usize>() * ANSWER <= 2 * EACH + free, "{given:?}");
        let (mut polite, _) = server.connect_by_http_2(ANSWER as u32).await;
        let answer = polite.send_request(post(1)).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "every connection has its free bytes");
        drop((clients, heads, answer));
        while budget.taken() > 0 {
            tokio::task::yield_now().await;
        }
    }

    /// The answer was not sent at all, or only in part.
    #[tokio::test]
    async fn a_stream_that_nobody_reads_is_reset_and_its_connection_goes_on() {
        for window in [0, 5] {
            let endpoint = testing::endpoint(move |request: HttpRequest| async move {
                let empty = request.body().is_end_stream();
                HttpResponse::new(vec![b'x'; if empty { 0 } else { 5 * PIECE_BYTES }].into())
            });
            let bounds = Bounds { stalled: Duration::from_millis(200), ..Bounds::default() };
            let budget = Arc::new(ByteBudget::default());
            let server = testing::serve_within(endpoint, bounds, Arc::clone(&budget)).await;
            let (mut send, _) = server.connect_by_http_2(window).await;
            let unread = send.send_request(post(1)).await.unwrap();
            assert!(budget.taken() > 0, "more than is free");
            while budget.taken() > 0 {
                tokio::task::yield_now().await;
            }
            assert_eq!(send.send_request(post(0)).await.unwrap().status(), 200, "{window}");
            assert!(unread.into_body().collect().await.is_err(), "{window}");
        }
    }

    /// Bytes of a short answer that the connection has accepted cannot be taken back, so the
    /// connection ends.
    #[tokio::test]
    async fn a_connection_that_keeps_part_of_a_short_answer_ends() {
        let endpoint = testing::endpoint(async |_| HttpResponse::new("a word".into()));
        let bounds = Bounds { stalled: Duration::from_millis(100), ..Bounds::default() };
        let server = testing::serve(endpoint, bounds).await;
        let (mut send, _) = server.connect_by_http_2(1).await;
        let _unread = send.send_request(post(1)).await.unwrap();
        while send.ready().await.is_ok() {
            tokio::task::yield_now().await;
        }
    }
}
