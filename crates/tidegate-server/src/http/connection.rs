//! One connection: HTTP/1.1 or HTTP/2, by what its first bytes say; kept as long as it brings requests.

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::body::{Body, Bytes};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::time::sleep;

use super::fast_path::FastPath;
use super::held::Shared;
use super::hyper_io::HyperIo;
use super::unread::Unread;
use super::{Limits, Request, Response, bad_request, head};
use crate::listener::{
    Account, Activity, Budget, Handler, Idle, Stream, WatchedTasks, answer_begins, looks,
};
use crate::stop::Stop;

/// What answers the requests of a connection; a copy of it for each of them.
pub(super) trait Site: Clone + Send + Sync + 'static {
    /// What may answer before hyper does, if anything.
    fn fast_path(&self) -> Option<FastPath> {
        None
    }

    /// Whatever comes of a request is a response.
    fn answer(self, request: Request) -> impl Future<Output = Response> + Send;
}

/// Most requests that one HTTP/2 connection may have under way.
const STREAMS: u32 = 100;
/// Most bytes of an HTTP/2 head: what lies between this and [`head::MOST_BYTES`] is told what was wrong.
const HEAD_BYTES: u32 = 128 << 10;
/// Most bytes of bodies that a client may send over HTTP/2 before any of them is read: of one stream, and of all.
const WINDOW_BYTES: u32 = 64 << 10;
const WINDOW_OF_ALL_BYTES: u32 = 256 << 10;
/// Most bytes of an HTTP/1.1 connection that wait in memory, so of the head of a request.
const BUFFER_BYTES: usize = head::MOST_BYTES;

/// How soon a connection is told to leave once it is seen to be HTTP/2.
const BREATH: Duration = Duration::from_millis(10);

/// Speaks HTTP on the connections of a listener.
#[derive(Clone)]
pub(super) struct Http<S> {
    pub(super) site: S,
    pub(super) limits: Limits,
    pub(super) budget: Arc<Budget>,
}

impl<S: Site> Handler for Http<S> {
    async fn serve(self, stream: Stream, stop: Stop) {
        let account = self.budget.open();
        serve(stream, self.site, self.limits, account, stop).await;
    }
}

/// Serves the connection until it ends, is idle, or is asked to leave with the process.
async fn serve(
    mut stream: Stream,
    site: impl Site,
    limits: Limits,
    account: Arc<Account>,
    mut stop: Stop,
) {
    let read = match site.fast_path() {
        Some(fast) => fast.serve(&mut stream, &account, &mut stop).await,
        None => Ok(Some(Bytes::new())),
    };
    let read = match read {
        Ok(Some(read)) => read,
        Ok(None) => return,
        Err(error) => return tracing::debug!(%error, "a connection broke off"),
    };
    // Most connections never come here.
    Box::pin(by_hyper(stream, read, site, limits, account, stop)).await;
}

/// Serves what may be anything; `read` is what was read of it before.
async fn by_hyper(
    stream: Stream,
    read: Bytes,
    site: impl Site,
    limits: Limits,
    account: Arc<Account>,
    stop: Stop,
) {
    let shared = Shared::new(Arc::new(Activity::default()), account);
    let activity = Arc::clone(&shared.activity);
    let (stream, mut handed_over) = HyperIo::new(stream, read, activity, limits, stop.clone());
    let ended = run(stream, shared, site, limits, stop).await;
    if let Err(error) = &ended {
        // It concerns nobody but its client.
        tracing::debug!(%error, "a connection broke off");
    }
    if let Ok(refused) = handed_over.try_recv() {
        let reason = ended.err().map_or_else(|| "can not be read".to_owned(), |e| e.to_string());
        bad_request::answer(refused, &reason, BUFFER_BYTES, limits).await;
    }
}

async fn run(
    stream: HyperIo,
    shared: Shared,
    site: impl Site,
    limits: Limits,
    mut stop: Stop,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let builder = builder(limits);
    let service = noting(shared.clone(), site);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut idle = Idle::after(limits.idle);
    let mut reads = looks(limits.stalled / 2);
    let (mut heads, mut head) = (looks(limits.head / 2), (None, 0));
    let (mut draining, mut told, mut warned) = (false, false, false);
    loop {
        tokio::select! {
            // What was handed over is read before the connection is asked to leave.
            biased;
            ended = connection.as_mut() => return ended,
            // Over HTTP/1.1 the stream ends behind what has arrived.
            () = stop.draining(), if !draining => draining = true,
            () = sleep(BREATH), if draining && !told => if shared.activity.speaks_http_2() {
                told = true;
                connection.as_mut().graceful_shutdown();
            },
            _ = reads.tick() => if shared.account.has_stalled() {
                return Ok(());
            },
            _ = heads.tick() => {
                let now = shared.activity.in_head();
                let same = now.is_some() && now == head.0;
                head = (now, if same { head.1 + 1 } else { 0 });
                if head.1 == 2 {
                    return Ok(());
                }
            }
            () = idle.look() => {
                let came = shared.activity.any_since_last_look();
                if warned && !came {
                    return Ok(());
                }
                if idle.is_over(came) {
                    warned = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }
}

fn builder(limits: Limits) -> Builder<WatchedTasks> {
    let mut builder = Builder::new(WatchedTasks(limits.stalled));
    builder
        .http1()
        .timer(TokioTimer::new())
        // It would count what is idle as well.
        .header_read_timeout(None)
        .max_buf_size(BUFFER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_OF_ALL_BYTES)
        .max_header_list_size(HEAD_BYTES);
    builder
}

/// The site, noting what the connection is used for, and what it keeps.
fn noting(
    shared: Shared,
    site: impl Site,
) -> impl Service<
    Request,
    Response = hyper::Response<Unread>,
    Error = Infallible,
    Future: Future<Output = Result<hyper::Response<Unread>, Infallible>> + Send + 'static,
> {
    service_fn(move |mut request: Request| {
        let (held, site) = (shared.begin(), site.clone());
        let activity = Arc::clone(&shared.activity);
        async move {
            let held = match held {
                Ok(held) => held,
                Err(problem) => {
                    answer_begins();
                    return Ok(Unread::alone(problem.into_response()));
                }
            };
            if !request.body().is_end_stream() {
                request.extensions_mut().insert(held.clone());
            }
            let mut answer = site.answer(request).await;
            if activity.is_last() && !activity.speaks_http_2() {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            if answer.status() != StatusCode::UNAUTHORIZED {
                activity.note();
            }
            answer_begins();
            Ok(Unread::of(answer, held))
        }
    })
}
