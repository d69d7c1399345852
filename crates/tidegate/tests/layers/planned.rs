//! The layer over limiters by plan: each caller is held to their own plan, and gets its values.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use crate::common::{hello, poll_once};
use axum::body::Body;
use http::{Request, Response, StatusCode};
use std::time::Duration;
use tidegate::tower::{Entries, RateLimitLayer, Refusal, header};
use tidegate::{AlgorithmKind, KeyedLimiter, ManualClock, Rule, Spec};
use tower::{Layer, Service, ServiceExt, service_fn};

/// So many a minute; twice as much for paying callers, and no limit for `root`.
fn limiter(limit: u64) -> Arc<KeyedLimiter<ManualClock>> {
    limiter_by(&ManualClock::new(), limit)
}

fn limiter_by(clock: &ManualClock, limit: u64) -> Arc<KeyedLimiter<ManualClock>> {
    let spec = |limit| Spec::new(AlgorithmKind::SlidingLog, limit, Duration::from_secs(60));
    let paid = Rule::new(spec(2 * limit)).unwrap();
    let all = Rule::new(Spec::unlimited(AlgorithmKind::SlidingLog)).unwrap();
    let plan_of = move |key: &[u8]| match key {
        b"root" => Some(all.clone()),
        key => key.starts_with(b"paid").then(|| paid.clone()),
    };
    let limiter = KeyedLimiter::with_clock(spec(limit), clock.clone()).unwrap();
    Arc::new(limiter.with_plans(plan_of))
}

fn layer(limiter: &Arc<KeyedLimiter<ManualClock>>) -> RateLimitLayer {
    RateLimitLayer::keyed(limiter.clone(), user())
}

fn waiting(limiter: &Arc<KeyedLimiter<ManualClock>>, secs: u64) -> RateLimitLayer {
    RateLimitLayer::keyed_waiting(limiter.clone(), user(), Duration::from_secs(secs))
}

fn user() -> Entries {
    Entries::new().entry("user", header("x-user").unwrap())
}

async fn ask<S, B>(service: &S, user: Option<&str>) -> Response<B>
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Clone,
{
    let request = user.into_iter().fold(Request::get("/"), |b, user| b.header("x-user", user));
    service.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

#[tokio::test]
async fn each_caller_is_held_to_their_own_plan() {
    let service = layer(&limiter(2)).layer(service_fn(hello));
    let mut admitted = Vec::new();
    for user in [Some("ann"), Some("paid bob"), Some("root"), None] {
        let mut count = 0;
        for _ in 0..10 {
            count += usize::from(ask(&service, user).await.status() == StatusCode::OK);
        }
        admitted.push(count);
    }
    assert_eq!(admitted, [2, 4, 10, 10]);
}

#[tokio::test]
async fn the_values_reported_are_those_of_the_plan() {
    let service = layer(&limiter(1)).layer(service_fn(hello));
    let first = ask(&service, Some("paid bob")).await;
    assert_eq!(first.headers()["x-ratelimit-limit"], "2");
    assert_eq!(first.headers()["x-ratelimit-remaining"], "1");
    assert_eq!(first.headers()["ratelimit-policy"], "\"plan\";q=2;w=60");
    assert!(ask(&service, Some("ann")).await.status().is_success());
    let refused = ask(&service, Some("ann")).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()["retry-after"], "60");
    assert_eq!(refused.extensions().get::<Refusal>().unwrap().rules(), ["plan"]);
    let unlimited = ask(&service, Some("root")).await;
    assert!(!unlimited.headers().contains_key("x-ratelimit-limit"));
}

/// A request that waited for its turn opened no reservation, so giving it back closes none of another request.
#[test]
fn what_a_waiting_layer_gives_back_closes_no_reservation_of_another() {
    let clock = ManualClock::new();
    let spec = Spec::new(AlgorithmKind::TokenBucket, 60, Duration::from_secs(60));
    let limiter = Arc::new(KeyedLimiter::with_clock(spec, clock.clone()).unwrap());
    let is_free = |layer: RateLimitLayer| layer.charge_when(|_| false);
    let slow = is_free(layer(&limiter)).layer(service_fn(|_: Request<Body>| async {
        tokio::task::yield_now().await;
        Ok(Response::new(Body::from("late")))
    }));
    let plain = layer(&limiter).layer(service_fn(hello));
    let free = is_free(waiting(&limiter, 90)).layer(service_fn(hello));
    let now = |service: &_| poll_once(&mut Box::pin(ask(service, Some("ann")))).unwrap().status();
    (0..59).for_each(|_| assert_eq!(now(&plain), 200));
    let mut held = Box::pin(ask(&slow, Some("ann")));
    assert!(poll_once(&mut held).is_none());
    for second in 0..70 {
        clock.advance(Duration::from_secs(1));
        if second == 0 {
            assert_eq!(poll_once(&mut Box::pin(ask(&free, Some("ann")))).unwrap().status(), 200);
        }
        assert_eq!(now(&plain), 200);
    }
    // In a bucket that was never empty since, the whole unit comes back.
    assert_eq!(limiter.peek("ann", 1).remaining, 0);
    assert!(poll_once(&mut held).is_some());
    assert_eq!(limiter.peek("ann", 1).remaining, 1);
}

#[test]
fn who_waits_under_a_plan_goes_in_turn_and_holds_up_nobody_else() {
    let clock = ManualClock::new();
    let limiter = limiter_by(&clock, 1);
    let service = waiting(&limiter, 90).layer(service_fn(hello));
    let begin = |user| {
        let mut asked = Box::pin(ask(&service, user));
        let now = poll_once(&mut asked).map(|answer| answer.status().as_u16());
        (asked, now)
    };
    assert_eq!(begin(Some("ann")).1, Some(200));
    let (mut second, now) = begin(Some("ann"));
    assert_eq!((now, limiter.waiting("ann")), (None, 1));
    assert_eq!(begin(Some("ann")).1, Some(429), "its turn would come in two minutes");
    let others = [Some("bob"), Some("paid eve"), Some("root"), Some("root"), None, None];
    assert_eq!(others.map(|user| begin(user).1), [Some(200); 6]);
    clock.advance(Duration::from_secs(60));
    assert_eq!(poll_once(&mut second).unwrap().status(), 200);
    assert_eq!((limiter.waiting("ann"), limiter.peek("ann", 1).remaining), (0, 0));
}

#[test]
fn a_refusal_behind_those_who_wait_tells_when_its_turn_would_come() {
    let limiter = limiter(1);
    let service = waiting(&limiter, 90).layer(service_fn(hello));
    let mut asked: Vec<_> = (0..3).map(|_| Box::pin(ask(&service, Some("ann")))).collect();
    let done: Vec<_> = asked.iter_mut().filter_map(poll_once).collect();
    assert_eq!(done.len(), 2);
    assert_eq!(done[1].headers()["retry-after"], "120");
    assert_eq!(done[1].extensions().get::<Refusal>().unwrap().rules(), ["plan"]);
}

#[test]
fn a_request_that_goes_away_while_it_waits_under_a_plan_takes_nothing() {
    let clock = ManualClock::new();
    let limiter = limiter_by(&clock, 1);
    let service = waiting(&limiter, 90).layer(service_fn(hello));
    let mut asked: Vec<_> = (0..2).map(|_| Box::pin(ask(&service, Some("ann")))).collect();
    assert_eq!(asked.iter_mut().filter_map(poll_once).count(), 1);
    drop(asked);
    assert_eq!(limiter.waiting("ann"), 0);
    clock.advance(Duration::from_secs(60));
    assert_eq!(limiter.peek("ann", 1).remaining, 1);
}

#[test]
fn a_request_that_waited_learns_the_values_of_the_plan_that_let_it_through() {
    let spec = |limit| Spec::new(AlgorithmKind::SlidingLog, limit, Duration::from_secs(60));
    let rule = |limit| Rule::new(spec(limit)).unwrap();
    let booked = Arc::new(Mutex::new(rule(1)));
    let plan = booked.clone();
    let limiter = KeyedLimiter::with_clock(spec(1), ManualClock::new()).unwrap();
    let limiter = Arc::new(limiter.with_plans(move |_| Some(plan.lock().unwrap().clone())));
    let service = waiting(&limiter, 90).layer(service_fn(hello));
    let mut asked: Vec<_> = (0..2).map(|_| Box::pin(ask(&service, Some("ann")))).collect();
    assert_eq!(asked.iter_mut().filter_map(poll_once).count(), 1);
    *booked.lock().unwrap() = rule(5);
    limiter.plan_changed("ann");
    let answer = poll_once(&mut asked[1]).unwrap();
    assert_eq!(answer.headers()["x-ratelimit-limit"], "5");
    assert_eq!(answer.headers()["x-ratelimit-remaining"], "3");
    assert_eq!(answer.headers()["ratelimit-policy"], "\"plan\";q=5;w=60");
}
