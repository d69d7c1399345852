//! One HTTP/2 connection of a proxy, kept for as long as its client keeps it. It serves each call by [`Routes`], on a
//! [`Gathered`] stream and with calls polled in place ([`inline`]).

use std::convert::Infallible;
use std::sync::Arc;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};

use super::Bounds;
use super::gathered::Gathered;
use super::inline::{self, Inline};
use super::reply::OF_A_CALL;
use super::routes::Routes;
use crate::listener::{Activity, Handler, Heads, Shell, Stream, WINDOW_BYTES, WINDOW_OF_ALL_BYTES};

/// The largest number of calls under way on one connection.
const STREAMS: u32 = 1024;
/// Most bytes of the head of a call: a proxy may pass on fields of its caller, such as `tracestate`.
const HEAD_BYTES: u32 = 64 << 10;

/// Serves connections, all by the same routes.
#[derive(Clone)]
pub(super) struct Connections(pub(super) Arc<Routes>);

/// The bounds of hyper for a connection.
fn builder(bounds: Bounds) -> Builder<Inline> {
    let mut builder = Builder::new(Inline(bounds.stalled));
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_OF_ALL_BYTES)
        .max_header_list_size(HEAD_BYTES)
        .keep_alive_interval(bounds.ping)
        .keep_alive_timeout(bounds.pong);
    builder
}

impl Handler for Connections {
    const PROTOCOLS: &'static [&'static [u8]] = &[b"h2"];

    async fn serve(self, stream: Stream, shell: Shell) {
        let activity = Arc::new(Activity::default());
        let account = Arc::clone(&shell.account);
        let granted = self.0.granted(|| stream.peer());
        let stream = stream.with_heads(Heads::new(Arc::clone(&activity)), &[]);
        let service = service_fn(|request: Request<Incoming>| {
            let routes = Arc::clone(&self.0);
            let activity = Arc::clone(&activity);
            let account = Arc::clone(&account);
            // Here and not when the call runs: a client may open many calls at once.
            let kept = account.take(OF_A_CALL);
            async move {
                let Some(kept) = kept else {
                    // A refusal has space of its own, because some proxies let a request through that gets no answer.
                    let space = account.take_to_refuse(OF_A_CALL);
                    return Ok(routes.without_space(&request, space));
                };
                // Only calls that are let in keep the connection from being idle.
                let mut under_way = None;
                let answer = routes.answer(request, kept, granted, || {
                    activity.note();
                    under_way = Some(activity.begin());
                });
                let answer = answer.await;
                Ok::<_, Infallible>(answer.map(|reply| reply.under_way(under_way)))
            }
        });
        let stream = Gathered::new(stream);
        let io = TokioIo::new(stream.clone());
        let connection = builder(shell.bounds).serve_connection(io, service);
        let connection = inline::InlineConnection::new(connection, stream);
        let run = shell.run(
            connection,
            &activity,
            // HTTP/2 alone is spoken: a GOAWAY says which calls are still answered.
            || true,
            |it| {
                it.get_mut().inner().graceful_shutdown();
            },
        );
        if let Err(error) = run.await {
            // A broken connection concerns only its client.
            tracing::debug!(%error, "a gRPC connection broke off");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::testing::{DECIDES, WINDOW, ada, call, connected, routes, routes_to, served};
    use crate::limiters::Limiters;
    use crate::listener::ListenerSecret;
    use http_body_util::BodyExt;
    use hyper::body::Bytes;
    use std::time::Duration;
    use tidegate::config;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::timeout;

    /// The first bytes of a client: the preface, and empty settings.
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

    #[tokio::test]
    async fn a_stranger_s_calls_do_not_keep_its_connection() {
        let bounds = Bounds { idle: Duration::from_millis(100), ..Bounds::default() };
        let secret = ListenerSecret::parse("sesame").ok();
        let mut called = connected(routes(bounds, secret), bounds, 0).await;
        let response = called.send.send_request(call(DECIDES, Bytes::new())).await.unwrap();
        assert_eq!(response.headers()["grpc-status"], "16", "unauthenticated");
        // The server ends it: `send` is still there.
        let _ = called.connection.await.unwrap();
        assert!(called.send.is_closed());
    }

    /// The call has been admitted, so only idleness ends the connection, although the client answers pings.
    #[tokio::test]
    async fn a_client_that_does_not_open_its_window_does_not_keep_its_connection() {
        let short = Duration::from_secs(1);
        let bounds = Bounds { idle: short, ping: short / 4, ..Bounds::default() };
        let mut called = connected(routes(bounds, None), bounds, 0).await;
        let response = called.send.send_request(call(DECIDES, ada("edge"))).await.unwrap();
        assert_eq!(response.status(), 200);
        let body = response.into_body();
        let _ = called.connection.await.unwrap();
        assert!(called.send.is_closed());
        assert!(body.collect().await.is_err(), "it did not come");
    }

    /// A waiting call counts as use.
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
        let bounds = Bounds { idle: Duration::from_millis(500), ..Bounds::default() };
        let mut called = connected(routes_to(limiters, bounds, None), bounds, WINDOW).await;
        for _ in 0..2 {
            let response = called.send.send_request(call(DECIDES, ada("edge"))).await.unwrap();
            assert!(response.into_body().collect().await.is_ok());
        }
    }

    /// Nothing else ends the connection within the test: pings are unanswered, but for less than a
    /// minute.
    #[tokio::test]
    async fn a_client_that_ends_no_head_does_not_keep_its_connection() {
        let bounds = Bounds { head: Duration::from_millis(50), ..Bounds::default() };
        let server = served(routes(bounds, None), bounds, Arc::default()).await;
        let mut client = server.connect().await;
        client.write_all(&[PREFACE, b"\0\0\x01\x01\0\0\0\0\x01\x02"].concat()).await.unwrap();
        let ended = timeout(Duration::from_secs(10), client.read_to_end(&mut Vec::new())).await;
        assert!(ended.is_ok(), "still connected");
    }

    /// Nothing else ends the connection within the test: it may be idle for an hour.
    #[tokio::test]
    async fn a_client_that_answers_no_ping_does_not_keep_its_connection() {
        let (short, long) = (Duration::from_millis(50), Duration::from_secs(3600));
        let bounds = Bounds { idle: long, ping: short, pong: short, ..Bounds::default() };
        let server = served(routes(bounds, None), bounds, Arc::default()).await;
        let mut client = server.connect().await;
        client.write_all(PREFACE).await.unwrap();
        let mut came = Vec::new();
        let ended = timeout(Duration::from_secs(10), client.read_to_end(&mut came)).await;
        assert!(ended.is_ok(), "still connected");
    }
}
