//! One connection: HTTP/2, kept for as long as its client is there.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};

use super::inline::Inline;
use super::limits::OF_A_CALL;
use super::routes::Routes;
use super::{Limits, reply};
use crate::listener::{Activity, Budget, Handler, Idle, Stream, looks};
use crate::stop::Stop;

/// Serves every connection by the same routes.
#[derive(Clone)]
pub(super) struct Connections {
    routes: Arc<Routes>,
    limits: Limits,
    budget: Arc<Budget>,
}

/// Most bytes of messages that a client may send before any of them is read: of one call, and of all.
const WINDOW_BYTES: u32 = 64 << 10;
const WINDOW_OF_ALL_BYTES: u32 = 256 << 10;

impl Connections {
    pub(super) const fn new(routes: Arc<Routes>, limits: Limits, budget: Arc<Budget>) -> Self {
        Self { routes, limits, budget }
    }

    fn builder(&self) -> Builder<Inline> {
        let mut builder = Builder::new(Inline(self.limits.stalled));
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.limits.streams)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_OF_ALL_BYTES)
            .max_header_list_size(self.limits.head_bytes)
            .keep_alive_interval(self.limits.ping)
            .keep_alive_timeout(self.limits.pong);
        builder
    }
}

impl Handler for Connections {
    async fn serve(self, stream: Stream, mut stop: Stop) {
        let (activity, account) = (Arc::new(Activity::default()), self.budget.open());
        let service = service_fn(|request: Request<Incoming>| {
            let (routes, activity) = (Arc::clone(&self.routes), Arc::clone(&activity));
            let kept = account.take(OF_A_CALL);
            async move {
                let Some(kept) = kept else { return Ok(reply::too_much()) };
                let mut under_way = None;
                let let_in = || {
                    activity.note();
                    under_way = Some(activity.begin());
                };
                let answer = routes.answer(request, kept, let_in).await;
                Ok::<_, Infallible>(answer.map(|reply| reply.under_way(under_way)))
            }
        });
        let mut connection = pin!(self.builder().serve_connection(TokioIo::new(stream), service));
        let mut idle = Idle::after(self.limits.idle);
        let mut reads = looks(self.limits.stalled / 2);
        let (mut draining, mut warned) = (false, false);
        let ended = loop {
            tokio::select! {
                ended = connection.as_mut() => break ended,
                () = stop.draining(), if !draining => {
                    draining = true;
                    connection.as_mut().graceful_shutdown();
                }
                _ = reads.tick() => if account.has_stalled() {
                    return;
                },
                () = idle.look() => {
                    let came = activity.any_since_last_look();
                    if warned && !came {
                        return;
                    }
                    if idle.is_over(came) {
                        warned = true;
                        connection.as_mut().graceful_shutdown();
                    }
                }
            }
        };
        if let Err(error) = ended {
            // It concerns nobody but its client.
            tracing::debug!(%error, "a gRPC connection broke off");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::testing::{DECIDES, WINDOW, ada, call, connected, routes, routes_to, served};
    use crate::limiters::Limiters;
    use crate::listener::Secret;
    use http_body_util::BodyExt;
    use hyper::body::Bytes;
    use std::time::Duration;
    use tidegate::config;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::time::timeout;

    /// What a client begins with: the preface, and settings that set nothing.
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

    #[tokio::test]
    async fn a_stranger_s_calls_do_not_keep_its_connection() {
        let limits = Limits { idle: Duration::from_millis(100), ..Limits::default() };
        let secret = Secret::parse("sesame").ok();
        let mut called = connected(routes(limits, secret), limits, 0).await;
        let told = called.send.send_request(call(DECIDES, Bytes::new())).await.unwrap();
        assert_eq!(told.headers()["grpc-status"], "16", "unauthenticated");
        // Ends because the server ends it: `send` is still there.
        let _ = called.connection.await.unwrap();
        assert!(called.send.is_closed());
    }

    /// It has been let in, so nothing but its idling ends it: pings are answered all the while.
    #[tokio::test]
    async fn a_client_that_does_not_open_its_window_does_not_keep_its_connection() {
        let short = Duration::from_secs(1);
        let limits = Limits { idle: short, ping: short / 4, ..Limits::default() };
        let mut called = connected(routes(limits, None), limits, 0).await;
        let told = called.send.send_request(call(DECIDES, ada("edge"))).await.unwrap();
        assert_eq!(told.status(), 200);
        let body = told.into_body();
        let _ = called.connection.await.unwrap();
        assert!(called.send.is_closed());
        assert!(body.collect().await.is_err(), "it did not come");
    }

    /// A call that waits is of use for as long as it does.
    #[tokio::test]
    async fn a_call_that_waits_longer_than_a_connection_may_idle_is_answered() {
        const RULE: &str = r#"
            [[rule]]
            name = "shaped"
            domain = "edge"
            algorithm = "token_bucket"
            limit = 1
            window = "2s"
            on_excess = { wait = "1h", max_waiters = 1 }
        "#;
        let limiters = Limiters::of(config::parse("test", RULE).unwrap()).unwrap();
        let limits = Limits { idle: Duration::from_millis(500), ..Limits::default() };
        let mut called = connected(routes_to(limiters, limits, None), limits, WINDOW).await;
        for _ in 0..2 {
            let told = called.send.send_request(call(DECIDES, ada("edge"))).await.unwrap();
            assert!(told.into_body().collect().await.is_ok());
        }
    }

    /// Nothing else ends it within the test: it may idle for an hour.
    #[tokio::test]
    async fn a_client_that_answers_no_ping_does_not_keep_its_connection() {
        let (short, long) = (Duration::from_millis(50), Duration::from_secs(3600));
        let limits = Limits { idle: long, ping: short, pong: short, ..Limits::default() };
        let (at, _stop) = served(routes(limits, None), limits).await;
        let mut client = TcpStream::connect(at).await.unwrap();
        client.write_all(PREFACE).await.unwrap();
        let mut came = Vec::new();
        let ended = timeout(Duration::from_secs(10), client.read_to_end(&mut came)).await;
        assert!(ended.is_ok(), "still connected");
    }
}
