//! The stream under hyper, which `connection.rs` gives it. It withholds the end of the client's input for a while.
//!
//! hyper takes the end of a client's input for the end of the client, and drops its requests. But
//! many clients close their side as soon as they have sent a request. So the end is withheld while
//! a request is under way, for at most [`Bounds::half_closed`](crate::listener::Bounds): a client
//! that is gone must not wait for a limiter for ever.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::listener::{Activity, Arrives, Bounds, Remainder, Shell, Stream};
use crate::stop::Stop;

/// A stream that passes on everything but an early end.
pub(super) struct HyperIo {
    /// Bytes that were read from the stream before.
    read: Bytes,
    stream: Stream,
    activity: Arc<Activity>,
    stop: Stop,
    /// Set once the process drains, over HTTP/1.1.
    remainder: Option<Remainder>,
    bounds: Bounds,
    /// A timer that starts when the client's side is closed.
    grace: Option<Pin<Box<Sleep>>>,
}

impl HyperIo {
    /// The stream for hyper. `read` are its first bytes, which were read before.
    pub(super) fn new(stream: Stream, read: Bytes, activity: Arc<Activity>, shell: &Shell) -> Self {
        Self {
            read,
            stream,
            activity,
            stop: shell.stop.clone(),
            remainder: None,
            bounds: shell.bounds,
            grace: None,
        }
    }

    /// Returns whether the end of the client's input may be reported: for a while, not while a request is
    /// under way.
    fn may_end(&mut self, cx: &mut Context<'_>) -> bool {
        // The waker first: a request that ends right after the look would wake no task.
        self.activity.wake_when_none(cx.waker());
        if !self.activity.any_under_way() {
            return true;
        }
        let half_closed = self.bounds.half_closed;
        // Set once, because a side that is closed never opens again.
        let grace = self.grace.get_or_insert_with(|| Box::pin(sleep(half_closed)));
        grace.as_mut().poll(cx).is_ready()
    }

    /// Reads. Over HTTP/1.1, after the process starts to drain, it reads only bytes that had
    /// arrived then or come soon after, and the rest of a request under way.
    fn poll_read_on(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, activity, stop, remainder, bounds, .. } = self;
        let stream = Pin::new(stream);
        // Over HTTP/2 a GOAWAY says which requests are still answered; HTTP/1.1 has no such message.
        if !stop.is_draining() || activity.speaks_http_2() {
            return stream.poll_read(cx, into);
        }
        let remainder = remainder.get_or_insert_with(|| Remainder::of(&*stream, *bounds));
        if !activity.any_under_way() {
            return remainder.poll_read(stream, cx, into);
        }
        // hyper reads after a complete request only if no bytes follow it. Nothing more is answered then, so the reply
        // to the last request says `Connection: close`.
        if remainder.is_empty() || stream.arrived() == 0 {
            activity.note_last();
        }
        stream.poll_read(cx, into)
    }
}

impl AsyncRead for HyperIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.read.is_empty() {
            let taken = this.read.split_to(this.read.len().min(into.remaining()));
            into.put_slice(&taken);
            return Poll::Ready(Ok(()));
        }
        let before = into.filled().len();
        // A read into a full buffer is empty as well, and is no end.
        let has_space = into.remaining() > 0;
        let read = this.poll_read_on(cx, into);
        let ended =
            matches!(read, Poll::Ready(Ok(()))) && has_space && into.filled().len() == before;
        // The end of the last request and the timer both wake the task.
        if ended && !this.may_end(cx) { Poll::Pending } else { read }
    }
}

impl AsyncWrite for HyperIo {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
