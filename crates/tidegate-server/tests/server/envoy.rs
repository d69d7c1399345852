//! Real Envoy in front of a service, limited through the gRPC listener.

mod ai_gateway;
pub(crate) mod proxy;
mod upstream;

use std::time::Duration;

use proxy::{Envoy, FailureMode};

use crate::client::{Answer, Client};
use crate::process::Server;

const RULES: &str = r#"
[[rule]]
name = "per-user"
domain = "edge"
key = ["user"]
algorithm = "sliding_log"
limit = 3
window = "1h"
on_store_error = "open"

[[rule]]
name = "ten-seconds"
domain = "edge"
key = ["ten"]
algorithm = "sliding_log"
limit = 5
window = "10s"

[[rule]]
name = "bytes"
domain = "edge"
key = ["bytes"]
algorithm = "token_bucket"
limit = 1000
window = "1d"

[[rule]]
name = "closed"
domain = "edge"
key = ["closed"]
algorithm = "sliding_log"
limit = 3
window = "1h"
on_store_error = "closed"

[[rule]]
name = "load"
domain = "edge"
key = ["load"]
algorithm = "fixed_window"
limit = 1234
window = "1d"
anchor = "first_request"
"#;

/// A request through the proxy.
async fn get(client: &Client, path: &str, entry: &str) -> Answer {
    client.get_with(path, &[("x-user", entry)]).await
}

fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    answer.header(name).unwrap_or_else(|| panic!("no {name}: {:?}", answer.headers))
}

fn number(answer: &Answer, name: &str) -> u64 {
    header(answer, name).parse().unwrap_or_else(|_| panic!("{name}: {:?}", answer.headers))
}

/// The remaining units of the limiter of `peek`.
async fn left(own: &Client, peek: &str) -> u64 {
    own.post("/v1/peek", peek).await.json()["remaining"].as_u64().unwrap()
}

/// Waits until this many units are left: usage that is reported when a stream is done comes after
/// the answer.
async fn until_left(own: &Client, peek: &str, expected: u64) {
    let mut last = None;
    let answer = async {
        while last != Some(expected) {
            tokio::time::sleep(Duration::from_millis(5)).await;
            last = Some(left(own, peek).await);
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(30), answer).await.is_ok();
    assert!(in_time, "{expected} were to be left after 30 s, and it was {last:?}");
}

#[tokio::test]
async fn who_is_over_gets_429_with_the_values() {
    let server = Server::with_rules(RULES);
    let envoy = Envoy::before(&server, FailureMode::Allow).await;
    let client = Client::new(envoy.at);
    for left in ["2", "1", "0"] {
        let answer = get(&client, "/user", "ada").await;
        assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, "upstream"));
        assert_eq!(header(&answer, "x-ratelimit-limit"), "3, 3;w=3600;name=\"per-user\"");
        assert_eq!(header(&answer, "x-ratelimit-remaining"), left);
        assert!((3590..=3600).contains(&number(&answer, "x-ratelimit-reset")));
        assert_eq!(
            (answer.header("x-envoy-ratelimited"), answer.header("retry-after")),
            (None, None)
        );
    }
    let refused = get(&client, "/user", "ada").await;
    assert_eq!(refused.status, 429);
    assert_eq!(header(&refused, "x-envoy-ratelimited"), "true");
    assert_eq!(header(&refused, "x-ratelimit-remaining"), "0");
    let (reset, retry) = (number(&refused, "x-ratelimit-reset"), number(&refused, "retry-after"));
    assert!(
        (3500..=3600).contains(&retry) && (3500..=3600).contains(&reset),
        "{:?}",
        refused.headers
    );
    assert_eq!(get(&client, "/user", "bob").await.status, 200, "another key");
}

#[tokio::test]
async fn a_wait_that_is_reported_is_never_too_short() {
    let server = Server::with_rules(RULES);
    let envoy = Envoy::before(&server, FailureMode::Allow).await;
    let client = Client::new(envoy.at);
    let first = get(&client, "/ten", "ada").await;
    assert_eq!(header(&first, "x-ratelimit-limit"), "5, 5;w=10;name=\"ten-seconds\"");
    let mut last = first;
    while last.status == 200 {
        last = get(&client, "/ten", "ada").await;
    }
    let peek = r#"{"domain": "edge", "descriptor": {"ten": "ada"}}"#;
    let own = server.client().check(peek).await;
    let later = own.json()["retry_after_us"].as_u64().unwrap();
    // The proxy got its answer earlier, when the wait was longer.
    let answer = number(&last, "retry-after") * 1_000_000;
    assert!(answer >= later, "told {answer} us, and later it were {later}");
}

#[tokio::test]
async fn header_fields_of_the_service_reach_the_caller() {
    let server = Server::with_rules_and(RULES, &["--grpc-headers", "ratelimit"]);
    let envoy = Envoy::before(&server, FailureMode::Allow).await;
    let client = Client::new(envoy.at);
    for (status, left) in [(200, 2), (200, 1), (200, 0), (429, 0)] {
        let answer = get(&client, "/user", "ada").await;
        assert_eq!(answer.status, status);
        assert_eq!(header(&answer, "ratelimit-policy"), r#""per-user";q=3;w=3600"#);
        let expected = format!(r#""per-user";r={left};t="#);
        assert!(header(&answer, "ratelimit").starts_with(&expected), "{:?}", answer.headers);
    }
}

#[tokio::test]
async fn a_retry_after_is_reported_by_the_service_or_by_the_proxy_and_never_twice() {
    let silent = [("enable_retry_after_header: true", "enable_retry_after_header: false")];
    let tells = ["--grpc-headers", "retry-after"];
    for (service, proxy, times) in [
        (&[][..], &silent[..], 0),
        (&tells[..], &silent[..], 1),
        (&[][..], &[][..], 1),
        (&tells[..], &[][..], 1),
    ] {
        let server = Server::with_rules_and(RULES, service);
        let envoy = Envoy::before_and(&server, FailureMode::Allow, proxy).await;
        let client = Client::new(envoy.at);
        for _ in 0..3 {
            let admitted = get(&client, "/user", "ada").await;
            assert_eq!((admitted.status.as_u16(), admitted.header("retry-after")), (200, None));
        }
        let refused = get(&client, "/user", "ada").await;
        assert_eq!(refused.status, 429);
        let answer = refused.headers.get_all("retry-after").iter().count();
        assert_eq!(answer, times, "{service:?} {proxy:?}: {:?}", refused.headers);
        if times > 0 {
            assert!((3500..=3600).contains(&number(&refused, "retry-after")));
        }
    }
}

#[tokio::test]
async fn a_report_at_the_end_of_a_stream_takes_and_a_refund_gives_back() {
    let server = Server::granting(RULES, "check,peek,grpc-refund");
    let envoy = Envoy::before(&server, FailureMode::Allow).await;
    let (client, own) = (Client::new(envoy.at), server.client());
    let peek = r#"{"domain": "edge", "descriptor": {"bytes": "ada"}}"#;
    let left = async || left(&own, peek).await;
    get(&client, "/spend", "ada").await.succeeded();
    assert_eq!(left().await, 600, "400 hits by configuration");
    get(&client, "/refund", "ada").await.succeeded();
    assert_eq!(left().await, 900, "300 given back");
    get(&client, "/report", "ada").await.succeeded();
    // As many as the answer has bytes: `upstream`.
    until_left(&own, peek, 892).await;
    get(&client, "/refund", "ada").await.succeeded();
    assert_eq!(left().await, 1000, "never more than all");
}

#[tokio::test]
async fn a_service_that_is_away_lets_all_through_or_nobody() {
    for (mode, status) in [(FailureMode::Allow, 200), (FailureMode::Deny, 500)] {
        let server = Server::with_rules(RULES);
        let envoy = Envoy::before(&server, mode).await;
        let client = Client::new(envoy.at);
        for expected in [200, 200, 200, 429] {
            assert_eq!(get(&client, "/user", "ada").await.status, expected);
        }
        server.signal("KILL");
        server.end();
        assert_eq!(get(&client, "/user", "ada").await.status, status, "{mode:?}");
    }
}

/// A store at an address where nothing listens.
const AWAY: &str = "\n[store]\nurl = \"redis://127.0.0.1:1\"\ntimeout = \"20ms\"\n";

#[tokio::test]
async fn a_store_that_is_away_denies_where_a_rule_is_closed_whatever_the_proxy_does_then() {
    let rules = format!("{RULES}{AWAY}");
    for (unavailable, mode, closed) in [
        ("over-limit", FailureMode::Allow, 429),
        ("over-limit", FailureMode::Deny, 429),
        ("error", FailureMode::Allow, 200),
        ("error", FailureMode::Deny, 500),
    ] {
        let server = Server::with_rules_and(&rules, &["--grpc-unavailable", unavailable]);
        let envoy = Envoy::before(&server, mode).await;
        let client = Client::new(envoy.at);
        assert_eq!(get(&client, "/closed", "ada").await.status, closed, "{unavailable} {mode:?}");
        let open = get(&client, "/user", "ada").await;
        assert_eq!((open.status.as_u16(), open.header("x-ratelimit-limit")), (200, None));
    }
}

#[tokio::test]
async fn ten_thousand_requests_under_load_are_counted_exactly() {
    let server = Server::with_rules(RULES);
    let envoy = Envoy::before(&server, FailureMode::Deny).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let client = Client::new(envoy.at);
        tasks.spawn(async move {
            let mut counts = [0_u32; 2];
            for _ in 0..200 {
                match get(&client, "/load", "ada").await.status.as_u16() {
                    200 => counts[0] += 1,
                    429 => counts[1] += 1,
                    other => panic!("{other}"),
                }
            }
            counts
        });
    }
    let answer = tasks.join_all().await;
    let sum = |place: usize| answer.iter().map(|answer| answer[place]).sum::<u32>();
    assert_eq!((sum(0), sum(1)), (1234, 10_000 - 1234));
    assert_eq!(envoy.upstream.served(), 1234, "no refused request got through");
}
