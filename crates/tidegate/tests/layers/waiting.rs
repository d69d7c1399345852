//! The layer where requests wait: for units, for their slot, for a place in flight.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{gate, gate_at, hello, poll_once, rule, to};
use axum::body::Body;
use http::{Request, Response};
use std::time::Duration;
use tidegate::tower::{InFlight, RateLimitLayer, Reason, Refusal, header};
use tidegate::{
    AlgorithmKind, Concurrency, Descriptor, Gate, KeyedConcurrency, ManualClock, OnExcess,
    RuleSpec, Spec,
};
use tower::{Layer, ServiceExt, service_fn};

/// One rule for all: two in a second, waiting up to a second and a half.
fn waiting_gate(clock: &ManualClock) -> Arc<Gate<ManualClock>> {
    let wait = OnExcess::Wait { wait: Duration::from_millis(1_500), max_waiters: 10 };
    let spec = Spec::new(AlgorithmKind::SlidingLog, 2, Duration::from_secs(1));
    gate_at(clock, vec![RuleSpec::new("all", spec).on_excess(wait)])
}

fn waiting<C>(gate: &Gate<C>) -> usize
where
    C: tidegate::Clock,
{
    gate.waiting(&tidegate::Request::from(Descriptor::new(&[])))
}

#[test]
fn the_excess_waits_its_turn_and_what_can_not_is_refused_at_once() {
    let clock = ManualClock::new();
    let gate = waiting_gate(&clock);
    let service = RateLimitLayer::waiting(gate.clone()).layer(service_fn(hello));
    let ask = || Box::pin(service.clone().oneshot(to("/")));
    let status = |answer: Response<_>| answer.status().as_u16();
    let mut asked: Vec<_> = (0..5).map(|_| ask()).collect();
    let first: Vec<_> = asked.iter_mut().map(poll_once).collect();
    let first: Vec<_> =
        first.into_iter().map(|done| done.map(|answer| status(answer.unwrap()))).collect();
    assert_eq!(first, [Some(200), Some(200), None, None, Some(429)]);
    clock.advance(Duration::from_millis(999));
    assert!(poll_once(&mut asked[2]).is_none());
    clock.advance(Duration::from_millis(1));
    assert_eq!(status(poll_once(&mut asked[2]).unwrap().unwrap()), 200);
    assert_eq!(status(poll_once(&mut asked[3]).unwrap().unwrap()), 200);
}

#[test]
fn a_client_that_goes_away_keeps_no_place_and_takes_no_unit() {
    let clock = ManualClock::new();
    let gate = waiting_gate(&clock);
    let service = RateLimitLayer::waiting(gate.clone()).layer(service_fn(hello));
    let mut asked: Vec<_> = (0..4).map(|_| Box::pin(service.clone().oneshot(to("/")))).collect();
    let done = asked.iter_mut().filter_map(poll_once).count();
    assert_eq!((done, waiting(&gate)), (2, 2));
    drop(asked.split_off(2));
    assert_eq!(waiting(&gate), 0);
    clock.advance(Duration::from_secs(1));
    let mut later: Vec<_> = (0..2).map(|_| Box::pin(service.clone().oneshot(to("/")))).collect();
    assert_eq!(later.iter_mut().filter_map(poll_once).count(), 2);
}

#[tokio::test]
async fn a_place_in_flight_is_kept_until_the_body_is_done_with() {
    let limit = Concurrency::new(1);
    let gate = gate(vec![rule("all", 2, &[])]);
    let layer = RateLimitLayer::new(gate.clone()).in_flight(InFlight::of(limit.clone()));
    let service = layer.layer(service_fn(hello));
    let first = service.clone().oneshot(to("/")).await.unwrap();
    assert_eq!(limit.in_flight(), 1);

    let refused = service.clone().oneshot(to("/")).await.unwrap();
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["retry-after"]),
        (429, &"1".parse().unwrap())
    );
    assert_eq!(refused.extensions().get::<Refusal>().unwrap().reason(), Reason::InFlight);

    drop(first);
    assert_eq!(limit.in_flight(), 0);
    let second = service.clone().oneshot(to("/")).await.unwrap();
    assert_eq!(second.headers()["x-ratelimit-remaining"], "0", "the refused request took nothing");
    drop(second);
    assert_eq!(
        service.oneshot(to("/")).await.unwrap().extensions().get::<Refusal>().unwrap().reason(),
        Reason::Limit
    );
    assert_eq!(limit.in_flight(), 0, "a request that the gate refuses gives its place back");
}

#[test]
fn a_place_in_flight_can_be_waited_for() {
    let clock = ManualClock::new();
    let limit = Concurrency::with_clock(1, clock.clone());
    let layer = RateLimitLayer::new(gate(vec![]));
    let layer = layer.in_flight(InFlight::waiting(limit, Duration::from_secs(1)));
    let service = layer.layer(service_fn(hello));
    let mut asked: Vec<_> = (0..3).map(|_| Box::pin(service.clone().oneshot(to("/")))).collect();
    let first = poll_once(&mut asked[0]).unwrap();
    assert!(poll_once(&mut asked[1]).is_none());
    drop(first);
    let second = poll_once(&mut asked[1]).unwrap().unwrap();
    assert_eq!(second.status(), 200);
    assert!(poll_once(&mut asked[2]).is_none());
    clock.advance(Duration::from_micros(1_000_001));
    assert_eq!(poll_once(&mut asked[2]).unwrap().unwrap().status(), 429);
}

#[tokio::test]
async fn callers_have_places_of_their_own() {
    let each = InFlight::by(header("x-user").unwrap(), KeyedConcurrency::new(1));
    let service = RateLimitLayer::new(gate(vec![])).in_flight(each).layer(service_fn(hello));
    let mut answers = Vec::new();
    for user in ["ann", "ann", "bob"] {
        let request = Request::get("/").header("x-user", user).body(Body::empty()).unwrap();
        answers.push(service.clone().oneshot(request).await.unwrap());
    }
    let seen: Vec<_> = answers.iter().map(|answer| answer.status().as_u16()).collect();
    assert_eq!(seen, [200, 429, 200]);
}

#[test]
fn a_place_is_given_back_when_the_client_goes_away_or_the_service_panics() {
    let limit = Concurrency::new(1);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let service = service_fn(move |_: Request<Body>| {
        let number = counted.fetch_add(1, Ordering::Relaxed);
        async move {
            assert!(number > 0, "the first request fails");
            std::future::pending::<Result<Response<Body>, Infallible>>().await
        }
    });
    let layer = RateLimitLayer::new(gate(vec![])).in_flight(InFlight::of(limit.clone()));
    let service = layer.layer(service);
    let mut first = Box::pin(service.clone().oneshot(to("/")));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| poll_once(&mut first)));
    panicked.unwrap_err();
    drop(first);
    assert_eq!(limit.in_flight(), 0);
    let mut second = Box::pin(service.oneshot(to("/")));
    assert!(poll_once(&mut second).is_none());
    assert_eq!(limit.in_flight(), 1);
    drop(second);
    assert_eq!((limit.in_flight(), calls.load(Ordering::Relaxed)), (0, 2));
}
