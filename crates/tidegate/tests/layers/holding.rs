//! Requests that a shaping rule admits are held for their delay, by every form of the layer.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use crate::common::{gate, gate_at, hello, poll_once, rule, to};
use axum::body::Body;
use http::request::Parts;
use http::{Request, Response};
use std::time::Duration;
use tidegate::tower::{Entries, InFlight, Pacing, RateLimitLayer};
use tidegate::{
    AlgorithmKind, Clock, Concurrency, KeyedLimiter, ManualClock, Mode, RuleSpec, Spec, Statistics,
    Timer, TokioClock,
};
use tower::{Layer, ServiceExt, service_fn};

const HALF: Duration = Duration::from_millis(500);

/// One each half second, and room for three that are held.
fn queue() -> Spec {
    let mut spec = Spec::new(AlgorithmKind::LeakyQueue, 2, Duration::from_secs(1));
    spec.capacity = Some(3);
    spec
}

/// Every form of the layer, each with a queue of its own.
fn forms<C: Timer + Clone + 'static>(clock: &C) -> Vec<(&'static str, RateLimitLayer)> {
    let gate = || gate_at(clock, vec![RuleSpec::new("even", queue())]);
    let plans = || Arc::new(KeyedLimiter::with_clock(queue(), clock.clone()).unwrap());
    let who = || Entries::new().entry("user", |_: &Parts| Some("ann".to_owned()));
    let long = Duration::from_secs(60);
    vec![
        ("new", RateLimitLayer::new(gate())),
        ("waiting", RateLimitLayer::waiting(gate())),
        ("outgoing", RateLimitLayer::outgoing(gate(), Pacing::new())),
        ("planned", RateLimitLayer::keyed(plans(), who())),
        ("planned_waiting", RateLimitLayer::keyed_waiting(plans(), who(), long)),
    ]
}

#[tokio::test(start_paused = true)]
async fn admitted_requests_reach_the_service_evenly_apart() {
    let clock = TokioClock::new();
    for (form, layer) in forms(&clock) {
        let began = clock.now();
        let reached = Arc::new(Mutex::new(Vec::new()));
        let noted = reached.clone();
        let service = layer.layer(service_fn(move |_: Request<Body>| {
            noted.lock().unwrap().push(clock.now().duration_since(began));
            async { Ok::<_, Infallible>(Response::new(Body::empty())) }
        }));
        let asked: Vec<_> =
            (0..4).map(|_| tokio::spawn(service.clone().oneshot(to("/")))).collect();
        for request in asked {
            assert_eq!(request.await.unwrap().unwrap().status(), 200, "{form}");
        }
        let expected = [0, 500, 1_000, 1_500].map(Duration::from_millis);
        assert_eq!(*reached.lock().unwrap(), expected, "{form}");
    }
}

#[test]
fn one_whose_client_goes_away_while_it_is_held_keeps_its_slot() {
    let clock = ManualClock::new();
    for (form, layer) in forms(&clock) {
        let service = layer.layer(service_fn(hello));
        let mut asked: Vec<_> =
            (0..3).map(|_| Box::pin(service.clone().oneshot(to("/")))).collect();
        let done: Vec<_> = asked.iter_mut().map(|one| poll_once(one).is_some()).collect();
        assert_eq!(done, [true, false, false], "{form}");
        drop(asked.remove(1));
        let mut last = asked.remove(1);
        clock.advance(HALF);
        assert!(poll_once(&mut last).is_none(), "{form}");
        clock.advance(HALF);
        assert!(poll_once(&mut last).is_some(), "{form}");
    }
}

#[test]
fn what_finds_no_space_in_the_queue_is_refused_at_once() {
    let clock = ManualClock::new();
    for (form, layer) in forms(&clock).into_iter().filter(|(form, _)| *form != "planned_waiting") {
        let service = layer.layer(service_fn(hello));
        let mut asked: Vec<_> =
            (0..5).map(|_| Box::pin(service.clone().oneshot(to("/")))).collect();
        let seen: Vec<_> = asked
            .iter_mut()
            .map(|one| poll_once(one).map(|answer| answer.unwrap().status().as_u16()))
            .collect();
        assert_eq!(seen, [Some(200), None, None, None, Some(429)], "{form}");
    }
}

/// It would have been held, had the other rule not refused it.
#[test]
fn what_another_rule_refuses_is_not_held() {
    let rules = || vec![RuleSpec::new("even", queue()), rule("few", 1, &[])];
    let gates = [gate(rules()), gate(rules())];
    for layer in [RateLimitLayer::new(gates[0].clone()), RateLimitLayer::waiting(gates[1].clone())]
    {
        let service = layer.layer(service_fn(hello));
        let ask = || poll_once(&mut Box::pin(service.clone().oneshot(to("/"))));
        let seen = [ask(), ask()].map(|answer| answer.unwrap().unwrap().status().as_u16());
        assert_eq!(seen, [200, 429]);
    }
}

#[test]
fn a_shaping_rule_in_shadow_mode_holds_nobody() {
    let even = RuleSpec::new("even", queue()).mode(Mode::Shadow);
    let layer = RateLimitLayer::new(gate(vec![even]));
    let service = layer.layer(service_fn(hello));
    for _ in 0..10 {
        let answer = poll_once(&mut Box::pin(service.clone().oneshot(to("/"))));
        assert_eq!(answer.unwrap().unwrap().status(), 200);
    }
}

/// Held, it has its place in flight; the service does not see it yet, and so no time is counted for it.
#[test]
fn a_held_request_keeps_its_place_and_counts_from_its_slot_on() {
    let clock = ManualClock::new();
    let in_flight = Concurrency::new(2);
    let statistics = Arc::new(Statistics::with_clock(clock.clone()));
    let layer = RateLimitLayer::new(gate_at(&clock, vec![RuleSpec::new("even", queue())]));
    let layer = layer.in_flight(InFlight::of(in_flight.clone())).statistics(statistics.clone());
    let service = layer.layer(service_fn(hello));
    drop(poll_once(&mut Box::pin(service.clone().oneshot(to("/")))));
    let mut held = Box::pin(service.oneshot(to("/")));
    assert!(poll_once(&mut held).is_none());
    assert_eq!((in_flight.in_flight(), statistics.second().pass), (1, 1));
    clock.advance(HALF);
    drop(poll_once(&mut held).unwrap());
    let second = statistics.second();
    assert_eq!((in_flight.in_flight(), second.pass), (0, 2));
    assert_eq!(second.rt_sum_us, 0);
}
