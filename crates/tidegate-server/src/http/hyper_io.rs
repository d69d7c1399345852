//! The stream under hyper. It withholds hyper's bare answer to unreadable requests, and for a while
//! the end of the client's input.
//!
//! hyper takes the end of a client's input for the end of the client, and drops its requests. But
//! many clients close their side as soon as they have sent a request. So the end is withheld while
//! a request is under way, for at most [`Bounds::half_closed`](crate::listener::Bounds): a client
//! that is gone must not wait for a limiter for ever.
//!
//! hyper itself answers a head that its HTTP/1 parser refuses, with an empty body, as the last
//! answer of the connection. The parser's reason is known only after hyper has ended. So that
//! answer is withheld, and the stream is not shut down but handed over to
//! [`bad_request`](super::bad_request), which writes a better one.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::StatusCode;
use hyper::body::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot::{self, Receiver, Sender};
use tokio::time::{Sleep, sleep};

use crate::listener::{Activity, Arrives, Bounds, Remainder, Shell, Stream};
use crate::stop::Stop;

/// A bare answer is shorter than this; longer writes are not examined.
const BARE_BYTES: usize = 256;
/// A bare answer has fewer header fields than this.
const BARE_FIELDS: usize = 8;
/// The statuses of answers by hyper itself.
const STATUSES: [StatusCode; 3] = [
    StatusCode::BAD_REQUEST,
    StatusCode::URI_TOO_LONG,
    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
];

/// An answer by hyper itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bare {
    pub(super) status: StatusCode,
    /// The `date` field, for the answer that replaces this one.
    pub(super) date: Option<String>,
}

impl Bare {
    /// Parses a bare answer; `None` unless the bytes are exactly one head that ends the connection
    /// and has no content type, which every answer of the router has.
    fn parse(written: &[u8]) -> Option<Self> {
        if written.len() > BARE_BYTES || !written.starts_with(b"HTTP/1.") {
            return None;
        }
        let mut fields = [httparse::EMPTY_HEADER; BARE_FIELDS];
        let mut head = httparse::Response::new(&mut fields);
        let ends = head.parse(written).ok()?;
        let status = StatusCode::from_u16(head.code?).ok()?;
        let field = |name| value(head.headers, name);
        let bare = STATUSES.contains(&status)
            && ends == httparse::Status::Complete(written.len())
            && field("connection") == Some("close")
            && field("content-type").is_none()
            && field("content-length") == Some("0");
        bare.then(|| Self { status, date: field("date").map(str::to_owned) })
    }
}

fn value<'h>(fields: &[httparse::Header<'h>], name: &str) -> Option<&'h str> {
    let field = fields.iter().find(|field| field.name.eq_ignore_ascii_case(name))?;
    std::str::from_utf8(field.value).ok()
}

/// A stream that only lacks its last answer.
pub(super) type Refused = (Stream, Bare);

/// A stream that passes on everything except hyper's bare answer.
pub(super) struct HyperIo {
    /// Bytes that were read from the stream before.
    read: Bytes,
    /// `None` after it is handed over.
    stream: Option<Stream>,
    kept_back: Option<Bare>,
    hand_over: Option<Sender<Refused>>,
    activity: Arc<Activity>,
    stop: Stop,
    /// Set once the process drains, over HTTP/1.1.
    remainder: Option<Remainder>,
    bounds: Bounds,
    /// A timer that starts when the client's side is closed.
    grace: Option<Pin<Box<Sleep>>>,
}

impl HyperIo {
    /// The stream for hyper, and a receiver that gets the stream back if hyper refused a request
    /// and shut it down.
    pub(super) fn new(
        stream: Stream,
        read: Bytes,
        activity: Arc<Activity>,
        shell: &Shell,
    ) -> (Self, Receiver<Refused>) {
        let (hand_over, handed_over) = oneshot::channel();
        let this = Self {
            read,
            stream: Some(stream),
            kept_back: None,
            hand_over: Some(hand_over),
            activity,
            stop: shell.stop.clone(),
            remainder: None,
            bounds: shell.bounds,
            grace: None,
        };
        (this, handed_over)
    }

    /// Returns whether the end of the client's input may be reported: for a while, not while a request is
    /// under way.
    fn may_end(&mut self, cx: &mut Context<'_>) -> bool {
        self.activity.wake_when_none(cx.waker());
        if !self.activity.any_under_way() {
            return true;
        }
        let half_closed = self.bounds.half_closed;
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
        let stream = inner(stream)?;
        if !stop.is_draining() || activity.speaks_http_2() {
            return stream.poll_read(cx, into);
        }
        let remainder = remainder.get_or_insert_with(|| Remainder::of(&*stream, *bounds));
        if !activity.any_under_way() {
            return remainder.poll_read(stream, cx, into);
        }
        // hyper reads after a complete request only if no bytes follow it.
        if remainder.is_empty() || stream.arrived() == 0 {
            activity.note_last();
        }
        stream.poll_read(cx, into)
    }

    /// Returns whether `written` is the bare answer, which is withheld.
    fn keeps_back(&mut self, written: &[u8]) -> bool {
        self.kept_back = self.kept_back.take().or_else(|| Bare::parse(written));
        self.kept_back.is_some()
    }

    /// Hands the stream over; returns false if nothing was withheld, or nobody waits for the
    /// stream.
    fn hands_over(&mut self) -> bool {
        let Some(bare) = self.kept_back.take() else { return false };
        let (Some(stream), Some(to)) = (self.stream.take(), self.hand_over.take()) else {
            return false;
        };
        to.send((stream, bare)).is_ok()
    }
}

/// The stream, unless it was handed over.
fn inner(stream: &mut Option<Stream>) -> io::Result<Pin<&mut Stream>> {
    let gone = || io::Error::from(io::ErrorKind::NotConnected);
    stream.as_mut().map(Pin::new).ok_or_else(gone)
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
        let (before, space) = (into.filled().len(), into.remaining());
        let read = this.poll_read_on(cx, into);
        let ended =
            matches!(read, Poll::Ready(Ok(()))) && space > 0 && into.filled().len() == before;
        if ended && !this.may_end(cx) { Poll::Pending } else { read }
    }
}

impl AsyncWrite for HyperIo {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.keeps_back(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        inner(&mut this.stream)?.poll_write(cx, bytes)
    }

    /// hyper flushes an answer before it reads the next request, so the bare answer never follows
    /// another in the same write.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if let [only] = parts
            && this.keeps_back(only)
        {
            return Poll::Ready(Ok(only.len()));
        }
        inner(&mut this.stream)?.poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inner(&mut self.get_mut().stream)?.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.hands_over() {
            return Poll::Ready(Ok(()));
        }
        inner(&mut this.stream)?.poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BARE: &str = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\
                        date: Sat, 21 Nov 2026 05:00:00 GMT\r\n\r\n";

    #[test]
    fn the_bare_answer_is_known_whatever_the_order_of_its_fields() {
        let date = Some("Sat, 21 Nov 2026 05:00:00 GMT".to_owned());
        let expected = Bare { status: StatusCode::BAD_REQUEST, date };
        assert_eq!(Bare::parse(BARE.as_bytes()), Some(expected));
        let short = b"HTTP/1.0 431 Request Header Fields Too Large\r\n\
                      Content-Length: 0\r\nConnection: close\r\n\r\n";
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        assert_eq!(Bare::parse(short), Some(Bare { status, date: None }));
    }

    #[test]
    fn no_other_write_is_kept_back() {
        let typed = BARE.replace("date:", "content-type: a/b\r\ndate:");
        let long = BARE.replace("date:", &format!("x: {}\r\ndate:", "x".repeat(BARE_BYTES)));
        for other in [
            "",
            "HTTP/1.1 400 Bad Request\r\n",
            "HTTP/1.1 100 Continue\r\n\r\n",
            &BARE[..BARE.len() - 1],
            &BARE.replace("400", "200"),
            &BARE.replace("400", "404"),
            &BARE.replace("connection: close", "x: y"),
            &BARE.replace("content-length: 0", "content-length: 1"),
            &BARE.replace("content-length: 0", "x: 0"),
            &format!("{BARE}{{}}"),
            &format!("{{}}{BARE}"),
            &typed,
            &long,
        ] {
            assert_eq!(Bare::parse(other.as_bytes()), None, "{other}");
        }
    }
}
