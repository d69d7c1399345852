//! The layer in a real hyper server, over loopback.

use std::convert::Infallible;
use std::net::SocketAddr;

use crate::common::{Connection, admitted_by, gate, rule};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tidegate::tower::{PeerAddr, RateLimitLayer};
use tokio::net::TcpListener;
use tower::{Layer, ServiceBuilder, service_fn};

type Hello = Response<Full<Bytes>>;

async fn hello(_: Request<Incoming>) -> Result<Hello, Infallible> {
    Ok(Response::new(Full::from("hello")))
}

/// Serves each connection by a clone of the service, with the peer's address in its requests.
async fn serve(layer: RateLimitLayer) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let limited = layer.layer(service_fn(hello));
    tokio::spawn(async move {
        loop {
            let (stream, peer) = listener.accept().await.unwrap();
            let service =
                ServiceBuilder::new().map_request(move |mut request: Request<Incoming>| {
                    request.extensions_mut().insert(PeerAddr(peer));
                    request
                });
            let service = TowerToHyperService::new(service.service(limited.clone()));
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_clones_and_two_connections_each_share_one_limit_exactly() {
    let layer = RateLimitLayer::new(gate(vec![rule("per-ip", 11, &["ip"])]));
    let servers = [serve(layer.clone()).await, serve(layer).await];
    assert_eq!(admitted_by(servers, 10).await, 11);
}

#[tokio::test]
async fn the_body_of_the_service_comes_through_unchanged() {
    let layer = RateLimitLayer::new(gate(vec![rule("per-ip", 1, &["ip"])]));
    let mut connection = Connection::to(serve(layer).await).await;
    let answer = connection.get("/", &[]).await;
    assert_eq!(
        (answer.body().as_str(), &answer.headers()["content-length"]),
        ("hello", &"5".parse().unwrap())
    );
    let refused = connection.get("/", &[]).await;
    let length = refused.body().len().to_string();
    assert_eq!(refused.headers()["content-length"].to_str().unwrap(), length);
}
