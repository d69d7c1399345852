//! Writes of a connection, gathered while it is polled: HTTP/2 flushes after each response, and one write for several
//! costs less. hyper holds one handle of the stream; [`InlineConnection`](super::inline::InlineConnection) holds the
//! other, and sends at the end of a poll.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The size of the buffer, in bytes. While it is full, writes and flushes send it first.
const CAPACITY: usize = 16 << 10;

/// The stream of a connection, with a buffer. Written bytes are sent by [`Gathered::send`], when the buffer is full,
/// and at a shutdown. A flush returns the error of the last send.
#[derive(Debug)]
pub(super) struct Gathered<S>(Arc<Mutex<GatheredWrites<S>>>);

/// The stream and its buffer, which both handles share.
#[derive(Debug)]
struct GatheredWrites<S> {
    stream: S,
    bytes: Vec<u8>,
    /// The number of bytes that the stream has taken.
    sent: usize,
    /// True if the stream has sent all that it has taken: a stream of TLS has a buffer of its own.
    is_flushed: bool,
    /// The error of a send, which the next write or flush returns.
    failed: Option<io::Error>,
}

impl<S> Clone for Gathered<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: AsyncWrite + Unpin> Gathered<S> {
    pub(super) fn new(stream: S) -> Self {
        let writes =
            GatheredWrites { stream, bytes: Vec::new(), sent: 0, is_flushed: true, failed: None };
        Self(Arc::new(Mutex::new(writes)))
    }

    /// Returns whether bytes that were written are not sent yet.
    pub(super) fn has_unsent(&self) -> bool {
        let writes = self.writes();
        !writes.bytes.is_empty() || !writes.is_flushed
    }

    /// Sends the written bytes, as far as the stream takes them now. The task of `cx` is woken when the stream takes
    /// more, and when it fails: the next write or flush of the connection returns the error.
    pub(super) fn send(&self, cx: &mut Context<'_>) {
        let mut writes = self.writes();
        if let Poll::Ready(Err(error)) = writes.send(cx) {
            // Only the connection may return it, and it is not polled here: so it is kept, and the task woken.
            writes.failed = Some(error);
            cx.waker().wake_by_ref();
        }
    }

    fn writes(&self) -> MutexGuard<'_, GatheredWrites<S>> {
        // Both handles belong to one task, so the lock is never waited for.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: AsyncWrite + Unpin> GatheredWrites<S> {
    fn send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest @ [_, ..]) = self.bytes.get(self.sent..) {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => self.sent += sent,
            }
            self.is_flushed = false;
        }
        self.sent = 0;
        self.bytes.clear();
        // One large answer does not keep its space for the life of the connection.
        self.bytes.shrink_to(CAPACITY);
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.is_flushed = true;
        Poll::Ready(Ok(()))
    }

    /// Returns the error of the last send, and makes room if the buffer is full.
    fn begin(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Err(error));
        }
        if self.bytes.len() < CAPACITY { Poll::Ready(Ok(())) } else { self.send(cx) }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writes().stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathered<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut writes = self.writes();
        ready!(writes.begin(cx))?;
        // All parts are taken, even beyond the capacity: the buffer is bounded by what it holds before a write.
        let before = writes.bytes.len();
        for part in parts {
            writes.bytes.extend_from_slice(part);
        }
        Poll::Ready(Ok(writes.bytes.len() - before))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writes().begin(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut writes = self.writes();
        ready!(writes.send(cx))?;
        Pin::new(&mut writes.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    /// A stream that notes each write, and takes at most `most` bytes at a time; none at 0.
    struct Notes {
        writes: Vec<Vec<u8>>,
        most: usize,
        /// True if it holds back the bytes that it has taken, as a stream of TLS whose socket is full.
        holds: bool,
        is_shut: bool,
    }

    impl AsyncWrite for Notes {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let this = self.get_mut();
            let taken = bytes.len().min(this.most);
            if taken == 0 {
                return Poll::Pending;
            }
            this.writes.push(bytes[..taken].to_vec());
            Poll::Ready(Ok(taken))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            if self.holds { Poll::Pending } else { Poll::Ready(Ok(())) }
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.get_mut().is_shut = true;
            Poll::Ready(Ok(()))
        }
    }

    fn noting(most: usize) -> Gathered<Notes> {
        Gathered::new(Notes { writes: Vec::new(), most, holds: false, is_shut: false })
    }

    fn now() -> Context<'static> {
        Context::from_waker(std::task::Waker::noop())
    }

    #[tokio::test]
    async fn several_writes_and_flushes_are_one_write() {
        let mut gathered = noting(usize::MAX);
        for part in [b"one".as_slice(), b" ", b"two"] {
            gathered.write_all(part).await.unwrap();
            gathered.flush().await.unwrap();
        }
        assert!(gathered.has_unsent() && gathered.writes().stream.writes.is_empty());
        gathered.send(&mut now());
        assert!(!gathered.has_unsent());
        assert_eq!(gathered.writes().stream.writes, [b"one two"]);
    }

    #[tokio::test]
    async fn what_the_stream_holds_back_is_unsent_until_it_was_flushed() {
        let mut gathered = noting(usize::MAX);
        gathered.writes().stream.holds = true;
        gathered.write_all(b"held").await.unwrap();
        gathered.send(&mut now());
        assert_eq!(gathered.writes().stream.writes, [b"held"]);
        assert!(gathered.has_unsent());
        gathered.writes().stream.holds = false;
        gathered.send(&mut now());
        assert!(!gathered.has_unsent());
    }

    #[tokio::test]
    async fn a_full_buffer_is_sent_by_a_write_and_waits_for_the_stream() {
        let mut gathered = noting(0);
        gathered.write_all(&[7; CAPACITY]).await.unwrap();
        assert!(Pin::new(&mut gathered).poll_write(&mut now(), b"8").is_pending());
        assert!(Pin::new(&mut gathered).poll_flush(&mut now()).is_pending());
        gathered.writes().stream.most = 1_000;
        gathered.write_all(b"8").await.unwrap();
        gathered.send(&mut now());
        assert_eq!(gathered.writes().stream.writes.concat(), [&[7; CAPACITY][..], b"8"].concat());
    }

    #[tokio::test]
    async fn the_end_sends_the_rest_first() {
        let mut gathered = noting(4);
        gathered.write_all(b"the rest").await.unwrap();
        gathered.shutdown().await.unwrap();
        assert_eq!(gathered.writes().stream.writes.concat(), b"the rest");
        assert!(gathered.writes().stream.is_shut);
    }

    #[tokio::test]
    async fn a_stream_that_failed_is_an_error_at_the_next_flush() {
        let (one, other) = duplex(8);
        drop(other);
        let mut gathered = Gathered::new(one);
        gathered.write_all(b"lost").await.unwrap();
        gathered.send(&mut now());
        let error = gathered.flush().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[tokio::test]
    async fn what_the_other_side_writes_is_read() {
        let (one, mut other) = duplex(8);
        let mut gathered = Gathered::new(one);
        other.write_all(b"hello").await.unwrap();
        let mut read = [0; 5];
        gathered.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"hello");
    }
}
