//! The layer as a middleware of a reqwest client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use http::Extensions;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next};
use tidegate::tower::{Pacing, RateLimitLayer, Reason, Refusal};
use tidegate::{Gate, Policy, RuleSpec};
use tokio::net::TcpListener;

/// A server that asks for a pause of 100 seconds at `/busy`, and never answers `/silent`; the address, and the
/// number of requests that it saw.
async fn server() -> (String, Arc<AtomicUsize>) {
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    let app = Router::new()
        .route("/", get(async || "hello"))
        .route("/busy", get(async || (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "100")])))
        .route("/silent", get(std::future::pending::<()>))
        .layer(tower::util::MapRequestLayer::new(move |request: axum::extract::Request| {
            counted.fetch_add(1, Ordering::Relaxed);
            request
        }));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, app).await });
    (address, seen)
}

fn client(limit: &str) -> ClientWithMiddleware {
    let pace = RuleSpec::new("pace", limit).key(["host"]);
    let gate = Arc::new(Gate::new(Policy::new(vec![pace]).unwrap()));
    let pacing = Pacing::new().most_wait(Duration::from_secs(1));
    ClientBuilder::new(reqwest::Client::new()).with(RateLimitLayer::outgoing(gate, pacing)).build()
}

#[tokio::test]
async fn what_the_limit_admits_is_sent_and_the_rest_is_refused_here() {
    let (server, seen) = server().await;
    let client = client("2/h");
    for _ in 0..2 {
        let response = client.get(format!("{server}/#part")).send().await.unwrap();
        assert_eq!(response.url().as_str(), format!("{server}/#part"));
        assert!(response.remote_addr().is_some(), "reqwest's notes about the response are kept");
        assert_eq!(response.text().await.unwrap(), "hello");
    }
    let refused = client.get(&server).send().await.unwrap();
    assert_eq!(refused.status(), 429);
    let refusal = refused.extensions().get::<Refusal>().unwrap();
    assert_eq!(refusal.rules(), ["pace"]);
    assert_eq!(seen.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_host_that_asks_for_a_pause_is_left_alone() {
    let (server, seen) = server().await;
    let client = client("100/h");
    let busy = client.get(format!("{server}/busy")).send().await.unwrap();
    assert_eq!(busy.status(), 503);
    let held = client.get(&server).send().await.unwrap();
    assert_eq!(held.extensions().get::<Refusal>().unwrap().reason(), Reason::Held);
    assert_eq!(seen.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_request_keeps_its_timeout() {
    let (server, _) = server().await;
    let silent = client("100/h").get(format!("{server}/silent"));
    let error = silent.timeout(Duration::from_millis(50)).send().await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
}

/// Passes a word to the next middleware, and expects its answer from there.
struct Asks;
/// Answers the word.
struct Answers;

#[async_trait::async_trait]
impl Middleware for Asks {
    async fn handle(
        &self,
        request: reqwest::Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        extensions.insert("asked");
        let response = next.run(request, extensions).await;
        assert_eq!(extensions.get::<&str>(), Some(&"answered"));
        response
    }
}

#[async_trait::async_trait]
impl Middleware for Answers {
    async fn handle(
        &self,
        request: reqwest::Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        assert_eq!(extensions.insert("answered"), Some("asked"));
        next.run(request, extensions).await
    }
}

#[tokio::test]
async fn the_middleware_around_it_share_their_extensions() {
    let (server, _) = server().await;
    let gate = Arc::new(Gate::new(Policy::new(vec![]).unwrap()));
    let client = ClientBuilder::new(reqwest::Client::new())
        .with(Asks)
        .with(RateLimitLayer::outgoing(gate, Pacing::new()))
        .with(Answers)
        .build();
    assert_eq!(client.get(server).send().await.unwrap().status(), 200);
}
