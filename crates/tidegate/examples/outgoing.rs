//! A client that keeps to a server's limit: `cargo run --example outgoing --all-features`.
//!
//! The server (a small one, on a port of its own choice) asks once to be left alone for a second. The
//! client's own pace is 50 requests a second; requests above it wait.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::routing::get;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tidegate::tower::{Pacing, RateLimitLayer};
use tidegate::{Gate, config};
use tokio::net::TcpListener;
use tower::{Layer, ServiceExt};

const RULES: &str = r#"
[[rule]]
name = "pace"
key = ["host"]
algorithm = "leaky_queue"
rate = "50/1s"
capacity = 100
on_excess = { wait = "10s", max_waiters = 100 }
"#;

/// Answers the third request by 429; counts all.
fn fussy(served: Arc<AtomicUsize>) -> Router {
    Router::new().route(
        "/",
        get(async move || match served.fetch_add(1, Ordering::Relaxed) {
            2 => (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "1")]),
            _ => (StatusCode::OK, [("retry-after", "0")]),
        }),
    )
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let served = Arc::new(AtomicUsize::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let server = format!("http://{}/", listener.local_addr()?);
    let app = fussy(served.clone());
    tokio::spawn(async move { axum::serve(listener, app).await });

    let gate = Arc::new(Gate::new(config::parse("rules.toml", RULES)?));
    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    let client = RateLimitLayer::outgoing(gate, Pacing::new()).layer(client);

    let mut seen = Vec::new();
    for number in 1..=6 {
        let request = Request::get(&server).body(Body::empty())?;
        let status = client.clone().oneshot(request).await?.status();
        println!("request {number}: {status}");
        seen.push(status.as_u16());
    }
    assert_eq!(seen, [200, 200, 429, 200, 200, 200]);
    assert_eq!(served.load(Ordering::Relaxed), 6);
    println!("after the 429, nothing was sent for a second, and the rest went through");
    Ok(())
}
