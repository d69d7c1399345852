//! Decisions: allowed, denied, never, unlimited; several descriptors; shadow rules; a look.

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::envoy_api::Code;
use crate::grpc;
use crate::process::Server;

/// One hour is longer than any test: nothing comes back while one runs.
const RULES: &str = r#"
rule = [
    { name = "per-user", key = ["user"], algorithm = "fixed_window", anchor = "first_request", rate = "3/1h" },
    { name = "per-tenant", key = ["tenant"], algorithm = "token_bucket", rate = "2/1h" },
    { name = "candidate", key = ["tenant"], algorithm = "sliding_log", rate = "1/1h", mode = "shadow" },
    { name = "queue", domain = "jobs", algorithm = "leaky_queue", rate = "4/1h" },
    { name = "free", domain = "free", algorithm = "fixed_window", limit = -1 },
]
"#;

const HOUR_US: u64 = 3_600_000_000;
const FIELDS: [&str; 12] = [
    "at_us",
    "allowed",
    "rule",
    "limit",
    "remaining",
    "retry_after_us",
    "reset_after_us",
    "delay_us",
    "unlimited",
    "degraded",
    "overflow",
    "overloaded",
];

fn server() -> (Server, Client) {
    let server = Server::with_rules(RULES);
    let client = server.client();
    (server, client)
}

/// The names of the fields in the order they are written.
fn fields(answer: &Answer) -> Vec<&str> {
    let top = answer.text.split(",\"shadow\":").next().unwrap();
    let names = top.split([',', '{']).filter_map(|part| part.strip_prefix('"'));
    names.map(|part| part.split('"').next().unwrap()).collect()
}

#[tokio::test]
async fn an_allowed_request_learns_its_values() {
    let (_server, client) = server();
    let answer = client.check(r#"{"descriptor": {"user": "a"}}"#).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("x-ratelimit-limit"), Some("3"));
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("2"));
    assert_eq!(answer.header("ratelimit-policy"), Some("\"per-user\";q=3;w=3600"));
    assert_eq!(answer.header("retry-after"), None);
    assert_eq!(fields(&answer), FIELDS);
    let mut body = answer.json();
    assert!(body["at_us"].take().as_u64() > Some(1_700_000_000_000_000));
    let expected = json!({
        "at_us": null, "allowed": true, "rule": "per-user", "limit": 3, "remaining": 2,
        "retry_after_us": 0, "reset_after_us": HOUR_US, "delay_us": 0,
        "unlimited": false, "degraded": false, "overflow": false, "overloaded": false,
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn a_refusal_is_429_with_a_retry_after_that_is_not_too_early() {
    let (_server, client) = server();
    let taken = client.check(r#"{"descriptor": {"user": "a"}, "cost": 3}"#).await;
    assert_eq!((taken.status.as_u16(), &taken.json()["remaining"]), (200, &json!(0)));
    let refused = client.check(r#"{"descriptor": {"user": "a"}}"#).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("cache-control"), Some("no-store"));
    assert_eq!(fields(&refused), FIELDS);
    let body = refused.json();
    assert_eq!((&body["allowed"], &body["rule"]), (&json!(false), &json!("per-user")));
    let wait = body["retry_after_us"].as_u64().unwrap();
    assert!((1..=HOUR_US).contains(&wait), "{wait}");
    let answer = refused.header("retry-after").unwrap();
    assert_eq!(answer.parse::<u64>().unwrap(), wait.div_ceil(1_000_000));
    let other = client.check(r#"{"descriptor": {"user": "b"}}"#).await;
    assert_eq!(other.status, 200, "another key has a limiter of its own");
}

#[tokio::test]
async fn a_cost_that_never_fits_is_422_and_has_no_retry_after() {
    let (_server, client) = server();
    let answer = client.check(r#"{"descriptor": {"user": "a"}, "cost": 4}"#).await;
    assert_eq!(answer.status, 422);
    assert_eq!(answer.header("retry-after"), None);
    assert_eq!(answer.header("x-ratelimit-limit"), Some("3"));
    let body = answer.json();
    assert_eq!((&body["allowed"], &body["retry_after_us"]), (&json!(false), &Value::Null));
    assert_eq!(body["remaining"], 3, "nothing was taken");
}

#[tokio::test]
async fn what_no_rule_limits_is_unlimited() {
    let (_server, client) = server();
    for body in [
        r#"{"domain": "free", "descriptor": {}}"#,
        r#"{"domain": "nobody's", "descriptor": {"user": "a"}}"#,
        r#"{"descriptor": {"nothing": "matches"}}"#,
    ] {
        let answer = client.check(body).await;
        assert_eq!(answer.status, 200, "{body}");
        assert_eq!(fields(&answer), FIELDS);
        let reported = answer.json();
        assert_eq!(reported["unlimited"], true, "{body}");
        for absent in ["rule", "limit", "remaining"] {
            assert_eq!(reported[absent], Value::Null, "{body}");
        }
        assert_eq!(answer.header("x-ratelimit-limit"), None);
    }
}

#[tokio::test]
async fn a_cost_of_zero_only_asks() {
    let (_server, client) = server();
    for _ in 0..5 {
        let answer = client.check(r#"{"descriptor": {"user": "a"}, "cost": 0}"#).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["remaining"]), (200, &json!(3)));
    }
}

#[tokio::test]
async fn all_descriptors_must_admit_else_none_is_charged() {
    let (_server, client) = server();
    let both = r#"{"descriptors": [{"user": "a"}, {"descriptor": {"tenant": "t"}, "cost": 2}]}"#;
    let first = client.check(both).await;
    assert_eq!((first.status.as_u16(), &first.json()["rule"]), (200, &json!("per-tenant")));
    let second = client.check(both).await;
    assert_eq!((second.status.as_u16(), &second.json()["rule"]), (429, &json!("per-tenant")));
    let user = client.post("/v1/peek", r#"{"descriptor": {"user": "a"}, "cost": 0}"#).await;
    assert_eq!(user.json()["remaining"], 2, "charged once, not twice");
}

#[tokio::test]
async fn the_same_limiter_named_twice_sums_its_costs() {
    let (_server, client) = server();
    let body = r#"{"descriptors": [{"user": "a"}, {"user": "a"}, {"cost": 0, "descriptor": {"user": "a"}}]}"#;
    assert_eq!(client.check(body).await.json()["remaining"], 1);
}

#[tokio::test]
async fn the_cost_beside_descriptors_holds_for_those_that_name_none() {
    let (_server, client) = server();
    let body =
        r#"{"cost": 2, "descriptors": [{"user": "a"}, {"descriptor": {"user": "b"}, "cost": 1}]}"#;
    assert_eq!(client.check(body).await.status, 200);
    for (user, left) in [("a", 1), ("b", 2)] {
        let look = json!({"descriptor": {"user": user}, "cost": 0}).to_string();
        let look = client.post("/v1/peek", &look).await.json();
        assert_eq!(look["remaining"].as_u64().unwrap(), left, "{user}");
    }
}

#[tokio::test]
async fn entries_may_be_called_like_fields() {
    let (_server, client) = server();
    let body = r#"{"descriptors": [{"descriptor": "x", "cost": "y", "user": "a"}]}"#;
    assert_eq!(client.check(body).await.json()["rule"], "per-user");
}

#[tokio::test]
async fn a_shadow_rule_is_reported_and_refuses_nothing() {
    let (_server, client) = server();
    let body = r#"{"descriptor": {"tenant": "t"}}"#;
    let shadow = |answer: &Answer| answer.json()["shadow"][0].clone();
    let first = client.check(body).await;
    assert_eq!(first.status, 200);
    assert_eq!(fields(&first), FIELDS);
    let expected = json!({
        "rule": "candidate", "allowed": true, "limit": 1, "remaining": 0,
        "retry_after_us": 0, "reset_after_us": HOUR_US,
    });
    assert_eq!(shadow(&first), expected);
    let second = client.check(body).await;
    assert_eq!((second.status.as_u16(), &second.json()["rule"]), (200, &json!("per-tenant")));
    assert_eq!(shadow(&second)["allowed"], false);
    assert!(shadow(&second)["retry_after_us"].as_u64() > Some(0));
}

#[tokio::test]
async fn a_peek_answers_like_a_check_and_takes_nothing() {
    let (_server, client) = server();
    let body = r#"{"descriptor": {"user": "a"}, "cost": 3}"#;
    for _ in 0..3 {
        assert_eq!(client.post("/v1/peek", body).await.status, 200);
    }
    assert_eq!(client.check(body).await.status, 200);
    let refused = client.post("/v1/peek", body).await;
    assert_eq!(refused.status, 429);
    assert!(refused.header("retry-after").is_some());
}

#[tokio::test]
async fn a_queue_tells_how_long_to_hold_the_request() {
    let (_server, client) = server();
    let body = r#"{"domain": "jobs", "descriptor": {}}"#;
    assert_eq!(client.check(body).await.json()["delay_us"], 0);
    let held = client.check(body).await.json()["delay_us"].as_u64().unwrap();
    assert!((1..=HOUR_US / 4).contains(&held), "{held}");
}

const CLOSED: &str = r#"
rule = [
    { name = "closed", key = ["user"], algorithm = "sliding_log", limit = 0 },
]
"#;

/// Over HTTP with the fast path and by hyper, and over gRPC; one unit was used before the limit became 0.
#[tokio::test]
async fn a_limit_of_nothing_is_403_and_over_limit_without_a_reset() {
    let server = Server::with_rules(CLOSED);
    let client = server.client();
    for path in ["/v1/check", "/v1/peek"] {
        let answer = client.post(path, r#"{"descriptor": {"user": "a"}}"#).await;
        assert_eq!(answer.status, 403, "{path}: {}", answer.text);
        for name in ["x-ratelimit-reset", "retry-after"] {
            assert_eq!(answer.header(name), None, "{path}");
        }
        assert_eq!(answer.header("ratelimit"), Some("\"closed\";r=0"));
        assert_eq!(
            (&answer.json()["rule"], &answer.json()["limit"]),
            (&json!("closed"), &json!(0))
        );
    }
    let look = client.check(r#"{"descriptor": {"user": "a"}, "cost": 0}"#).await;
    assert_eq!((look.status.as_u16(), look.header("x-ratelimit-reset")), (200, None));
    let mut grpc = grpc::client(&server).await;
    let mut question = grpc::request(vec![grpc::descriptor(&[("user", "a")])]);
    question.domain = "default".to_owned();
    let refused = grpc.should_rate_limit(question).await.unwrap().into_inner();
    assert_eq!(refused.overall_code(), Code::OverLimit);
    assert_eq!(refused.statuses[0].duration_until_reset, None);
    assert!(refused.response_headers_to_add.is_empty());
}
