//! `docs/migrate/tower-governor.md`: both layers answer the same requests alike.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{Method, Request, Response};
use tidegate::Spec;
use tidegate::tower::{ClientIp, RateLimitLayer};
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::{GlobalKeyExtractor, SmartIpKeyExtractor};

fn from(peer: &str) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    let address = SocketAddr::new(peer.parse().unwrap(), 4_000);
    request.extensions_mut().insert(ConnectInfo(address));
    request
}

fn forwarded(caller: &str) -> Request<Body> {
    let mut request = from("10.0.0.1");
    request.headers_mut().insert("x-forwarded-for", caller.parse().unwrap());
    request
}

async fn hello(_: Request<Body>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Body::empty()))
}

/// The statuses of requests, one after the other.
async fn statuses<S, B>(service: S, requests: Vec<Request<Body>>) -> Vec<u16>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone,
{
    let mut found = Vec::new();
    for request in requests {
        let answer = service.clone().oneshot(request).await;
        found.push(answer.ok().expect("an answer").status().as_u16());
    }
    found
}

/// Asks both layers about the same requests.
macro_rules! alike {
    ($theirs:expr, $ours:expr, $requests:expr) => {{
        let theirs = GovernorLayer::new($theirs.finish().unwrap()).layer(service_fn(hello));
        let ours = $ours.unwrap().layer(service_fn(hello));
        let (theirs, ours) = (statuses(theirs, $requests).await, statuses(ours, $requests).await);
        assert_eq!(theirs, ours);
        ours
    }};
}

#[tokio::test]
async fn one_unit_every_n_seconds_after_a_burst() {
    let requests = || (0..7).map(|_| from("192.0.2.1")).collect::<Vec<_>>();
    let hour = Duration::from_secs(3_600);
    let answers = alike!(
        GovernorConfigBuilder::default().per_second(3_600).burst_size(5),
        RateLimitLayer::per_ip(Spec::per(1, hour).burst(5)),
        requests()
    );
    assert_eq!(answers, [200, 200, 200, 200, 200, 429, 429]);
    alike!(
        GovernorConfigBuilder::default().per_millisecond(3_600_000).burst_size(5),
        RateLimitLayer::per_ip(Spec::per(1, Duration::from_millis(3_600_000)).burst(5)),
        requests()
    );
}

#[tokio::test]
async fn the_default_is_a_burst_of_eight() {
    let mut config = GovernorConfigBuilder::default();
    let theirs = GovernorLayer::new(config.use_headers().finish().unwrap());
    let theirs = theirs.layer(service_fn(hello)).oneshot(from("192.0.2.1")).await.ok().unwrap();
    let ours = RateLimitLayer::per_ip(Spec::per_second(2).burst(8)).unwrap();
    let ours = ours.layer(service_fn(hello)).oneshot(from("192.0.2.1")).await.unwrap();
    for field in ["x-ratelimit-limit", "x-ratelimit-remaining"] {
        assert_eq!(ours.headers()[field], theirs.headers()[field], "{field}");
    }
    assert_eq!(ours.headers()["x-ratelimit-limit"], "8");
}

#[tokio::test]
async fn callers_behind_a_proxy_and_all_together() {
    let callers = || ["192.0.2.1", "192.0.2.2", "192.0.2.1"].map(forwarded).into();
    let mut hourly = GovernorConfigBuilder::default();
    hourly.per_second(3_600).burst_size(1);
    let proxies = ClientIp::x_forwarded_for(["10.0.0.0/8"]).unwrap();
    let by_proxy = alike!(
        hourly.key_extractor(SmartIpKeyExtractor),
        RateLimitLayer::per_address(proxies, "1/h"),
        callers()
    );
    assert_eq!(by_proxy, [200, 200, 429]);
    let together =
        alike!(hourly.key_extractor(GlobalKeyExtractor), RateLimitLayer::global("1/h"), callers());
    assert_eq!(together, [200, 429, 429]);
}

#[tokio::test]
async fn a_request_without_an_address_is_an_error_of_the_program_in_both() {
    let without = || vec![Request::new(Body::empty())];
    let mut config = GovernorConfigBuilder::default();
    assert_eq!(alike!(config, RateLimitLayer::per_ip("1/h"), without()), [500]);
}

#[tokio::test]
async fn ipv6_callers_are_addresses_there_and_networks_here() {
    let requests = || ["2001:db8::1", "2001:db8::2"].map(from).into();
    let mut config = GovernorConfigBuilder::default();
    let config = config.per_second(3_600).burst_size(1).finish().unwrap();
    let theirs = GovernorLayer::new(config).layer(service_fn(hello));
    assert_eq!(statuses(theirs, requests()).await, [200, 200]);
    let ours = RateLimitLayer::per_ip("1/h").unwrap().layer(service_fn(hello));
    assert_eq!(statuses(ours, requests()).await, [200, 429]);
}

#[tokio::test]
async fn only_some_methods_are_limited() {
    use std::sync::Arc;
    use tidegate::{Gate, Policy, RuleSpec};
    let asked = || {
        let of = |method: Method| {
            let mut request = from("192.0.2.1");
            *request.method_mut() = method;
            request
        };
        [Method::POST, Method::GET, Method::POST, Method::GET].map(of).into()
    };
    let rule = RuleSpec::new("posts", "1/h").when("method", "POST").key(["ip"]);
    let gate = Gate::new(Policy::new(vec![rule]).unwrap());
    let answers = alike!(
        GovernorConfigBuilder::default()
            .per_second(3_600)
            .burst_size(1)
            .methods(vec![Method::POST]),
        Some(RateLimitLayer::new(Arc::new(gate))),
        asked()
    );
    assert_eq!(answers, [200, 200, 429, 200]);
}
