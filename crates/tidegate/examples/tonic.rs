//! A tonic server whose callers have a limit each: `cargo run --example tonic --all-features`.
//!
//! It serves the standard health service on a port of its own choice, calls itself, and prints the answers.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tidegate::tower::RateLimitLayer;
use tidegate::{AlgorithmKind, Gate, Policy, RuleSpec, Spec};
use tokio::net::TcpListener;
use tonic::Code;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

/// Three calls an hour of each method, for each address.
fn limits() -> Result<RateLimitLayer, Box<dyn Error>> {
    let spec = Spec::new(AlgorithmKind::SlidingLog, 3, Duration::from_secs(3_600));
    let rule = RuleSpec::new("per-method", spec).key(["ip", "path"]);
    Ok(RateLimitLayer::new(Arc::new(Gate::new(Policy::new(vec![rule])?))))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}", listener.local_addr()?);
    let (_reporter, health) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(limits()?).add_service(health);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));

    let mut client = HealthClient::new(Endpoint::from_shared(address)?.connect().await?);
    let mut codes = Vec::new();
    for _ in 0..5 {
        codes.push(call(&mut client).await);
    }
    let expected = [Code::Ok, Code::Ok, Code::Ok, Code::ResourceExhausted, Code::ResourceExhausted];
    assert_eq!(codes, expected);
    Ok(())
}

async fn call(client: &mut HealthClient<Channel>) -> Code {
    match client.check(HealthCheckRequest::default()).await {
        Ok(answer) => {
            println!("ok, limits {:?}", answer.metadata().get("ratelimit"));
            Code::Ok
        }
        Err(status) => {
            let retry = status.get_details_retry_info().and_then(|info| info.retry_delay);
            println!("{}: {}, RetryInfo {retry:?}", status.code(), status.message());
            status.code()
        }
    }
}
