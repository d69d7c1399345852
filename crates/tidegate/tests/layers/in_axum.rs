//! The layer in a real axum server, over loopback.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Connection, admitted_by, gate, gate_at, rule, to};
use axum::Router;
use axum::extract::connect_info::MockConnectInfo;
use axum::routing::get;
use tidegate::tower::{ClientIp, Entries, RateLimitLayer, header, matched_path};
use tidegate::{Gate, KeyedLimiter, ManualClock, Mode};
use tokio::net::TcpListener;
use tower::ServiceExt;

async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await.unwrap() });
    address
}

/// A connection to a server that knows the addresses of its peers.
async fn connected(app: Router) -> Connection {
    Connection::to(serve(app).await).await
}

/// A connection to a server that does not.
async fn connected_without_address(app: Router) -> Connection {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    Connection::to(address).await
}

/// The statuses of requests for `/` with these fields, one request after the other.
async fn statuses<'a>(
    connection: &mut Connection,
    asked: impl IntoIterator<Item: AsRef<[(&'a str, &'a str)]>>,
) -> Vec<u16> {
    let mut seen = Vec::new();
    for fields in asked {
        seen.push(connection.get("/", fields.as_ref()).await.status().as_u16());
    }
    seen
}

/// Greets at `/`.
fn app() -> Router {
    Router::new().route("/", get(async || "hello"))
}

fn limited(gate: &Arc<Gate<ManualClock>>) -> Router {
    app().layer(RateLimitLayer::new(gate.clone()))
}

/// A library limiter whose state is per clone of the service let 1,500 requests through a limit of 5.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn state_is_not_per_clone_of_the_service() {
    let app = limited(&gate(vec![rule("per-ip", 7, &["ip"])]));
    let servers = [serve(app.clone()).await, serve(app).await];
    assert_eq!(admitted_by(servers, 10).await, 7);
}

#[tokio::test]
async fn a_response_says_how_its_limit_stands_and_a_429_when_to_come_back_and_why() {
    let mut connection = connected(limited(&gate(vec![rule("per-ip", 1, &["ip"])]))).await;
    let admitted = connection.get("/", &[]).await;
    assert_eq!((admitted.status().as_u16(), admitted.body().as_str()), (200, "hello"));
    let fields = [
        ("x-ratelimit-limit", "1"),
        ("x-ratelimit-remaining", "0"),
        ("ratelimit-policy", "\"per-ip\";q=1;w=60"),
        ("ratelimit", "\"per-ip\";r=0;t=60"),
    ];
    for (name, value) in fields {
        assert_eq!(admitted.headers()[name], value, "{name}");
    }
    assert!(!admitted.headers().contains_key("retry-after"));

    let refused = connection.get("/", &[]).await;
    assert_eq!(refused.status(), 429);
    let fields = [
        ("retry-after", "60"),
        ("ratelimit", "\"per-ip\";r=0;t=60"),
        ("content-type", "application/problem+json"),
        ("cache-control", "no-store"),
    ];
    for (name, value) in fields {
        assert_eq!(refused.headers()[name], value, "{name}");
    }
    let problem: serde_json::Value = serde_json::from_str(refused.body()).unwrap();
    assert_eq!(problem["violated-policies"][0], "per-ip");
}

#[tokio::test]
async fn a_cost_that_never_fits_is_422_and_has_no_retry_after() {
    let dear = Entries::new().entry("ip", ClientIp::peer()).cost(|_| 3);
    let layer = RateLimitLayer::new(gate(vec![rule("per-ip", 2, &["ip"])])).descriptor(dear);
    let answer = connected(app().layer(layer)).await.get("/", &[]).await;
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
            let mut connection = connected_without_address(app().layer(layer)).await;
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
    let mut connection = connected_without_address(limited(&gate)).await;
    assert_eq!(statuses(&mut connection, [[]; 3]).await, [200, 200, 429]);
    assert_eq!(gate.counts().keys, 1, "the rule on trial has no limiter that strangers share");
}

#[tokio::test]
async fn a_key_that_falls_back_on_an_address_needs_one_only_then() {
    let who = || Entries::new().entry("key", header("x-key").unwrap());
    let limiter = || Arc::new(KeyedLimiter::new("1/h").unwrap());
    let layer = RateLimitLayer::keyed(limiter(), who().entry("ip", ClientIp::peer()));
    let mut connection = connected_without_address(app().layer(layer)).await;
    let asked = [vec![("x-key", "a")], vec![("x-key", "a")], vec![]];
    assert_eq!(statuses(&mut connection, asked).await, [200, 429, 500]);
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
    let app = || limited(&gate(vec![rule("per-ip", 1, &["ip"])]));
    let mock = || MockConnectInfo(SocketAddr::from(([192, 0, 2, 1], 4_000)));
    let service = app().layer(mock());
    for status in [200, 429] {
        assert_eq!(service.clone().oneshot(to("/")).await.unwrap().status(), status);
    }
    let mut connection = connected(app().layer(mock())).await;
    assert_eq!(statuses(&mut connection, [[]; 2]).await, [200, 429]);
}

#[tokio::test]
async fn the_seconds_of_a_body_are_those_of_the_header() {
    for (past, seconds) in [(Duration::ZERO, "60"), (Duration::from_millis(59_001), "1")] {
        let clock = ManualClock::new();
        let gate = gate_at(&clock, vec![rule("all", 1, &[])]);
        let layer = RateLimitLayer::new(gate.clone()).on_refused(|refusal, _| {
            let text = refusal.retry_after_seconds().unwrap().to_string();
            let mut response = http::Response::new(text.into_bytes());
            *response.status_mut() = refusal.status();
            response
        });
        assert!(gate.admits(&[]));
        clock.advance(past);
        let answer = connected(app().layer(layer)).await.get("/", &[]).await;
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
    let mut connection = connected(app).await;
    let mut seen = Vec::new();
    for path in ["/users/1", "/users/2", "/users/3", "/nowhere"] {
        seen.push(connection.get(path, &[]).await.status().as_u16());
    }
    assert_eq!(seen, [200, 200, 429, 404]);
    assert_eq!(gate.counts().keys, 1);
}

#[tokio::test]
async fn a_forged_header_gives_no_fresh_limit() {
    let mut connection = connected(limited(&gate(vec![rule("per-ip", 1, &["ip"])]))).await;
    let forged = ["1.1.1.1", "2.2.2.2", "3.3.3.3"];
    let forged = forged.map(|ip| [("x-forwarded-for", ip), ("x-real-ip", ip)]);
    let seen = statuses(&mut connection, forged).await;
    assert_eq!(seen, [200, 429, 429]);
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
    let mut connection = connected(app().layer(layer)).await;
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
    let app = app().layer(inner).layer(outer);
    let mut connection = connected(app).await;
    for status in [200, 429] {
        let answer = connection.get("/", &[]).await;
        assert_eq!(answer.status(), status);
        assert_eq!(answer.headers()["x-ratelimit-limit"], "1");
        assert_eq!(answer.headers().get_all("ratelimit").iter().count(), 1);
    }
}
