//! The permits of a rule of `concurrency` in a gate or a limiter of the layer: they are returned when the body of the
//! response has ended, or the request is dropped at any stage before.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{gate, hello, left, poll_once, rule, to};
use axum::body::Body;
use http::{Request, Response};
use http_body_util::BodyExt;
use tidegate::tower::{Entries, RateLimitLayer};
use tidegate::{AlgorithmKind, KeyedLimiter, ManualClock, RuleSpec, Spec};
use tower::{Layer, ServiceExt, service_fn};

const LIFE: Duration = Duration::from_secs(60);

fn jobs(limit: u64) -> Spec {
    Spec::new(AlgorithmKind::Concurrency, limit, LIFE)
}

#[tokio::test]
async fn a_permit_is_out_until_the_body_has_ended_or_is_dropped() {
    let gate = gate(vec![RuleSpec::new("jobs", jobs(2)), rule("all", 100, &[])]);
    let service = RateLimitLayer::new(Arc::clone(&gate)).layer(service_fn(hello));
    let first = service.clone().oneshot(to("/")).await.unwrap();
    let second = service.clone().oneshot(to("/")).await.unwrap();
    assert_eq!(left(&gate), [0, 98]);
    let refused = service.clone().oneshot(to("/")).await.unwrap();
    assert_eq!(refused.status(), 429);
    assert_eq!(left(&gate), [0, 98]);
    assert_eq!(first.into_body().collect().await.unwrap().to_bytes(), "hello");
    assert_eq!(left(&gate), [1, 98], "the other rule keeps what it counted");
    drop(second);
    assert_eq!(left(&gate), [2, 98]);
}

#[tokio::test]
async fn a_permit_comes_back_when_the_request_is_dropped_or_the_service_fails() {
    let gate = gate(vec![RuleSpec::new("jobs", jobs(1))]);
    let hangs =
        service_fn(async |_: Request<Body>| pending::<Result<Response<Body>, &str>>().await);
    let service = RateLimitLayer::waiting(Arc::clone(&gate)).layer(hangs);
    let mut future = Box::pin(service.oneshot(to("/")));
    assert!(poll_once(&mut future).is_none());
    assert_eq!(left(&gate), [0]);
    drop(future);
    assert_eq!(left(&gate), [1]);

    let fails = service_fn(async |_: Request<Body>| Err::<Response<Body>, _>("it broke"));
    let service = RateLimitLayer::new(Arc::clone(&gate)).layer(fails);
    assert!(service.oneshot(to("/")).await.is_err());
    assert_eq!(left(&gate), [1]);
}

#[tokio::test]
async fn a_free_response_gives_back_what_it_counted_and_keeps_its_permit_to_the_end() {
    let gate = gate(vec![RuleSpec::new("jobs", jobs(2)), rule("all", 100, &[])]);
    let layer = RateLimitLayer::new(Arc::clone(&gate)).charge_when(|_| false);
    let response = layer.layer(service_fn(hello)).oneshot(to("/")).await.unwrap();
    assert_eq!(left(&gate), [1, 100]);
    drop(response);
    assert_eq!(left(&gate), [2, 100]);
}

#[tokio::test]
async fn a_limiter_for_each_caller_gets_its_permits_back() {
    let limiter = Arc::new(KeyedLimiter::with_clock(jobs(1), ManualClock::new()).unwrap());
    let who = Entries::new().entry("user", |_: &http::request::Parts| Some("ann".to_owned()));
    let service = RateLimitLayer::keyed(Arc::clone(&limiter), who).layer(service_fn(hello));
    let response = service.clone().oneshot(to("/")).await.unwrap();
    assert_eq!(service.clone().oneshot(to("/")).await.unwrap().status(), 429);
    drop(response);
    assert_eq!(service.oneshot(to("/")).await.unwrap().status(), 200);
}
