//! HTTP/1.1 and HTTP/2 on one port, Envoy's service and Redis clients on other ports, and one limit for all; with a
//! client of each protocol, which asks for one unit of a user.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame};
use hyper::client::conn::http2;
use hyper::{Method, Request};
use hyper_util::rt::{TokioExecutor, TokioIo};
use redis::{Value, cmd};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use crate::client::Client;
use crate::envoy_api::Code;
use crate::grpc::{self, RateLimitServiceClient, descriptor, request_in};
use crate::process::Server;

const BODY: &str = r#"{"descriptor": {"key": "a"}}"#;

#[tokio::test]
async fn http_2_by_prior_knowledge_is_answered_on_the_same_port() {
    let server = Server::with_example();
    let client = Client::http2(server.http);
    let answer = client.check(BODY).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("4"));
    client.check("{").await.problem(400);
    Client::http2(server.admin).get("/v1/rules").await.succeeded();
}

#[tokio::test]
async fn a_head_request_is_answered_like_a_get_without_a_body() {
    let server = Server::with_example();
    let client = server.client();
    let answer = client.send(Method::HEAD, "/healthz", None, Vec::new()).await;
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, ""));
}

#[tokio::test]
async fn a_head_too_large_is_answered_over_http_2_too() {
    let server = Server::with_example();
    let client = Client::http2(server.http);
    let long = format!("application/json; padding={}", "a".repeat(100_000));
    let body = br#"{"descriptor": {"user": "a"}}"#.to_vec();
    let refused = client.send(Method::POST, "/v1/check", Some(&long), body).await;
    assert_eq!((refused.status.as_u16(), refused.text.as_str()), (431, ""));
    assert_eq!(client.get("/healthz").await.status, 200, "the connection goes on");
}

/// A body whose end comes late, and that records when it was read.
struct Late {
    pause: Pin<Box<Sleep>>,
    has_begun: bool,
    ended: Arc<AtomicBool>,
}

impl Late {
    fn by(pause: Duration, ended: &Arc<AtomicBool>) -> Self {
        let pause = Box::pin(tokio::time::sleep(pause));
        Self { pause, has_begun: false, ended: Arc::clone(ended) }
    }
}

impl Body for Late {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if !std::mem::replace(&mut self.has_begun, true) {
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"{")))));
        }
        ready!(self.pause.as_mut().poll(cx));
        self.ended.store(true, SeqCst);
        Poll::Ready(None)
    }
}

/// An answer before the request has ended is followed by a reset of the stream, and some clients (curl 7.88)
/// then drop it.
#[tokio::test]
async fn what_is_refused_over_http_2_is_read_to_its_end_before_it_is_answered() {
    let server = Server::with_example();
    let stream = TokioIo::new(TcpStream::connect(server.http).await.unwrap());
    let (mut send, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let mut ask = async |path: &str, (name, value): (&str, &str), pause: Duration| {
        let ended = Arc::new(AtomicBool::new(false));
        let request = Request::post(format!("http://{}{path}", server.http)).header(name, value);
        let body = Late::by(pause, &ended);
        let answer = send.send_request(request.body(body).unwrap()).await.unwrap();
        (answer.status().as_u16(), ended.load(SeqCst))
    };
    let (soon, never) = (Duration::from_millis(50), Duration::from_secs(3_600));
    let (json, long) = (("content-type", "application/json"), "a".repeat(70_000));
    assert_eq!(ask("/nowhere", json, soon).await, (404, true));
    assert_eq!(ask("/v1/rules", json, soon).await, (404, true));
    assert_eq!(ask("/healthz", json, soon).await, (405, true));
    assert_eq!(ask("/v1/check", ("content-type", "text/html"), soon).await, (415, true));
    assert_eq!(ask("/v1/check", ("origin", "http://elsewhere.example"), soon).await, (403, true));
    assert_eq!(ask("/v1/check", ("padding", &long), soon).await, (431, true));
    // But it is not read for ever.
    assert_eq!(ask("/nowhere", json, never).await, (404, false));
}

/// A connection of one protocol.
pub(crate) enum Asker {
    Http(Client),
    Grpc(RateLimitServiceClient),
    Resp(TcpStream),
}

impl Asker {
    /// A client over HTTP/1.1, over HTTP/2, over gRPC, and over RESP, each with its name.
    pub(crate) async fn all(server: &Server) -> [(&'static str, Self); 4] {
        [
            ("HTTP/1.1", Self::Http(server.client())),
            ("HTTP/2", Self::Http(Client::http2(server.http))),
            ("gRPC", Self::Grpc(grpc::client(server).await)),
            ("RESP", Self::Resp(TcpStream::connect(server.resp).await.unwrap())),
        ]
    }

    /// Returns whether a unit of a user is admitted, by limiters that are where they should be.
    pub(crate) async fn admits(&mut self, domain: &str, user: &str) -> bool {
        match self {
            Self::Http(client) => {
                let body = json!({"domain": domain, "descriptor": {"user": user}}).to_string();
                let answer = client.check(&body).await;
                let reported = answer.json();
                let allowed = reported["allowed"].as_bool().unwrap();
                assert_eq!(answer.status, if allowed { 200 } else { 429 }, "{}", answer.text);
                assert_eq!(reported["degraded"], false, "{}", answer.text);
                allowed
            }
            Self::Grpc(client) => {
                let request = request_in(domain, vec![descriptor(&[("user", user)])]);
                let answer = client.should_rate_limit(request).await.unwrap().into_inner();
                assert_ne!(answer.overall_code(), Code::Unknown);
                assert_eq!(answer.dynamic_metadata, None, "it is not degraded");
                answer.overall_code() == Code::Ok
            }
            Self::Resp(connection) => {
                let check = cmd("TG.CHECK").arg(&[domain, "user", user]).get_packed_command();
                connection.write_all(&check).await.unwrap();
                let answer = read_replies(connection, 1).await.remove(0);
                assert_eq!(answer["degraded"], Value::Int(0), "{answer:?}");
                answer["allowed"] == Value::Int(1)
            }
        }
    }
}

/// Reads this many replies of maps.
pub(crate) async fn read_replies(
    connection: &mut TcpStream,
    count: usize,
) -> Vec<HashMap<String, Value>> {
    let mut bytes = Vec::new();
    loop {
        let read = connection.read_buf(&mut bytes).await.unwrap();
        assert!(read > 0, "the server closed the connection");
        let (mut rest, mut parser) = (bytes.as_slice(), redis::Parser::new());
        let replies: Result<Vec<_>, _> =
            (0..count).map(|_| parser.parse_value(&mut rest)).collect();
        if let Ok(replies) = replies {
            let maps = replies.into_iter().map(|reply| redis::from_redis_value(reply).unwrap());
            return maps.collect();
        }
    }
}

const ONE_RULE: &str = r#"
rule = [
    { name = "per-user", domain = "edge", key = ["user"], algorithm = "fixed_window", rate = "4/365d" },
]
"#;

#[tokio::test]
async fn what_is_spent_one_way_is_refused_every_way() {
    let server = Server::with_rules(ONE_RULE);
    for spent in 0..4 {
        let mut askers = Asker::all(&server).await;
        let (user, asker) = &mut askers[spent];
        let user = *user;
        for _ in 0..4 {
            assert!(asker.admits("edge", user).await, "{user}");
        }
        for (refused, asker) in &mut askers {
            assert!(!asker.admits("edge", user).await, "spent by {user}, asked by {refused}");
        }
    }
    let mut askers = Asker::all(&server).await;
    for (one, asker) in &mut askers {
        assert!(asker.admits("edge", "mixed").await, "{one}");
    }
    for (refused, asker) in &mut askers {
        assert!(!asker.admits("edge", "mixed").await, "{refused}");
    }
}
