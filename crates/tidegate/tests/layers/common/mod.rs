//! Shared by the tests of the layer: gates whose clock stands still, and clients over real sockets.
#![allow(dead_code, reason = "each test uses its part")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use axum::body::Body;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tidegate::{AlgorithmKind, Clock, Gate, ManualClock, Policy, RuleSpec, Spec};
use tokio::net::TcpStream;

/// `limit` a minute, for each value of `key`.
pub(crate) fn rule(name: &str, limit: u64, key: &[&str]) -> RuleSpec {
    let spec = Spec::new(AlgorithmKind::SlidingLog, limit, Duration::from_secs(60));
    RuleSpec::new(name, spec).key(key.iter().copied())
}

/// A gate for which no time passes.
pub(crate) fn gate(rules: Vec<RuleSpec>) -> Arc<Gate<ManualClock>> {
    gate_at(&ManualClock::new(), rules)
}

/// A gate that reads this clock.
pub(crate) fn gate_at<C: Clock + Clone>(clock: &C, rules: Vec<RuleSpec>) -> Arc<Gate<C>> {
    Arc::new(Gate::with_clock(Policy::new(rules).unwrap(), clock.clone()))
}

/// The units left under each rule of a gate that asks all requests alike.
pub(crate) fn left(gate: &Gate<ManualClock>) -> Vec<u64> {
    gate.peek(&[]).matched().iter().map(|matched| matched.decision().remaining).collect()
}

/// A request for this path or URL.
pub(crate) fn to(uri: &str) -> Request<Body> {
    Request::get(uri).body(Body::empty()).unwrap()
}

/// A service that answers `hello`.
pub(crate) async fn hello(_: Request<Body>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Body::from("hello")))
}

/// A connection of its own, over which one request follows the other.
pub(crate) struct Connection(http1::SendRequest<Empty<&'static [u8]>>);

impl Connection {
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let stream = TcpStream::connect(server).await.unwrap();
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self(sender)
    }

    /// Asks for a path; the answer's body is text.
    pub(crate) async fn get(&mut self, path: &str, fields: &[(&str, &str)]) -> Response<String> {
        let request = Request::get(path).header("host", "localhost");
        let request = fields.iter().fold(request, |b, (name, value)| b.header(*name, *value));
        self.0.ready().await.unwrap();
        let answer = self.0.send_request(request.body(Empty::new()).unwrap()).await.unwrap();
        let (head, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Response::from_parts(head, String::from_utf8(body.to_vec()).unwrap())
    }

    /// Sends so many requests for `/`. Returns the number of responses with 200; all others must be 429.
    pub(crate) async fn admitted_of(mut self, requests: usize) -> usize {
        let mut admitted = 0;
        for _ in 0..requests {
            match self.get("/", &[]).await.status().as_u16() {
                200 => admitted += 1,
                other => assert_eq!(other, 429),
            }
        }
        admitted
    }
}

/// Admitted of so many requests over two connections to each server, all at once.
pub(crate) async fn admitted_by(servers: [SocketAddr; 2], requests_each: usize) -> usize {
    let mut tasks = Vec::new();
    for server in [servers, servers].concat() {
        let connection = Connection::to(server).await;
        tasks.push(tokio::spawn(connection.admitted_of(requests_each)));
    }
    let mut admitted = 0;
    for task in tasks {
        admitted += task.await.unwrap();
    }
    admitted
}

/// Polls a future once, as if nothing would ever wake it.
pub(crate) fn poll_once<F: Future>(future: &mut Pin<Box<F>>) -> Option<F::Output> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}
