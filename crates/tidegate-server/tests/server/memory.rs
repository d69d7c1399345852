//! The memory of the whole program while clients read no answers or end no messages: no more than the table of
//! SECURITY.md says.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, once, pending};
use http_body_util::{Full, StreamBody};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use crate::grpc;
use crate::process::Server;

/// The memory that a listener keeps for all connections together, beyond the memory of each.
const ALL_KIB: u64 = 128 << 10;
/// The memory of the program itself in a build without optimisation.
const BESIDES_KIB: u64 = 96 << 10;
/// Far beyond the time of an answer, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The largest memory that a server has taken so far, in KiB.
fn most_kib(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// A client over HTTP/2 that takes `window` bytes of each answer before it accepts more.
async fn connect<B>(at: SocketAddr, window: u32) -> SendRequest<B>
where
    B: Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + Unpin + 'static,
{
    let mut client = Builder::new(TokioExecutor::new());
    client.initial_stream_window_size(window);
    let stream = TokioIo::new(TcpStream::connect(at).await.unwrap());
    let (send, connection) = client.handshake(stream).await.unwrap();
    tokio::spawn(connection);
    send
}

/// 790 batches of a thousand questions, which would be 20 MB for 500 of them: their answers are about 250 KB each.
#[tokio::test]
async fn seventy_nine_connections_that_read_no_answers_over_http_2_fit_into_a_gibibyte() {
    const CONNECTIONS: u64 = 79;
    const BATCHES: usize = 10;
    /// Large requests of a connection that are decided before their answers are read.
    const AT_ONCE: usize = 4;
    let server = Server::with_example();
    let before = most_kib(&server);
    let questions = (0..1_000).map(|n| format!(r#"{{"descriptor":{{"key":"key-{n}"}}}}"#));
    let body = Bytes::from(format!("[{}]", questions.collect::<Vec<_>>().join(",")));
    let ask = || {
        let post = Request::post("http://a/v1/check").header("content-type", "application/json");
        post.body(Full::new(body.clone())).unwrap()
    };
    let mut kept: Vec<SendRequest<Full<Bytes>>> = Vec::new();
    let mut waiting = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut send = connect(server.http, 0).await;
        waiting
            .push((0..BATCHES).map(|_| send.send_request(ask())).collect::<FuturesUnordered<_>>());
        kept.push(send);
    }
    let first = waiting.iter_mut().map(async |answers| {
        let mut heads: Vec<Response<Incoming>> = Vec::new();
        while heads.len() < AT_ONCE {
            heads.push(answers.next().await.unwrap().unwrap());
        }
        heads
    });
    let heads = tokio::time::timeout(PATIENCE, join_all(first)).await.unwrap();
    let heads: Vec<_> = heads.into_iter().flatten().collect();
    assert!(heads.iter().any(|head| head.status() == 200), "some are decided");
    let took = most_kib(&server) - before;
    let bound = CONNECTIONS * (64 + 128 + 32) + ALL_KIB + BESIDES_KIB;
    assert!(took <= bound, "{took} KiB, and {bound} at most");
    server.client().get("/healthz").await.succeeded();
}

/// Each begins a message of 60 KB, and never ends it.
#[tokio::test]
async fn a_thousand_grpc_messages_of_one_connection_that_do_not_end_keep_what_it_may() {
    const CALLS: usize = 1_000;
    const PART: usize = 60_000;
    /// The memory that the server keeps for a connection while there is room.
    const MOST: usize = (8 << 20) + (64 << 10);
    let server = Server::with_arguments(&["--on-bad-request", "error"]);
    let before = most_kib(&server);
    let mut begins = vec![0, 0, 0, 0xfa, 0];
    begins.resize(PART, b'x');
    let begins = Bytes::from(begins);
    let call = || {
        let part = once(std::future::ready(Ok::<_, std::convert::Infallible>(Frame::data(
            begins.clone(),
        ))));
        let call =
            Request::post("http://a/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit")
                .header("content-type", "application/grpc")
                .header("te", "trailers");
        call.body(StreamBody::new(Box::pin(part.chain(pending())))).unwrap()
    };
    let mut send = connect(server.grpc, 65_535).await;
    let mut calls: FuturesUnordered<_> = (0..CALLS).map(|_| send.send_request(call())).collect();
    // A client that drops an answer resets its stream.
    let mut heads = Vec::new();
    let refused = async {
        // The server may end the connection instead: so many frames of data are no proper use.
        while heads.len() < CALLS - MOST.div_ceil(PART)
            && let Some(Ok(head)) = calls.next().await
        {
            assert_eq!(head.headers()["grpc-status"], "8", "{head:?}");
            heads.push(head);
        }
    };
    tokio::time::timeout(PATIENCE, refused).await.unwrap();
    assert!(!heads.is_empty(), "a request that does not fit is refused");
    let took = most_kib(&server) - before;
    let bound = (MOST as u64 >> 10) + 32 + BESIDES_KIB / 2;
    assert!(took <= bound, "{took} KiB, and {bound} at most");
    let mut other = grpc::client(&server).await;
    let request = grpc::request(vec![grpc::costing(1, &[("key", "ada")])]);
    assert!(other.should_rate_limit(request).await.is_ok(), "others are answered");
}
