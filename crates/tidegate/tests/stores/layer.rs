//! The layer over a store: one limit for the services of all nodes, outages, charging by outcome.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use tidegate::tower::{Pacing, RateLimitLayer, Reason, Refusal};
use tidegate::{AlgorithmKind, Descriptor, OnExcess, OnStoreError, RuleSpec, SharedGate, Spec};
use tower::{Layer, ServiceExt, service_fn};

use crate::server::{Server, gate_over, lose, served};

const DAY: Duration = Duration::from_secs(86_400);

fn rule(limit: u64) -> RuleSpec {
    RuleSpec::new("all", Spec::new(AlgorithmKind::SlidingLog, limit, DAY))
}

async fn gate(server: &Server, rule: RuleSpec) -> Arc<SharedGate> {
    Arc::new(gate_over(&server.url(), vec![rule]).await.0)
}

/// Returns the status that the path names; `/error` fails.
async fn service(request: Request<Body>) -> Result<Response<Body>, &'static str> {
    match &request.uri().path()[1..] {
        "error" => Err("broken"),
        "alone" => {
            let response = Response::builder().status(429).header("retry-after", "3600");
            Ok(response.body(Body::empty()).unwrap())
        }
        "" => Ok(Response::new(Body::empty())),
        status => {
            let status = status.parse::<StatusCode>().unwrap();
            Ok(Response::builder().status(status).body(Body::empty()).unwrap())
        }
    }
}

async fn get(layer: &RateLimitLayer, path: &str) -> Response<Vec<u8>> {
    let request = Request::get(path).header("host", "service").body(Body::empty()).unwrap();
    let response = layer.layer(service_fn(service)).oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes().to_vec();
    Response::from_parts(head, body)
}

fn field(response: &Response<Vec<u8>>, name: &str) -> String {
    response.headers()[name].to_str().unwrap().to_owned()
}

async fn left(gate: &SharedGate) -> u64 {
    gate.peek(&tidegate::Request::new("default", &[Descriptor::new(&[])]))
        .await
        .remaining()
        .unwrap()
}

#[tokio::test]
async fn two_layers_over_one_store_share_one_limit() {
    let server = Server::start(&[]);
    let layers =
        [gate(&server, rule(3)).await, gate(&server, rule(3)).await].map(RateLimitLayer::new);
    let mut answers = Vec::new();
    for turn in 0..5 {
        let response = get(&layers[turn % 2], "/").await;
        answers.push((response.status().as_u16(), field(&response, "x-ratelimit-remaining")));
    }
    let expected = [(200, "2"), (200, "1"), (200, "0"), (429, "0"), (429, "0")];
    assert_eq!(answers, expected.map(|(status, left)| (status, left.to_owned())));
}

#[tokio::test]
async fn only_what_counts_is_charged_and_the_response_tells_what_is_left() {
    let server = Server::start(&[]);
    let gate = gate(&server, rule(2)).await;
    let layer = RateLimitLayer::new(Arc::clone(&gate))
        .charge_when(|response| response.status == StatusCode::UNAUTHORIZED);
    let mut seen = Vec::new();
    for path in ["/200", "/200", "/200", "/401", "/500", "/401", "/200"] {
        let response = get(&layer, path).await;
        seen.push((response.status().as_u16(), field(&response, "x-ratelimit-remaining")));
    }
    let answer =
        [(200, "2"), (200, "2"), (200, "2"), (401, "1"), (500, "1"), (401, "0"), (429, "0")];
    assert_eq!(seen, answer.map(|(status, left)| (status, left.to_owned())));
    gate.reset(&tidegate::Request::new("default", &[Descriptor::new(&[])])).await.unwrap();
    let request = Request::get("/error").body(Body::empty()).unwrap();
    assert!(layer.layer(service_fn(service)).oneshot(request).await.is_err());
    assert_eq!(left(&gate).await, 1, "a request without a response counts");
}

#[tokio::test]
async fn a_closed_rule_without_its_store_is_answered_by_503_and_retry_after() {
    for on_store_error in [OnStoreError::Closed, OnStoreError::Open] {
        let rule = rule(5).on_store_error(on_store_error);
        let (mut server, gate, events) = served(vec![rule]).await;
        let gate = Arc::new(gate);
        let layers = [
            RateLimitLayer::new(Arc::clone(&gate)),
            RateLimitLayer::waiting(Arc::clone(&gate)),
            RateLimitLayer::outgoing(Arc::clone(&gate), Pacing::new()),
        ];
        lose(&mut server, &gate, &events).await;
        for layer in &layers {
            let response = get(layer, "/").await;
            if on_store_error == OnStoreError::Open {
                assert_eq!(response.status(), StatusCode::OK);
                continue;
            }
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(field(&response, "retry-after"), "1");
            let refusal = response.extensions().get::<Refusal>().unwrap();
            assert_eq!(
                (refusal.reason(), refusal.rules()),
                (Reason::Unavailable, &["all".to_owned()][..])
            );
            let problem: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
            assert_eq!(problem["type"], "urn:problem-type:tidegate:unavailable");
        }
        let call = Request::post("/").header("content-type", "application/grpc");
        let call = call.body(Body::empty()).unwrap();
        let response = layers[0].layer(service_fn(service)).oneshot(call).await.unwrap();
        let code = response.headers().get("grpc-status").map(|code| code.to_str().unwrap());
        let is_closed = on_store_error == OnStoreError::Closed;
        assert_eq!((response.status(), code), (StatusCode::OK, is_closed.then_some("14")));
    }
}

/// A cost that was admitted without the store goes back to this node's share, and not to the store.
#[tokio::test]
async fn charging_by_outcome_goes_on_without_the_store() {
    let (mut server, gate, events) = served(vec![rule(2)]).await;
    let gate = Arc::new(gate);
    let layer =
        RateLimitLayer::new(Arc::clone(&gate)).charge_when(|response| response.status != 200);
    lose(&mut server, &gate, &events).await;
    gate.reset(&tidegate::Request::new("default", &[Descriptor::new(&[])])).await.unwrap_err();
    for _ in 0..5 {
        assert_eq!(get(&layer, "/200").await.status(), StatusCode::OK);
    }
    assert_eq!(left(&gate).await, 2);
    assert_eq!(get(&layer, "/401").await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(left(&gate).await, 1);
}

#[tokio::test]
async fn what_a_queue_admits_is_held_until_its_slot() {
    let server = Server::start(&[]);
    let mut spec = Spec::new(AlgorithmKind::LeakyQueue, 20, Duration::from_secs(1));
    spec.capacity = Some(2);
    let wait = OnExcess::Wait { wait: Duration::from_secs(30), max_waiters: 9 };
    let gate = gate(&server, RuleSpec::new("even", spec).on_excess(wait)).await;
    for layer in [RateLimitLayer::new(Arc::clone(&gate)), RateLimitLayer::waiting(gate)] {
        let begun = tokio::time::Instant::now();
        let three = tokio::join!(get(&layer, "/"), get(&layer, "/"), get(&layer, "/"));
        assert!([three.0, three.1, three.2].iter().all(|response| response.status() == 200));
        assert!(begun.elapsed() >= Duration::from_millis(100), "in the slots of the queue");
    }
}

/// The host asks for a pause before the request may be sent: its units are given back.
#[tokio::test]
async fn what_is_held_back_after_all_is_given_back() {
    let server = Server::start(&[]);
    let mut spec = Spec::new(AlgorithmKind::LeakyQueue, 4, Duration::from_secs(2));
    spec.capacity = Some(3);
    let gate = gate(&server, RuleSpec::new("even", spec)).await;
    let most = left(&gate).await;
    let layer = RateLimitLayer::outgoing(Arc::clone(&gate), Pacing::new());
    let (sent, held) = tokio::join!(get(&layer, "/alone"), get(&layer, "/"));
    assert!(sent.extensions().get::<Refusal>().is_none());
    assert_eq!(held.extensions().get::<Refusal>().unwrap().reason(), Reason::Held);
    // The slot of the first request is over by now, even if the second was asked before the first reply, or not at all.
    // The second's slot would take as long again.
    tokio::time::sleep(Duration::from_millis(520)).await;
    assert_eq!(left(&gate).await, most);
}
