//! The layer by the caller's address: whom it limits together, and what it answers without an address.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::common::hello;
use axum::body::Body;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use std::time::Duration;
use tidegate::headers::{FieldSet, HeaderField};
use tidegate::tower::{ClientIp, PeerAddr, RateLimitLayer, Reason, Refusal};
use tidegate::{AlgorithmKind, Gate, KeyedLimiter, ManualClock, Policy, RuleSpec, Spec};
use tower::{Layer, Service, ServiceExt, service_fn};

fn limiter(limit: u64) -> Arc<KeyedLimiter<ManualClock>> {
    let spec = Spec::new(AlgorithmKind::SlidingLog, limit, Duration::from_secs(60));
    Arc::new(KeyedLimiter::with_clock(spec, ManualClock::new()).unwrap())
}

fn from(peer: Option<&str>) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    let peer = peer.map(|ip| PeerAddr(SocketAddr::new(ip.parse().unwrap(), 4_000)));
    peer.into_iter().for_each(|peer| _ = request.extensions_mut().insert(peer));
    request
}

async fn ask<S, B>(service: &S, request: Request<Body>) -> Response<B>
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Clone,
{
    service.clone().oneshot(request).await.unwrap()
}

#[tokio::test]
async fn callers_of_one_address_or_network_share_a_limit_and_learn_its_values() {
    let service = RateLimitLayer::per_ip(limiter(1)).unwrap().layer(service_fn(hello));
    let peers = [("192.0.2.1", 200), ("::ffff:192.0.2.1", 429), ("2001:db8::1", 200)];
    for (peer, status) in peers.into_iter().chain([("2001:db8::2:3:4:5", 429)]) {
        assert_eq!(ask(&service, from(Some(peer))).await.status(), status, "{peer}");
    }
    let answer = ask(&service, from(Some("192.0.2.3"))).await;
    assert_eq!(answer.headers()["x-ratelimit-remaining"], "0");
    assert_eq!(answer.headers()["ratelimit-policy"], "\"per-ip\";q=1;w=60");
    assert_eq!(answer.headers()["ratelimit"], "\"per-ip\";r=0;t=60");
    let refused = ask(&service, from(Some("192.0.2.3"))).await;
    assert_eq!(refused.headers()["retry-after"], "60");
    assert_eq!(refused.extensions().get::<Refusal>().unwrap().rules(), ["per-ip"]);
}

#[tokio::test]
async fn proxies_report_who_calls() {
    let address = ClientIp::x_forwarded_for(["10.0.0.0/8"]).unwrap();
    let service =
        RateLimitLayer::per_address(address, limiter(1)).unwrap().layer(service_fn(hello));
    for (caller, status) in [("192.0.2.1", 200), ("192.0.2.2", 200), ("192.0.2.1", 429)] {
        let mut request = from(Some("10.1.2.3"));
        request.headers_mut().insert("x-forwarded-for", caller.parse().unwrap());
        assert_eq!(ask(&service, request).await.status(), status, "{caller}");
    }
}

#[tokio::test]
async fn a_request_without_an_address_is_an_error_of_the_program() {
    let limiter = limiter(1);
    let layer = RateLimitLayer::per_ip(limiter.clone()).unwrap();
    let service = layer.layer(service_fn(hello));
    let answer = ask(&service, from(None)).await;
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(answer.extensions().get::<Refusal>().unwrap().reason(), Reason::NoAddress);
    assert!(!answer.headers().contains_key("retry-after"));
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(problem["type"], "urn:problem-type:tidegate:internal-error");
    assert_eq!(limiter.keys(), 0, "no other caller pays for it");
    let mut call = from(None);
    call.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
    assert_eq!(ask(&service, call).await.headers()["grpc-status"], "13");
}

#[tokio::test]
async fn a_free_response_gives_the_unit_back_to_its_caller() {
    let layer = RateLimitLayer::per_ip(limiter(1)).unwrap();
    let layer = layer.charge_when(|response| response.status == StatusCode::UNAUTHORIZED);
    let service = layer.layer(service_fn(hello));
    for _ in 0..3 {
        let answer = ask(&service, from(Some("192.0.2.1"))).await;
        assert_eq!(answer.headers()["x-ratelimit-remaining"], "1");
    }
}

/// The names of the fields about limits, sorted.
fn shown<B>(answer: &Response<B>) -> Vec<&str> {
    let names = answer.headers().keys().map(|name| name.as_str());
    let mut names: Vec<_> = names.filter(|name| name.contains("ratelimit")).collect();
    names.sort_unstable();
    names
}

/// The fields are made from the numbers alone, from an answer where a response may be free, or from the answer of a gate.
#[tokio::test]
async fn a_response_has_the_fields_that_are_chosen_however_they_are_made() {
    use HeaderField::{Limit, Limits, Policies, Remaining, Reset, RetryAfter};
    let all = [
        "ratelimit",
        "ratelimit-policy",
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
    ];
    let sets: [(FieldSet, &[&str]); 7] = [
        (false.into(), &[]),
        ([RetryAfter].into(), &[]),
        ([Limit, Remaining].into(), &all[2..4]),
        ([Remaining, Reset].into(), &all[3..]),
        ([Limit, Policies].into(), &all[1..3]),
        ([Limits].into(), &all[..1]),
        (true.into(), &all),
    ];
    for (set, names) in sets {
        let layer = || RateLimitLayer::per_ip(limiter(3)).unwrap().headers(set);
        let plain = layer().layer(service_fn(hello));
        let perhaps_free = layer().charge_when(|_| true).layer(service_fn(hello));
        let spec = Spec::new(AlgorithmKind::SlidingLog, 3, Duration::from_secs(60));
        let policy = Policy::new(vec![RuleSpec::new("per-ip", spec).key(["ip"])]).unwrap();
        let gate = Arc::new(Gate::with_clock(policy, ManualClock::new()));
        let by_gate = RateLimitLayer::new(gate).headers(set).layer(service_fn(hello));
        for status in [200, 200, 200, 429, 429] {
            let one = ask(&plain, from(Some("192.0.2.1"))).await;
            let other = ask(&perhaps_free, from(Some("192.0.2.1"))).await;
            let third = ask(&by_gate, from(Some("192.0.2.1"))).await;
            let statuses = [&one, &other, &third].map(|answer| answer.status().as_u16());
            assert_eq!(statuses, [status; 3]);
            assert_eq!(one.headers(), other.headers(), "{set:?}");
            assert_eq!(one.headers(), third.headers(), "{set:?}");
            assert_eq!(shown(&one), names, "{set:?}");
            let wait = one.headers().get("retry-after").map(|wait| wait.to_str().unwrap());
            assert_eq!(wait, (status == 429).then_some("60"), "a refusal says when to come back");
        }
    }
}

#[tokio::test]
async fn values_that_were_written_before_follow_a_rule_that_changes() {
    let limiter = limiter(3);
    let service = RateLimitLayer::per_ip(limiter.clone()).unwrap().layer(service_fn(hello));
    let values = async || {
        let answer = ask(&service, from(Some("192.0.2.1"))).await;
        let value = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        ["x-ratelimit-limit", "x-ratelimit-remaining", "ratelimit-policy"].map(value)
    };
    assert_eq!(values().await, ["3", "2", "\"per-ip\";q=3;w=60"]);
    assert_eq!(values().await, ["3", "1", "\"per-ip\";q=3;w=60"]);
    limiter.amend(Spec::per_minute(30).algorithm(AlgorithmKind::SlidingLog)).unwrap();
    assert_eq!(values().await, ["30", "27", "\"per-ip\";q=30;w=60"]);
}
