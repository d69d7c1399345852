//! The layer that charges by outcome: only what fails to log in counts.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use crate::common::{gate, poll_once, rule};
use axum::body::Body;
use http::{Request, Response, StatusCode};
use tidegate::tower::RateLimitLayer;
use tidegate::{Descriptor, Gate, ManualClock, Mode};
use tower::{Layer, ServiceExt, service_fn};

/// Answers the status that the path names; `/error` fails, `/never` does not answer.
async fn login(request: Request<Body>) -> Result<Response<Body>, &'static str> {
    match request.uri().path() {
        "/error" => Err("broken"),
        "/never" => std::future::pending().await,
        path => {
            let status = path[1..].parse::<StatusCode>().unwrap();
            Ok(Response::builder().status(status).body(Body::empty()).unwrap())
        }
    }
}

fn get(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).unwrap()
}

fn failed_logins(gate: Arc<Gate<ManualClock>>) -> RateLimitLayer {
    RateLimitLayer::new(gate).charge_when(|response| response.status == StatusCode::UNAUTHORIZED)
}

fn left(gate: &Gate<ManualClock>) -> Vec<u64> {
    let answer = gate.peek(&tidegate::Request::new("default", &[Descriptor::new(&[])]));
    answer.matched().iter().map(|matched| matched.decision().remaining).collect()
}

#[tokio::test]
async fn only_what_is_answered_401_counts() {
    let gate = gate(vec![rule("logins", 2, &[])]);
    let service = failed_logins(gate.clone()).layer(service_fn(login));
    let mut seen = Vec::new();
    for path in ["/200", "/200", "/200", "/401", "/500", "/200", "/401", "/200"] {
        let answer = service.clone().oneshot(get(path)).await.unwrap();
        let told = answer.headers()["x-ratelimit-remaining"].to_str().unwrap().to_owned();
        seen.push((answer.status().as_u16(), told));
    }
    let told = [(200, "2"), (200, "2"), (200, "2"), (401, "1"), (500, "1"), (200, "1"), (401, "0")];
    let told = told.iter().chain(&[(429, "0")]);
    assert_eq!(seen, told.map(|(status, left)| (*status, (*left).to_owned())).collect::<Vec<_>>());
    assert_eq!(left(&gate), [0]);
}

#[tokio::test]
async fn what_has_no_response_counts() {
    let gate = gate(vec![rule("logins", 2, &[])]);
    let service = failed_logins(gate.clone()).layer(service_fn(login));
    assert!(service.clone().oneshot(get("/error")).await.is_err());
    assert_eq!(left(&gate), [1]);
    let mut gone = Box::pin(service.oneshot(get("/never")));
    assert!(poll_once(&mut gone).is_none());
    drop(gone);
    assert_eq!(left(&gate), [0]);
}

#[tokio::test]
async fn what_is_under_way_is_charged_until_it_is_answered() {
    let gate = gate(vec![rule("logins", 1, &[])]);
    let service = failed_logins(gate.clone()).layer(service_fn(login));
    let mut first = Box::pin(service.clone().oneshot(get("/never")));
    assert!(poll_once(&mut first).is_none());
    assert_eq!(service.oneshot(get("/200")).await.unwrap().status(), 429);
    assert_eq!(left(&gate), [0], "a refusal gives nothing back");
}

#[tokio::test]
async fn a_cost_comes_back_once_and_only_where_it_was_taken() {
    let trial = rule("trial", 1, &[]).mode(Mode::Shadow);
    let gate = gate(vec![trial, rule("logins", 9, &[])]);
    assert!(gate.admits(&tidegate::Request::new("default", &[Descriptor::new(&[])])));
    let service = failed_logins(gate.clone()).layer(service_fn(login));
    for _ in 0..3 {
        let answer = service.clone().oneshot(get("/200")).await.unwrap();
        drop(answer);
        assert_eq!(left(&gate), [0, 8]);
    }
}

#[tokio::test]
async fn a_layer_that_is_not_told_charges_everything() {
    let gate = gate(vec![rule("all", 5, &[])]);
    let service = RateLimitLayer::new(gate.clone()).layer(service_fn(login));
    for path in ["/200", "/401"] {
        service.clone().oneshot(get(path)).await.unwrap();
    }
    assert_eq!(left(&gate), [3]);
}
