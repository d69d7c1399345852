//! Writes of a connection, gathered while it is polled: HTTP/2 flushes after each response, and one write for several
//! costs less.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that are gathered before a write takes them to the stream, and that are kept for further ones.
const MOST: usize = 16 << 10;

/// The stream of a connection. What is written is sent by [`Gathered::send`], by a write once there is much, and at
/// the end; a flush does nothing.
#[derive(Debug)]
pub(super) struct Gathered<S>(Arc<Mutex<Writes<S>>>);

#[derive(Debug)]
struct Writes<S> {
    stream: S,
    bytes: Vec<u8>,
    /// The number of bytes that the stream has taken.
    sent: usize,
    /// Why they could not be sent, until the connection is told.
    failed: Option<io::Error>,
}

impl<S> Clone for Gathered<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: AsyncWrite + Unpin> Gathered<S> {
    pub(super) fn new(stream: S) -> Self {
        let writes = Writes { stream, bytes: Vec::new(), sent: 0, failed: None };
        Self(Arc::new(Mutex::new(writes)))
    }

    /// Returns whether bytes wait to be sent.
    pub(super) fn has_some(&self) -> bool {
        !self.writes().bytes.is_empty()
    }

    /// Sends what was written. The task of `cx` is woken when the stream takes more, and if it failed, which the
    /// connection finds out when it is polled.
    pub(super) fn send(&self, cx: &mut Context<'_>) {
        let mut writes = self.writes();
        if let Poll::Ready(Err(error)) = writes.send(cx) {
            writes.failed = Some(error);
            cx.waker().wake_by_ref();
        }
    }

    fn writes(&self) -> MutexGuard<'_, Writes<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: AsyncWrite + Unpin> Writes<S> {
    fn send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest @ [_, ..]) = self.bytes.get(self.sent..) {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => self.sent += sent,
            }
        }
        self.sent = 0;
        self.bytes.clear();
        self.bytes.shrink_to(MOST);
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Fails if the stream has; waits if it takes nothing and there is much.
    fn begin(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Err(error));
        }
        if self.bytes.len() < MOST { Poll::Ready(Ok(())) } else { self.send(cx) }
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
        parts.iter().for_each(|part| writes.bytes.extend_from_slice(part));
        Poll::Ready(Ok(parts.iter().map(|part| part.len()).sum()))
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
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.get_mut().is_shut = true;
            Poll::Ready(Ok(()))
        }
    }

    fn noting(most: usize) -> Gathered<Notes> {
        Gathered::new(Notes { writes: Vec::new(), most, is_shut: false })
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
        assert!(gathered.has_some() && gathered.writes().stream.writes.is_empty());
        gathered.send(&mut now());
        assert!(!gathered.has_some());
        assert_eq!(gathered.writes().stream.writes, [b"one two"]);
    }

    #[tokio::test]
    async fn what_is_much_is_sent_by_a_write_and_waits_for_the_stream() {
        let mut gathered = noting(0);
        gathered.write_all(&[7; MOST]).await.unwrap();
        assert!(Pin::new(&mut gathered).poll_write(&mut now(), b"8").is_pending());
        assert!(Pin::new(&mut gathered).poll_flush(&mut now()).is_pending());
        gathered.writes().stream.most = 1_000;
        gathered.write_all(b"8").await.unwrap();
        gathered.send(&mut now());
        assert_eq!(gathered.writes().stream.writes.concat(), [&[7; MOST][..], b"8"].concat());
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
    async fn a_stream_that_failed_is_told_of_at_the_next_flush() {
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
