//! The layer in a real axum server, over loopback.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Connection, admitted_by, gate, rule};
use axum::Router;
use axum::body::Body;
use axum::extract::connect_info::MockConnectInfo;
use axum::routing::get;
use tidegate::tower::{ClientIp, Entries, RateLimitLayer, header, matched_path};
use tidegate::{Gate, KeyedLimiter, ManualClock, Mode, Policy};
use tokio::net::TcpListener;
use tower::ServiceExt;

async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await.unwrap() });
    address
}

/// Serves without the addresses of peers.
async fn serve_without_addresses(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

fn hello(gate: &Arc<Gate<ManualClock>>) -> Router {
    let hello = Router::new().route("/", get(async || "hello"));
    hello.layer(RateLimitLayer::new(gate.clone()))
}

/// A library limiter whose state is per clone of the service let 1,500 requests through a limit of 5.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn state_is_not_per_clone_of_the_service() {
    let app = hello(&gate(vec![rule("per-ip", 7, &["ip"])]));
    let servers = [serve(app.clone()).await, serve(app).await];
    assert_eq!(admitted_by(servers, 10).await, 7);
}

#[tokio::test]
async fn an_admitted_request_learns_how_its_limit_stands() {
    let server = serve(hello(&gate(vec![rule("per-ip", 2, &["ip"])]))).await;
    let answer = Connection::to(server).await.get("/", &[]).await;
    assert_eq!((answer.status().as_u16(), answer.body().as_str()), (200, "hello"));
    let reported = |name: &str| answer.headers()[name].to_str().unwrap();
    assert_eq!(reported("x-ratelimit-limit"), "2");
    assert_eq!(reported("x-ratelimit-remaining"), "1");
    assert_eq!(reported("ratelimit-policy"), "\"per-ip\";q=2;w=60");
    assert_eq!(reported("ratelimit"), "\"per-ip\";r=1;t=60");
    assert!(!answer.headers().contains_key("retry-after"));
}

#[tokio::test]
async fn a_429_says_when_to_come_back_and_why() {
    let server = serve(hello(&gate(vec![rule("per-ip", 1, &["ip"])]))).await;
    let mut connection = Connection::to(server).await;
    connection.get("/", &[]).await;
    let answer = connection.get("/", &[]).await;
    assert_eq!(answer.status(), 429);
    let reported = |name: &str| answer.headers()[name].to_str().unwrap();
    assert_eq!(reported("retry-after"), "60");
    assert_eq!(reported("ratelimit"), "\"per-ip\";r=0;t=60");
    assert_eq!(reported("content-type"), "application/problem+json");
    assert_eq!(reported("cache-control"), "no-store");
    let problem: serde_json::Value = serde_json::from_str(answer.body()).unwrap();
    assert_eq!(problem["violated-policies"][0], "per-ip");
}

#[tokio::test]
async fn a_cost_that_never_fits_is_422_and_has_no_retry_after() {
    let dear = Entries::new().entry("ip", ClientIp::peer()).cost(|_| 3);
    let layer = RateLimitLayer::new(gate(vec![rule("per-ip", 2, &["ip"])])).descriptor(dear);
    let app = Router::new().route("/", get(async || "hello")).layer(layer);
    let answer = Connection::to(serve(app).await).await.get("/", &[]).await;
    assert_eq!(answer.status(), 422);
    assert!(!answer.headers().contains_key("retry-after"));
    assert!(answer.body().contains("cost-never-fits"), "{}", answer.body());
}

/// All callers would share one limiter, of an address that no caller has.
#[tokio::test]
async fn a_rule_by_address_is_an_error_of_a_server_that_does_not_pass_addresses_on() {
    for rules in [
        vec![rule("per-ip", 1, &["ip"])],
        vec![rule("all", 1, &[]), rule("office", 1, &[]).when("ip", "192.0.2.*")],
    ] {
        let gate = gate(rules);
        for layer in [RateLimitLayer::new(gate.clone()), RateLimitLayer::waiting(gate.clone())] {
            let app = Router::new().route("/", get(async || "hello")).layer(layer);
            let mut connection = Connection::to(serve_without_addresses(app).await).await;
            for _ in 0..2 {
                let answer = connection.get("/", &[]).await;
                assert_eq!(answer.status(), 500);
                assert!(answer.body().contains("internal-error"), "{}", answer.body());
            }
        }
        assert_eq!(gate.counts().keys, 0, "nothing is charged");
    }
}

#[tokio::test]
async fn rules_that_do_not_look_at_addresses_need_none() {
    let trial = rule("trial", 1, &["ip"]).mode(Mode::Shadow);
    let elsewhere = rule("elsewhere", 1, &["ip"]).in_domain("pay");
    let gate = gate(vec![rule("per-path", 2, &["path"]), trial, elsewhere]);
    let mut connection = Connection::to(serve_without_addresses(hello(&gate)).await).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(connection.get("/", &[]).await.status().as_u16());
    }
    assert_eq!(seen, [200, 200, 429]);
    assert_eq!(gate.counts().keys, 1, "the rule on trial has no limiter that strangers share");
}

#[tokio::test]
async fn a_key_that_falls_back_on_an_address_needs_one_only_then() {
    let who = || Entries::new().entry("key", header("x-key").unwrap());
    let limiter = || Arc::new(KeyedLimiter::new("1/h").unwrap());
    let layer = RateLimitLayer::keyed(limiter(), who().entry("ip", ClientIp::peer()));
    let app = Router::new().route("/", get(async || "hello")).layer(layer);
    let mut connection = Connection::to(serve_without_addresses(app).await).await;
    for (fields, status) in [(&[("x-key", "a")][..], 200), (&[("x-key", "a")], 429), (&[], 500)] {
        assert_eq!(connection.get("/", fields).await.status(), status, "{fields:?}");
    }
}

#[test]
fn a_missing_address_is_reported_once_with_the_call_that_mends_it() {
    let refused =
        "in_axum::a_rule_by_address_is_an_error_of_a_server_that_does_not_pass_addresses_on";
    let alone = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", refused, "--nocapture"])
        .output()
        .unwrap();
    assert!(alone.status.success());
    let printed = String::from_utf8(alone.stderr).unwrap();
    let reports = printed.lines().filter(|line| line.starts_with("tidegate: "));
    let reports: Vec<_> = reports.collect();
    assert_eq!(reports.len(), 1, "{printed}");
    assert!(reports[0].contains("into_make_service_with_connect_info"), "{printed}");
    assert!(reports[0].contains("MockConnectInfo"), "{printed}");
}

#[tokio::test]
async fn the_address_of_a_test_is_the_callers_unless_the_server_knows_it() {
    let app = || hello(&gate(vec![rule("per-ip", 1, &["ip"])]));
    let mock = || MockConnectInfo(SocketAddr::from(([192, 0, 2, 1], 4_000)));
    let service = app().layer(mock());
    for status in [200, 429] {
        let request = http::Request::get("/").body(Body::empty()).unwrap();
        assert_eq!(service.clone().oneshot(request).await.unwrap().status(), status);
    }
    let mut connection = Connection::to(serve(app().layer(mock())).await).await;
    for status in [200, 429] {
        assert_eq!(connection.get("/", &[]).await.status(), status);
    }
}

#[tokio::test]
async fn the_seconds_of_a_body_are_those_of_the_header() {
    for (past, seconds) in [(Duration::ZERO, "60"), (Duration::from_millis(59_001), "1")] {
        let clock = ManualClock::new();
        let policy = Policy::new(vec![rule("all", 1, &[])]).unwrap();
        let gate = Arc::new(Gate::with_clock(policy, clock.clone()));
        let layer = RateLimitLayer::new(gate.clone()).on_refused(|refusal, _| {
            let text = refusal.retry_after_seconds().unwrap().to_string();
            let mut response = http::Response::new(text.into_bytes());
            *response.status_mut() = refusal.status();
            response
        });
        let app = Router::new().route("/", get(async || "hello")).layer(layer);
        assert!(gate.admits(&[]));
        clock.advance(past);
        let answer = Connection::to(serve(app).await).await.get("/", &[]).await;
        assert_eq!(answer.headers()["retry-after"], seconds);
        assert_eq!(answer.body(), seconds);
    }
}

/// By the path as asked for, every number would have a limiter of its own.
#[tokio::test]
async fn routes_are_known_by_their_template() {
    let gate = gate(vec![rule("per-route", 2, &["route"])]);
    let layer =
        RateLimitLayer::new(gate.clone()).descriptor(Entries::new().entry("route", matched_path));
    let app = Router::new().route("/users/{id}", get(async || "user")).route_layer(layer);
    let mut connection = Connection::to(serve(app).await).await;
    let mut seen = Vec::new();
    for path in ["/users/1", "/users/2", "/users/3", "/nowhere"] {
        seen.push(connection.get(path, &[]).await.status().as_u16());
    }
    assert_eq!(seen, [200, 200, 429, 404]);
    assert_eq!(gate.counts().keys, 1);
}

#[tokio::test]
async fn a_forged_header_gives_no_fresh_limit() {
    let server = serve(hello(&gate(vec![rule("per-ip", 1, &["ip"])]))).await;
    let mut connection = Connection::to(server).await;
    let mut seen = Vec::new();
    for forged in ["1.1.1.1", "2.2.2.2", "3.3.3.3"] {
        let fields = [("x-forwarded-for", forged), ("x-real-ip", forged)];
        seen.push(connection.get("/", &fields).await.status().as_u16());
    }
    assert_eq!(seen, [200, 429, 429]);
}

#[tokio::test]
async fn behind_a_named_proxy_each_caller_has_a_limit() {
    let ip = ClientIp::x_forwarded_for(["127.0.0.0/8"]).unwrap();
    let layer = RateLimitLayer::new(gate(vec![rule("per-ip", 1, &["ip"])]));
    let layer = layer.descriptor(Entries::new().entry("ip", ip));
    let app = Router::new().route("/", get(async || "hello")).layer(layer);
    let mut connection = Connection::to(serve(app).await).await;
    let mut seen = Vec::new();
    for answer in ["192.0.2.1", "6.6.6.6, 192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"] {
        seen.push(connection.get("/", &[("x-forwarded-for", answer)]).await.status().as_u16());
    }
    assert_eq!(seen, [200, 429, 200, 200, 429]);
}

#[tokio::test]
async fn values_can_be_kept_silent_and_refusals_reported_otherwise() {
    let layer = RateLimitLayer::new(gate(vec![rule("per-ip", 1, &["ip"])])).headers(false);
    let layer = layer.on_refused(|refusal, parts| {
        let text = format!("{} {:?} {}", parts.method, refusal.reason(), refusal.rules().join(","));
        let mut response = http::Response::new(text.into_bytes());
        *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
        response
    });
    let app = Router::new().route("/", get(async || "hello")).layer(layer);
    let mut connection = Connection::to(serve(app).await).await;
    let first = connection.get("/", &[]).await;
    assert!(!first.headers().contains_key("x-ratelimit-limit"));
    let second = connection.get("/", &[]).await;
    assert_eq!((second.status().as_u16(), second.body().as_str()), (503, "GET Limit per-ip"));
    assert_eq!(second.headers()["retry-after"], "60");
    assert!(!second.headers().contains_key("ratelimit"));
}

/// A mixture of two rules' values would describe neither: the layer nearest to the handler describes its own.
#[tokio::test]
async fn of_two_layers_the_inner_one_tells_its_values() {
    let inner = RateLimitLayer::new(gate(vec![rule("inner", 1, &["ip"])]));
    let outer = RateLimitLayer::new(gate(vec![rule("outer", 9, &["ip"])]));
    let app = Router::new().route("/", get(async || "hello")).layer(inner).layer(outer);
    let mut connection = Connection::to(serve(app).await).await;
    for status in [200, 429] {
        let answer = connection.get("/", &[]).await;
        assert_eq!(answer.status(), status);
        assert_eq!(answer.headers()["x-ratelimit-limit"], "1");
        assert_eq!(answer.headers().get_all("ratelimit").iter().count(), 1);
    }
}
