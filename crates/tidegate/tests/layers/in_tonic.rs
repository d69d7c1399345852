//! The layer in a real tonic server, over loopback.

use std::net::SocketAddr;
use std::time::Duration;

use crate::common::{gate, rule};
use tidegate::tower::{ClientIp, Entries, RateLimitLayer};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Response, Status};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_types::StatusExt;

async fn serve(layer: RateLimitLayer) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_, health) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(layer).add_service(health);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    address
}

async fn connect(server: SocketAddr) -> HealthClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{server}")).unwrap();
    HealthClient::new(endpoint.connect().await.unwrap())
}

async fn call(client: &mut HealthClient<Channel>) -> Result<Response<HealthCheckResponse>, Status> {
    client.check(HealthCheckRequest { service: String::new() }).await
}

#[tokio::test]
async fn a_refusal_is_resource_exhausted_with_the_time_to_wait() {
    let layer = RateLimitLayer::new(gate(vec![rule("per-ip", 1, &["ip"])]));
    let mut client = connect(serve(layer).await).await;
    let admitted = call(&mut client).await.unwrap();
    assert_eq!(admitted.metadata().get("x-ratelimit-limit").unwrap(), "1");
    let status = call(&mut client).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(status.message(), "the same request may be admitted in 60 seconds");
    let retry = status.get_details_retry_info().unwrap();
    assert_eq!(retry.retry_delay, Some(Duration::from_secs(60)));
    assert_eq!(status.metadata().get("grpc-retry-pushback-ms").unwrap(), "60000");
    assert_eq!(status.metadata().get("ratelimit").unwrap(), "\"per-ip\";r=0;t=60");
}

#[tokio::test]
async fn a_call_that_can_never_be_admitted_tells_the_client_not_to_retry() {
    let dear = Entries::new().entry("ip", ClientIp::peer()).cost(|_| 2);
    let layer = RateLimitLayer::new(gate(vec![rule("per-ip", 1, &["ip"])])).descriptor(dear);
    let mut client = connect(serve(layer).await).await;
    let status = call(&mut client).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.get_details_retry_info().is_none());
    assert_eq!(status.metadata().get("grpc-retry-pushback-ms").unwrap(), "-1");
}

/// A body would break the protocol, so the hook is not asked.
#[tokio::test]
async fn a_hook_for_http_does_not_touch_grpc() {
    let layer = RateLimitLayer::new(gate(vec![rule("per-ip", 0, &["ip"])]));
    let layer = layer.on_refused(|_, _| http::Response::new(b"go away".to_vec()));
    let mut client = connect(serve(layer).await).await;
    let status = call(&mut client).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
}
