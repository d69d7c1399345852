//! Streams of events (`text/event-stream`, WHATWG HTML, 9.2): a bounded number, each written by a task of its own.
//! `GET /v1/stats/events`, `GET /v1/decisions` and `GET /v1/recorded` answer with such a stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::message::{Content, HttpResponse};
use crate::limiters::Limiters;
use crate::listener::Role;
use crate::refusal::{RefusalKind, RequestRefusal};

/// The largest number of streams of events that are open at a time.
const MOST_STREAMS: usize = 32;
/// Streams leave one in this many, of themselves and of the connections of the listener, to others.
const LEFT: usize = 4;
/// Writes that the connection has not taken yet. A task with more to write waits for the reader.
const UNSENT: usize = 1;
/// The longest time without a line, so that a client and the proxies before it see that the stream lives.
const QUIET: Duration = Duration::from_secs(10);

/// The open streams, and their largest number.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    open: Arc<AtomicUsize>,
    most: usize,
}

/// One open stream, until it is dropped.
#[derive(Debug)]
struct OpenStream(Streams);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

/// Where the events of one stream are written to.
pub(super) struct Sink {
    events: mpsc::Sender<Bytes>,
    _open: OpenStream,
}

impl Sink {
    /// Sends events with JSON as their data, in one write, once the client has taken earlier ones.
    ///
    /// # Errors
    /// Returns an error when the client is gone.
    pub(super) async fn send(
        &self,
        events: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Result<(), Gone> {
        let mut written = Vec::new();
        for json in events {
            written.extend_from_slice(b"data: ");
            written.extend_from_slice(json.as_ref());
            written.extend_from_slice(b"\n\n");
        }
        self.send_bytes(written.into()).await
    }

    /// Sends bytes of another media type.
    ///
    /// # Errors
    /// Returns an error when the client is gone.
    pub(super) async fn send_bytes(&self, bytes: Bytes) -> Result<(), Gone> {
        self.events.send(bytes).await.map_err(|_| Gone)
    }

    /// Waits for `next`, and sends keep-alive lines while it waits; `None` when the client is gone.
    pub(super) async fn alive<T>(&self, next: impl Future<Output = T>) -> Option<T> {
        let mut next = std::pin::pin!(next);
        loop {
            tokio::select! {
                next = timeout(QUIET, &mut next) => match next {
                    Ok(next) => return Some(next),
                    Err(_) => self.events.send(Bytes::from_static(b":\n\n")).await.ok()?,
                },
                // Events may be rare, and a stream that sends nothing would not notice that its client is gone.
                () = self.events.closed() => return None,
            }
        }
    }
}

/// The client of a stream is gone.
#[derive(Debug)]
pub(super) struct Gone;

impl Streams {
    /// No stream is open yet at a listener of this many connections. Streams leave some of the connections to
    /// operators who change limits.
    pub(super) fn within(connections: u32) -> Self {
        let connections = connections as usize;
        // A quarter, rounded up, is never more than the whole, so no difference here can wrap.
        let most = MOST_STREAMS.min(connections - connections.div_ceil(LEFT));
        Self { open: Arc::default(), most }
    }

    /// The largest number of streams for this role. Operators who only read leave some streams to operators who change
    /// limits.
    const fn most(&self, role: Role) -> usize {
        match role {
            Role::Change => self.most,
            Role::Read => self.most - self.most.div_ceil(LEFT),
        }
    }

    /// An answer whose events `write` sends, as a task of its own, until the server stops.
    ///
    /// # Errors
    /// Returns a problem if too many streams are open.
    pub(super) fn open<Writing>(
        &self,
        role: Role,
        limiters: &Arc<Limiters>,
        write: impl FnOnce(Sink) -> Writing,
    ) -> Result<HttpResponse, RequestRefusal>
    where
        Writing: Future<Output = ()> + Send + 'static,
    {
        let most = self.most(role);
        // Compared and counted in one step, so that two clients cannot both take the last place.
        let place =
            self.open.fetch_update(Relaxed, Relaxed, |open| (open < most).then_some(open + 1));
        if place.is_err() {
            let detail = format!(
                "{most} streams of events are open, as many as may be: close one, or read GET /v1/stats \
                 from time to time"
            );
            return Err(RefusalKind::TooManyStreams.because(detail));
        }
        // From here on a drop gives the place back, also if the future is never polled.
        let open = OpenStream(self.clone());
        let (events, unsent) = mpsc::channel(UNSENT);
        let writing = write(Sink { events, _open: open });
        let limiters = Arc::clone(limiters);
        tokio::spawn(async move {
            tokio::select! {
                () = writing => {}
                // A stream has no end of its own, and would keep its connection from draining.
                () = limiters.draining() => {}
            }
        });
        let mut response = HttpResponse::new(Content::Events(unsent));
        let fields = response.headers_mut();
        fields.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(response)
    }
}
