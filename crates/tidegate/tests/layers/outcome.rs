//! The layer that charges by outcome: only what fails to log in counts.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::Poll;
use std::time::Duration;

use crate::common::{gate, left, poll_once, rule, to};
use axum::body::Body;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use tidegate::tower::{Entries, RateLimitLayer};
use tidegate::{
    AlgorithmKind, Descriptor, Gate, KeyedLimiter, ManualClock, Mode, Policy, RuleSpec, Spec,
};
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

fn failed_logins(gate: Arc<Gate<ManualClock>>) -> RateLimitLayer {
    RateLimitLayer::new(gate).charge_when(|response| response.status == StatusCode::UNAUTHORIZED)
}

#[tokio::test]
async fn only_what_is_answered_401_counts() {
    let gate = gate(vec![rule("logins", 2, &[])]);
    let service = failed_logins(gate.clone()).layer(service_fn(login));
    let mut seen = Vec::new();
    for path in ["/200", "/200", "/200", "/401", "/500", "/200", "/401", "/200"] {
        let answer = service.clone().oneshot(to(path)).await.unwrap();
        let reported = answer.headers()["x-ratelimit-remaining"].to_str().unwrap().to_owned();
        seen.push((answer.status().as_u16(), reported));
    }
    let reported =
        [(200, "2"), (200, "2"), (200, "2"), (401, "1"), (500, "1"), (200, "1"), (401, "0")];
    let reported = reported.iter().chain(&[(429, "0")]);
    assert_eq!(
        seen,
        reported.map(|(status, left)| (*status, (*left).to_owned())).collect::<Vec<_>>()
    );
    assert_eq!(left(&gate), [0]);
}

#[tokio::test]
async fn what_has_no_response_counts() {
    let gate = gate(vec![rule("logins", 2, &[])]);
    let service = failed_logins(gate.clone()).layer(service_fn(login));
    assert!(service.clone().oneshot(to("/error")).await.is_err());
    assert_eq!(left(&gate), [1]);
    let mut gone = Box::pin(service.oneshot(to("/never")));
    assert!(poll_once(&mut gone).is_none());
    drop(gone);
    assert_eq!(left(&gate), [0]);
}

#[tokio::test]
async fn what_is_under_way_is_charged_until_it_is_answered() {
    let gate = gate(vec![rule("logins", 1, &[])]);
    let service = failed_logins(gate.clone()).layer(service_fn(login));
    let mut first = Box::pin(service.clone().oneshot(to("/never")));
    assert!(poll_once(&mut first).is_none());
    assert_eq!(service.oneshot(to("/200")).await.unwrap().status(), 429);
    assert_eq!(left(&gate), [0], "a refusal gives nothing back");
}

#[tokio::test]
async fn a_cost_comes_back_once_and_only_where_it_was_taken() {
    let trial = rule("trial", 1, &[]).mode(Mode::Shadow);
    let gate = gate(vec![trial, rule("logins", 9, &[])]);
    assert!(gate.admits(&tidegate::Request::new("default", &[Descriptor::new(&[])])));
    let service = failed_logins(gate.clone()).layer(service_fn(login));
    for _ in 0..3 {
        let answer = service.clone().oneshot(to("/200")).await.unwrap();
        drop(answer);
        assert_eq!(left(&gate), [0, 8]);
    }
}

#[tokio::test]
async fn a_layer_that_is_not_reported_charges_everything() {
    let gate = gate(vec![rule("all", 5, &[])]);
    let service = RateLimitLayer::new(gate.clone()).layer(service_fn(login));
    for path in ["/200", "/401"] {
        service.clone().oneshot(to(path)).await.unwrap();
    }
    assert_eq!(left(&gate), [3]);
}

/// Successes that were held open while windows passed paid for failed logins of today: 22 of 2 a second.
#[tokio::test]
async fn successes_of_windows_that_have_passed_pay_for_no_failed_login() {
    for algorithm in AlgorithmKind::ALL.iter().copied().filter(|one| !one.holds_permits()) {
        let clock = ManualClock::new();
        let mut spec = Spec::new(algorithm, 2, Duration::from_secs(1));
        spec.capacity = algorithm.is_queue().then_some(1);
        let who = || Entries::new().entry("user", |_: &Parts| Some("ann".to_owned()));
        let rules = vec![RuleSpec::new("logins", spec)];
        let gate = Arc::new(Gate::with_clock(Policy::new(rules).unwrap(), clock.clone()));
        let keyed = Arc::new(KeyedLimiter::with_clock(spec, clock.clone()).unwrap());
        for layer in [RateLimitLayer::new(gate), RateLimitLayer::keyed(keyed, who())] {
            assert_eq!(failed(&layer, &clock).await, 2, "{algorithm}");
        }
    }
}

/// Begins 20 logins two seconds apart, which succeed only after the second failed login. Returns the number of failed
/// logins that the limit lets pass.
async fn failed(layer: &RateLimitLayer, clock: &ManualClock) -> usize {
    let is_over = Arc::new(AtomicBool::new(false));
    let over = is_over.clone();
    let service = service_fn(move |request: Request<Body>| {
        let over = over.clone();
        async move {
            if request.uri().path() == "/held" {
                poll_fn(|_| if over.load(SeqCst) { Poll::Ready(()) } else { Poll::Pending }).await;
                return login(to("/200")).await;
            }
            login(request).await
        }
    });
    let layer = layer.clone().charge_when(|response| response.status == StatusCode::UNAUTHORIZED);
    let service = layer.layer(service);
    let mut held = Vec::new();
    for _ in 0..20 {
        let mut one = Box::pin(service.clone().oneshot(to("/held")));
        assert!(poll_once(&mut one).is_none());
        held.push(one);
        clock.advance(Duration::from_secs(2));
    }
    let mut failed = 0;
    for number in 0..22 {
        // A queue holds the second for its delay, and then it is answered.
        let mut one = Box::pin(service.clone().oneshot(to("/401")));
        let answer = poll_once(&mut one);
        failed += usize::from(answer.is_none_or(|answer| answer.unwrap().status() != 429));
        if number == 1 {
            is_over.store(true, SeqCst);
            for one in &mut held {
                assert_eq!(poll_once(one).unwrap().unwrap().status(), 200);
            }
        }
    }
    failed
}
