//! The layer around a client: it paces requests to a server's limit, and pauses when a server asks for a pause.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::{gate, gate_at, left, poll_once, rule, to};
use axum::body::Body;
use axum::routing::get;
use http::{Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use std::time::Duration;
use tidegate::tower::{Pacing, RateLimitLayer, Reason, Refusal, header};
use tidegate::{AlgorithmKind, Clock, Gate, ManualClock, OnExcess, RuleSpec, Spec, Timestamp};
use tokio::net::TcpListener;
use tower::{Layer, Service, ServiceExt, service_fn};

type Counted = Arc<AtomicUsize>;

/// A service whose first answer is `first`, with `Retry-After`; all others are 200. Counts its calls.
fn asks_once(
    first: u16,
    retry_after: &'static str,
) -> (
    impl Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send> + Clone,
    Counted,
) {
    let calls = Counted::default();
    let counted = calls.clone();
    let service = service_fn(move |_: Request<Body>| {
        let number = counted.fetch_add(1, Ordering::Relaxed);
        let status = if number == 0 { first } else { 200 };
        let answer = Response::builder().status(status).header("retry-after", retry_after);
        std::future::ready(Ok(answer.body(Body::empty()).unwrap()))
    });
    (service, calls)
}

#[test]
fn a_host_that_asks_for_it_is_left_alone_until_then() {
    let clock = ManualClock::new();
    let (service, calls) = asks_once(429, "5");
    let service = RateLimitLayer::outgoing(gate_at(&clock, vec![]), Pacing::new()).layer(service);
    let ask = |url: &str| Box::pin(service.clone().oneshot(to(url)));
    let first = poll_once(&mut ask("http://one.example/")).unwrap().unwrap();
    assert_eq!(first.status(), 429, "the answer itself is passed on");

    let mut held = ask("http://one.example/");
    assert!(poll_once(&mut held).is_none());
    assert_eq!(poll_once(&mut ask("http://two.example/")).unwrap().unwrap().status(), 200);
    clock.advance(Duration::from_millis(4_999));
    assert!(poll_once(&mut held).is_none());
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    clock.advance(Duration::from_millis(1));
    assert_eq!(poll_once(&mut held).unwrap().unwrap().status(), 200);
}

#[test]
fn a_date_is_honoured_as_seconds_are() {
    let clock = ManualClock::new();
    let (service, _) = asks_once(503, "Thu, 01 Jan 2026 00:00:10 GMT");
    let service = RateLimitLayer::outgoing(gate_at(&clock, vec![]), Pacing::new()).layer(service);
    poll_once(&mut Box::pin(service.clone().oneshot(to("http://one.example/")))).unwrap().unwrap();
    let mut held = Box::pin(service.oneshot(to("http://one.example/")));
    clock.advance(Duration::from_micros(9_999_999));
    assert!(poll_once(&mut held).is_none());
    clock.advance(Duration::from_micros(1));
    assert!(poll_once(&mut held).is_some());
}

#[test]
fn a_hold_that_is_too_long_to_wait_for_is_an_error_at_once_and_nothing_is_sent() {
    let clock = ManualClock::new();
    let (service, calls) = asks_once(429, "7200");
    let pacing =
        Pacing::new().most_hold(Duration::from_secs(60)).most_wait(Duration::from_secs(59));
    let service = RateLimitLayer::outgoing(gate_at(&clock, vec![]), pacing).layer(service);
    poll_once(&mut Box::pin(service.clone().oneshot(to("http://one.example/")))).unwrap().unwrap();
    let answer = poll_once(&mut Box::pin(service.clone().oneshot(to("http://one.example/"))))
        .unwrap()
        .unwrap();
    let refusal = answer.extensions().get::<Refusal>().unwrap();
    assert_eq!(
        (refusal.reason(), refusal.retry_after()),
        (Reason::Held, Some(Duration::from_secs(60)))
    );
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["retry-after"]),
        (429, &"60".parse().unwrap())
    );
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    clock.advance(Duration::from_secs(60));
    assert!(poll_once(&mut Box::pin(service.oneshot(to("http://one.example/")))).is_some());
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}

/// Answers when it is polled again: 429 with `Retry-After: 150`.
async fn asks_late(_: Request<Body>) -> Result<Response<Body>, Infallible> {
    tokio::task::yield_now().await;
    let answer = Response::builder().status(429).header("retry-after", "150");
    Ok(answer.body(Body::empty()).unwrap())
}

/// One request every 100 s, in line. The second waits at the gate when the host asks for 150 s.
fn held_behind_the_gate(
    clock: &ManualClock,
) -> (Arc<Gate<ManualClock>>, impl Future<Output: Sized>) {
    let wait = OnExcess::Wait { wait: Duration::from_secs(200), max_waiters: 10 };
    let spec = Spec::new(AlgorithmKind::SlidingLog, 1, Duration::from_secs(100));
    let gate = gate_at(clock, vec![RuleSpec::new("pace", spec).on_excess(wait)]);
    let pacing = Pacing::new().most_wait(Duration::from_secs(200));
    let service = RateLimitLayer::outgoing(gate.clone(), pacing).layer(service_fn(asks_late));
    let ask = || Box::pin(service.clone().oneshot(to("http://one.example/")));
    let (mut first, mut second) = (ask(), ask());
    assert!(poll_once(&mut first).is_none() && poll_once(&mut second).is_none());
    assert_eq!(poll_once(&mut first).unwrap().unwrap().status(), 429);
    clock.advance(Duration::from_secs(100));
    assert!(poll_once(&mut second).is_none(), "admitted by the gate, and held");
    assert_eq!(left(&gate), [1], "given back, to be asked for when the hold has ended");
    (gate, second)
}

#[test]
fn what_is_asked_while_a_request_waits_at_the_gate_is_heeded_too() {
    let clock = ManualClock::new();
    let (_, second) = held_behind_the_gate(&clock);
    let mut second = Box::pin(second);
    clock.advance(Duration::from_micros(49_999_999));
    assert!(poll_once(&mut second).is_none());
    assert_eq!(clock.sleepers(), 1);
    clock.advance(Duration::from_micros(1));
    assert!(poll_once(&mut second).is_none(), "sent: the service answers when it is polled again");
    assert_eq!(clock.sleepers(), 0);
    assert!(poll_once(&mut second).is_some());
}

#[test]
fn what_is_held_and_then_given_up_burns_no_quota() {
    let clock = ManualClock::new();
    let (gate, second) = held_behind_the_gate(&clock);
    drop(second);
    assert_eq!(left(&gate), [1]);
}

#[test]
fn holds_may_be_of_something_else_than_the_host() {
    let clock = ManualClock::new();
    let (service, _) = asks_once(429, "5");
    let pacing = Pacing::new().hold_by(header("authorization").unwrap());
    let service = RateLimitLayer::outgoing(gate_at(&clock, vec![]), pacing).layer(service);
    let ask = |token: &str| {
        let mut request = to("http://one.example/");
        request.headers_mut().insert("authorization", token.parse().unwrap());
        poll_once(&mut Box::pin(service.clone().oneshot(request)))
    };
    assert!(ask("a").is_some());
    assert!(ask("a").is_none());
    assert!(ask("b").is_some());
}

/// A server inside the layer, called by a client inside another layer.
#[test]
fn a_grpc_server_that_refuses_is_left_alone_for_its_retry_info() {
    let clock = ManualClock::new();
    let served = Counted::default();
    let counted = served.clone();
    let server = service_fn(move |_: Request<Body>| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok::<_, Infallible>(Response::new(Body::empty())) }
    });
    let server = RateLimitLayer::new(gate_at(&clock, vec![rule("all", 1, &[])])).layer(server);
    let client = RateLimitLayer::outgoing(gate_at(&clock, vec![]), Pacing::new()).layer(server);
    let call = || {
        let mut request = to("http://one.example/");
        request.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
        Box::pin(client.clone().oneshot(request))
    };
    let status = |answer: &Response<_>| answer.headers().get("grpc-status").cloned();
    assert_eq!(status(&poll_once(&mut call()).unwrap().unwrap()), None);
    let refused = poll_once(&mut call()).unwrap().unwrap();
    assert_eq!(status(&refused).unwrap(), "8");
    assert_eq!(refused.extensions().get::<Refusal>().unwrap().reason(), Reason::Limit);
    let held = poll_once(&mut call()).unwrap().unwrap();
    assert_eq!(held.extensions().get::<Refusal>().unwrap().reason(), Reason::Held);
    clock.advance(Duration::from_secs(60));
    assert_eq!(status(&poll_once(&mut call()).unwrap().unwrap()), None);
    assert_eq!(served.load(Ordering::Relaxed), 2);
}

/// Two clones of a real client; the limit belongs to the host, and nothing beyond it is sent.
#[tokio::test]
async fn clones_of_a_real_client_share_the_pace_exactly() {
    let served = Counted::default();
    let counted = served.clone();
    let app = axum::Router::new().route(
        "/",
        get(async move || {
            counted.fetch_add(1, Ordering::Relaxed);
        }),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });

    let gate = gate(vec![rule("per-host", 3, &["host"])]);
    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    let client = RateLimitLayer::outgoing(gate, Pacing::new()).layer(client);
    let clones = [client.clone(), client];
    let mut seen = Vec::new();
    for turn in 0..6 {
        let answer = clones[turn % 2].clone().oneshot(to(&host)).await.unwrap();
        seen.push((answer.status().as_u16(), answer.extensions().get::<Refusal>().is_some()));
        assert!(
            !answer.headers().contains_key("x-ratelimit-limit"),
            "answers are left as they are"
        );
    }
    assert_eq!(seen, [[(200, false)].repeat(3), [(429, true)].repeat(3)].concat());
    assert_eq!(served.load(Ordering::Relaxed), 3);
}

/// The first answer, a 429 with a hold of 20 s, comes when all others stand in the gate's line.
#[test]
fn after_a_hold_the_pace_is_still_kept() {
    let wait = OnExcess::Wait { wait: Duration::from_secs(60), max_waiters: 100 };
    let spec = Spec::new(AlgorithmKind::SlidingLog, 5, Duration::from_secs(1));
    let clock = ManualClock::new();
    let gate = gate_at(&clock, vec![RuleSpec::new("pace", spec).on_excess(wait)]);
    let sent = Arc::new(Mutex::new(Vec::new()));
    let (noted, reads) = (sent.clone(), clock.clone());
    let service = service_fn(move |_: Request<Body>| {
        let mut sent = noted.lock().unwrap();
        sent.push(reads.now());
        let first = sent.len() == 1;
        async move {
            if first {
                tokio::task::yield_now().await;
            }
            let answer = Response::builder().status(if first { 429 } else { 200 });
            Ok::<_, Infallible>(answer.header("retry-after", "20").body(Body::empty()).unwrap())
        }
    });
    let service = RateLimitLayer::outgoing(gate, Pacing::new()).layer(service);
    let ask = || Some(Box::pin(service.clone().oneshot(to("http://one.example/"))));
    let mut asking: Vec<_> = (0..40).map(|_| ask()).collect();
    while asking.iter().any(Option::is_some) {
        for one in &mut asking {
            one.take_if(|one| poll_once(one).is_some());
        }
        clock.advance(Duration::from_millis(50));
    }
    let sent = sent.lock().unwrap();
    assert_eq!(sent.len(), 40);
    let within = |end: &Timestamp| {
        sent.iter()
            .filter(|at| *at <= end && end.duration_since(**at) < Duration::from_secs(1))
            .count()
    };
    assert_eq!(sent.iter().map(within).max(), Some(5));
}

/// A tower service may be called and its future dropped.
#[test]
fn a_call_that_is_never_polled_takes_nothing() {
    let gate = gate(vec![rule("one", 1, &[])]);
    let service = service_fn(|_: Request<Body>| {
        std::future::ready(Ok::<_, Infallible>(Response::new(Body::empty())))
    });
    let mut service = RateLimitLayer::new(gate).layer(service);
    drop(service.call(to("http://one.example/")));
    let answer =
        poll_once(&mut Box::pin(service.call(to("http://one.example/")))).unwrap().unwrap();
    assert_eq!(answer.status(), 200);
}
