//! The layer around plain services: it counts requests, passes them on, or gives them up.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{gate, hello, rule};
use axum::body::Body;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use std::time::Duration;
use tidegate::tower::{Entries, RateLimitLayer, Reason, Refusal, extension, header, method};
use tidegate::{ManualClock, Statistics};
use tower::{Layer, Service, ServiceExt, service_fn};

fn get(fields: &[(&str, &str)]) -> Request<Body> {
    let request = fields.iter().fold(Request::get("/"), |b, (name, value)| b.header(*name, *value));
    request.body(Body::empty()).unwrap()
}

#[tokio::test]
async fn a_request_without_an_entry_meets_no_rule_that_asks_for_it() {
    let entries = Entries::new().entry("channel", header("x-channel").unwrap());
    let layer = RateLimitLayer::new(gate(vec![rule("channel", 1, &["channel"])]));
    let service = layer.descriptor(entries).layer(service_fn(hello));
    let mut seen = Vec::new();
    for fields in [&[("x-channel", "alipay")][..], &[("x-channel", "alipay")], &[], &[]] {
        seen.push(service.clone().oneshot(get(fields)).await.unwrap().status().as_u16());
    }
    assert_eq!(seen, [200, 429, 200, 200]);
}

#[tokio::test]
async fn descriptors_are_all_asked_and_charged_together_or_not_at_all() {
    #[derive(Clone)]
    struct User(&'static str);
    let gate = gate(vec![rule("user", 1, &["user"]), rule("method", 9, &["method"])]);
    let user = Entries::new().entry("user", extension(|user: &User| Some(user.0.to_owned())));
    let layer = RateLimitLayer::new(gate.clone()).descriptor(user);
    let layer = layer.descriptor(Entries::new().entry("method", method).cost(|_| 2));
    let service = layer.layer(service_fn(hello));
    let mut remaining = Vec::new();
    for user in ["ann", "ann", "bob"] {
        let mut request = get(&[]);
        request.extensions_mut().insert(User(user));
        let answer = service.clone().oneshot(request).await.unwrap();
        remaining.push(answer.status().as_u16());
    }
    assert_eq!(remaining, [200, 429, 200]);
    let descriptors = [tidegate::Descriptor::new(&[("method", "GET")])];
    let left = gate.peek(&tidegate::Request::new("default", &descriptors));
    assert_eq!(left.reported().unwrap().decision().remaining, 9 - 2 - 2);
}

#[tokio::test]
async fn rules_of_the_named_domain_decide() {
    let layer = RateLimitLayer::new(gate(vec![rule("none", 0, &[]).in_domain("pay")]));
    let ask = |layer: &RateLimitLayer| layer.layer(service_fn(hello)).oneshot(get(&[]));
    assert_eq!(ask(&layer).await.unwrap().status(), 200);
    let closed = ask(&layer.domain("pay")).await.unwrap();
    assert_eq!(closed.status(), 403);
    let fields = closed.headers();
    assert!(!fields.contains_key("retry-after") && !fields.contains_key("x-ratelimit-reset"));
}

#[tokio::test]
async fn a_refusal_reaches_no_service_and_is_left_for_layers_further_out() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let service = service_fn(move |request| {
        counted.fetch_add(1, Ordering::Relaxed);
        hello(request)
    });
    let service = RateLimitLayer::new(gate(vec![rule("all", 1, &[])])).layer(service);
    service.clone().oneshot(get(&[])).await.unwrap();
    let refused = service.oneshot(get(&[])).await.unwrap();
    let refusal = refused.extensions().get::<Refusal>().unwrap();
    assert_eq!((refusal.reason(), refusal.rules()), (Reason::Limit, &["all".to_owned()][..]));
    assert_eq!(refusal.retry_after(), Some(Duration::from_secs(60)));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn an_error_of_the_service_is_passed_on_as_it_is() {
    let service = service_fn(async |_: Request<Body>| Err::<Response<Body>, _>("broken"));
    let service = RateLimitLayer::new(gate(vec![rule("all", 1, &[])])).layer(service);
    assert_eq!(service.oneshot(get(&[])).await.unwrap_err(), "broken");
}

#[tokio::test]
async fn the_service_that_was_ready_is_the_one_that_is_called() {
    #[derive(Default)]
    struct OnlyWhenReady(bool);
    impl Clone for OnlyWhenReady {
        fn clone(&self) -> Self {
            Self(false)
        }
    }
    impl Service<Request<Body>> for OnlyWhenReady {
        type Response = Response<Body>;
        type Error = &'static str;
        type Future = std::future::Ready<Result<Response<Body>, &'static str>>;

        fn poll_ready(
            &mut self,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Result<(), &'static str>> {
            self.0 = true;
            std::task::Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<Body>) -> Self::Future {
            let ready = std::mem::take(&mut self.0);
            std::future::ready(if ready { Ok(Response::default()) } else { Err("not ready") })
        }
    }
    let layer = RateLimitLayer::new(gate(vec![rule("all", 5, &[])]));
    let mut service = layer.layer(OnlyWhenReady::default());
    for _ in 0..3 {
        service.ready().await.unwrap().call(get(&[])).await.unwrap();
    }
}

/// Answers what the request asks for, then the body `hello`.
async fn as_asked(request: Request<Body>) -> Result<Response<Body>, &'static str> {
    let text =
        |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    if text("error").is_some() {
        return Err("broken");
    }
    let status: StatusCode = text("status").map_or(StatusCode::OK, |code| code.parse().unwrap());
    let response = Response::builder().status(status);
    let response = text("grpc").into_iter().fold(response, |b, code| b.header("grpc-status", code));
    Ok(response.body(Body::from("hello")).unwrap())
}

#[tokio::test]
async fn passes_blocks_exceptions_and_response_times_are_counted() {
    let clock = ManualClock::new();
    let statistics = Arc::new(Statistics::with_clock(clock.clone()));
    let layer = RateLimitLayer::new(gate(vec![rule("all", 6, &[])])).statistics(statistics.clone());
    let service = layer.layer(service_fn(as_asked));
    let asked = [
        ("status", "200"),
        ("status", "404"),
        ("status", "500"),
        ("error", "1"),
        ("grpc", "13"),
        ("grpc", "5"),
    ];
    for field in asked.into_iter().chain([("status", "200")]) {
        let answer = service.clone().oneshot(get(&[field])).await;
        clock.advance(Duration::from_millis(1));
        drop(answer);
    }
    let minute = statistics.minute();
    assert_eq!((minute.pass, minute.block, minute.exception, minute.success), (6, 1, 3, 3));
    assert_eq!(statistics.in_flight(), 0);
}

#[tokio::test]
async fn a_request_is_in_flight_until_the_body_of_its_answer_has_ended() {
    let clock = ManualClock::new();
    let statistics = Arc::new(Statistics::with_clock(clock.clone()));
    let layer = RateLimitLayer::new(gate(vec![])).statistics(statistics.clone());
    let service = layer.layer(service_fn(hello));
    let answer = service.oneshot(get(&[])).await.unwrap();
    clock.advance(Duration::from_millis(250));
    assert_eq!((statistics.in_flight(), statistics.minute().success), (1, 0));
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(&body[..], b"hello");
    let minute = statistics.minute();
    assert_eq!((statistics.in_flight(), minute.success), (0, 1));
    assert_eq!(minute.rt_sum_us, 250_000);
}

#[tokio::test]
async fn a_caller_who_goes_away_is_in_flight_no_more() {
    let statistics = Arc::new(Statistics::new());
    let layer = RateLimitLayer::new(gate(vec![])).statistics(statistics.clone());
    let service = layer.layer(service_fn(async |_: Request<Body>| {
        std::future::pending::<Result<Response<Body>, Infallible>>().await
    }));
    let mut answer = Box::pin(service.oneshot(get(&[])));
    std::future::poll_fn(|cx| {
        assert!(answer.as_mut().poll(cx).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    assert_eq!(statistics.in_flight(), 1);
    drop(answer);
    assert_eq!(statistics.in_flight(), 0);
}
