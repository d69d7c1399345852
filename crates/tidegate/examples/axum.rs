//! An axum server whose callers have a limit each: `cargo run --example axum --all-features`.
//!
//! It serves on a port of its own choice, asks itself a few times, and prints the answers.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use axum::routing::get;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tidegate::tower::{ClientIp, Entries, RateLimitLayer, matched_path};
use tidegate::{Gate, Statistics, config};
use tokio::net::TcpListener;

const RULES: &str = r#"
[[rule]]
name = "per-ip"
key = ["ip"]
algorithm = "token_bucket"
rate = "6/1h"

[[rule]]
name = "reports"
when = { route = "/reports/{id}" }
key = ["ip"]
algorithm = "sliding_log"
rate = "2/1h"
"#;

/// The application: two routes, and one line that limits them.
fn app(gate: Gate, statistics: Arc<Statistics>) -> Result<Router, Box<dyn Error>> {
    // Only a proxy on this machine is believed when it says whom it speaks for.
    let entries = Entries::new()
        .entry("ip", ClientIp::x_forwarded_for(["127.0.0.0/8"])?)
        .entry("route", matched_path);
    let limits = RateLimitLayer::new(Arc::new(gate)).descriptor(entries).statistics(statistics);
    let app = Router::new()
        .route("/", get(async || "hello"))
        .route("/reports/{id}", get(async || "a report"))
        .layer(limits);
    Ok(app)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let gate = Gate::new(config::parse("rules.toml", RULES)?);
    let statistics = Arc::new(Statistics::new());
    let app = app(gate, statistics.clone())?;

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let server = listener.local_addr()?;
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });

    let client = Client::builder(TokioExecutor::new()).build_http();
    let visits = [
        ("192.0.2.1", "/reports/1", 200),
        ("192.0.2.1", "/reports/2", 200),
        ("192.0.2.1", "/reports/3", 429), // two reports an hour, whichever they are
        ("192.0.2.1", "/", 200),          // the refused report took nothing from the other rule
        ("192.0.2.2", "/reports/1", 200), // another caller
    ];
    for (caller, path, expected) in visits {
        let answer = visit(&client, server, caller, path).await?;
        println!("{caller} {path:<10} {}", answered(&answer));
        assert_eq!(answer.status(), expected);
    }
    let minute = statistics.minute();
    println!("passed {}, refused {}", minute.pass, minute.block);
    assert_eq!((minute.pass, minute.block), (4, 1));
    Ok(())
}

async fn visit(
    client: &Client<HttpConnector, Body>,
    server: SocketAddr,
    caller: &str,
    path: &str,
) -> Result<Response<hyper::body::Incoming>, Box<dyn Error>> {
    let request = Request::get(format!("http://{server}{path}")).header("x-forwarded-for", caller);
    Ok(client.request(request.body(Body::empty())?).await?)
}

fn answered<B>(answer: &Response<B>) -> String {
    let field = |name| answer.headers().get(name).and_then(|value| value.to_str().ok());
    let limits = field("ratelimit").unwrap_or("-");
    match field("retry-after") {
        Some(seconds) => format!("{} {limits} come back in {seconds} s", answer.status()),
        None => format!("{} {limits}", answer.status()),
    }
}
