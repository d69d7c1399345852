//! One connection: HTTP/1.1 or HTTP/2, by its first bytes; kept while it is used. The listener hands it over after
//! TLS. It begins on the fast path, if its listener has one, and goes over to hyper with all bytes that were read and
//! not answered.

use std::convert::Infallible;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::body::{Body, Bytes};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;

use super::fast_path::FastPath;
use super::hyper_io::HyperIo;
use super::message::{HttpRequest, HttpResponse};
use super::request_claims::ConnectionState;
use super::unread::Unread;
use crate::listener::Bounds;
use crate::listener::{
    Activity, Handler, Heads, Peer, Shell, Stream, WINDOW_BYTES, WINDOW_OF_ALL_BYTES, WatchedTasks,
    answer_begins,
};

/// The service that answers the requests of a connection; cloned for each of them.
pub(super) trait Endpoint: Clone + Send + Sync + 'static {
    /// Returns whether requests carry their [`Peer`] as an extension.
    fn names_peers(&self) -> bool {
        false
    }

    /// The fast path before hyper, if there is one.
    fn fast_path(&self) -> Option<FastPath> {
        None
    }

    /// Answers a request, always with a response.
    fn answer(self, request: HttpRequest) -> impl Future<Output = HttpResponse> + Send;
}

/// The largest number of concurrent requests of an HTTP/2 connection.
const STREAMS: u32 = 100;
/// Most bytes of the head of a request; an HTTP/1.1 connection buffers no more.
pub(super) const HEAD_BYTES: u32 = 64 << 10;
/// Most bytes of a head that h2 reads. h2 refuses a longer head itself, perhaps before the body has
/// ended, and some clients drop such an answer; a head between the two bounds is refused after its body.
const READABLE_HEAD_BYTES: u32 = 80 << 10;

/// Speaks HTTP on the connections of a listener.
#[derive(Clone)]
pub(super) struct Http<S>(pub(super) S);

impl<S: Endpoint> Handler for Http<S> {
    const PROTOCOLS: &'static [&'static [u8]] = &[b"h2", b"http/1.1"];

    const NEEDS_TLS: &'static [u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\n\
        connection: close\r\n\r\n{\"type\":\"urn:problem-type:tidegate:invalid-request\",\"title\":\"The head of the \
        request is not clear\",\"status\":400,\"detail\":\"this listener speaks TLS: expected https:// in place of \
        http://\"}";

    async fn serve(self, mut stream: Stream, mut shell: Shell) {
        let peer = self.0.names_peers().then(|| stream.peer());
        let read = match self.0.fast_path() {
            Some(fast) => fast.serve(&mut stream, &mut shell).await,
            None => Ok(Some(Bytes::new())),
        };
        match read {
            // Most connections stay on the fast path.
            Ok(Some(read)) => Box::pin(by_hyper(stream, read, (self.0, peer), shell)).await,
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "a connection broke off"),
        }
    }
}

/// Serves any request; `read` are the bytes that were already read.
async fn by_hyper(
    stream: Stream,
    read: Bytes,
    (endpoint, peer): (impl Endpoint, Option<Peer>),
    shell: Shell,
) {
    let activity = Arc::new(Activity::default());
    let stream = stream.with_heads(Heads::new(Arc::clone(&activity)), &read);
    let stream = HyperIo::new(stream, read, Arc::clone(&activity), &shell);
    let state = ConnectionState::new(Arc::clone(&activity), Arc::clone(&shell.account));
    let builder = builder(shell.bounds);
    let connection = builder.serve_connection(TokioIo::new(stream), tracked(state, endpoint, peer));
    let run = shell.run(
        connection,
        &activity,
        // Over HTTP/1.1 the stream ends after the bytes that have arrived.
        || activity.speaks_http_2(),
        |it| it.graceful_shutdown(),
    );
    if let Err(error) = run.await {
        // A broken connection concerns only its client.
        tracing::debug!(%error, "a connection broke off");
    }
}

fn builder(bounds: Bounds) -> Builder<WatchedTasks> {
    let mut builder = Builder::new(WatchedTasks(bounds.stalled));
    builder
        .http1()
        .timer(TokioTimer::new())
        // hyper's own timeout would count idle time as well.
        .header_read_timeout(None)
        .max_buf_size(HEAD_BYTES as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_OF_ALL_BYTES)
        .max_header_list_size(READABLE_HEAD_BYTES);
    builder
}

/// The endpoint as a hyper service that also tracks the use of the connection and the bytes that it
/// keeps.
fn tracked(
    state: ConnectionState,
    endpoint: impl Endpoint,
    peer: Option<Peer>,
) -> impl Service<
    HttpRequest,
    Response = hyper::Response<Unread>,
    Error = Infallible,
    Future: Future<Output = Result<hyper::Response<Unread>, Infallible>> + Send + 'static,
> {
    service_fn(move |mut request: HttpRequest| {
        // The claim is made when the head is read: requests that wait for their task hold memory as well.
        let held = state.begin();
        let endpoint = endpoint.clone();
        let activity = Arc::clone(&state.activity);
        if let Some(peer) = &peer {
            request.extensions_mut().insert(peer.clone());
        }
        async move {
            let held = match held {
                Ok(held) => held,
                // The endpoint is not asked without a claim. The client must take this answer in time as well.
                Err(problem) => {
                    answer_begins();
                    return Ok(Unread::alone(problem.into_response()));
                }
            };
            // The handler takes its copy of the claims out of the request, and reports through it whether it has read
            // the body.
            let has_body = !request.body().is_end_stream();
            if has_body {
                request.extensions_mut().insert(held.clone());
            }
            let mut answer = endpoint.answer(request).await;
            // The bytes after a body that is not read are no request.
            let is_last = activity.is_last() || has_body && !held.has_body();
            if is_last && !activity.speaks_http_2() {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            // Requests of a stranger do not keep a connection from being idle.
            if answer.status() != StatusCode::UNAUTHORIZED {
                activity.note();
            }
            answer_begins();
            Ok(Unread::of(answer, held))
        }
    })
}

#[cfg(test)]
mod tests;
