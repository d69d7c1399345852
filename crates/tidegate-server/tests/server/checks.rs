//! Decisions: allowed, denied, never, unlimited; several descriptors; shadow rules; a look.

use serde_json::{Value, json};

use crate::client::Answer;
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
const FIELDS: &str = "at_us allowed rule limit remaining retry_after_us reset_after_us delay_us \
                      unlimited degraded overflow overloaded";

/// The names of the fields in the order they are written.
fn fields(answer: &Answer) -> String {
    let top = answer.text.split(",\"shadow\":").next().unwrap();
    let names = top.split([',', '{']).filter_map(|part| part.strip_prefix('"'));
    names.map(|part| part.split('"').next().unwrap()).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn an_allowed_request_learns_its_values() {
    let (_server, client) = Server::with_client(RULES);
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
    let (_server, client) = Server::with_client(RULES);
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
}

/// Questions in their order, the status of each answer, and some of its fields.
const QUESTIONS: [(&str, &str, u16, &str); 20] = [
    // A cost that never fits takes nothing.
    (
        "check",
        r#"{"descriptor": {"user": "never"}, "cost": 4}"#,
        422,
        r#"{"allowed": false, "limit": 3, "remaining": 3, "retry_after_us": null}"#,
    ),
    ("check", r#"{"domain": "free", "descriptor": {}}"#, 200, UNLIMITED),
    ("check", r#"{"domain": "nobody's", "descriptor": {"user": "a"}}"#, 200, UNLIMITED),
    ("check", r#"{"descriptor": {"nothing": "matches"}}"#, 200, UNLIMITED),
    // A cost of 0 only asks.
    ("check", r#"{"descriptor": {"user": "zero"}, "cost": 0}"#, 200, r#"{"remaining": 3}"#),
    ("check", r#"{"descriptor": {"user": "zero"}, "cost": 0}"#, 200, r#"{"remaining": 3}"#),
    // All descriptors admit, or none is charged.
    ("check", BOTH, 200, r#"{"rule": "per-tenant"}"#),
    ("check", BOTH, 429, r#"{"rule": "per-tenant", "allowed": false}"#),
    ("peek", r#"{"descriptor": {"user": "both"}, "cost": 0}"#, 200, r#"{"remaining": 2}"#),
    // A limiter that is named twice sums its costs.
    (
        "check",
        r#"{"descriptors": [{"user": "sum"}, {"user": "sum"}, {"cost": 0, "descriptor": {"user": "sum"}}]}"#,
        200,
        r#"{"remaining": 1}"#,
    ),
    // The cost next to the descriptors holds for descriptors without a cost.
    (
        "check",
        r#"{"cost": 2, "descriptors": [{"user": "two"}, {"descriptor": {"user": "one"}, "cost": 1}]}"#,
        200,
        "{}",
    ),
    ("peek", r#"{"descriptor": {"user": "two"}, "cost": 0}"#, 200, r#"{"remaining": 1}"#),
    ("peek", r#"{"descriptor": {"user": "one"}, "cost": 0}"#, 200, r#"{"remaining": 2}"#),
    // Entries may have the names of fields.
    (
        "check",
        r#"{"descriptors": [{"descriptor": "x", "cost": "y", "user": "named"}]}"#,
        200,
        r#"{"rule": "per-user"}"#,
    ),
    // A peek answers like a check and takes nothing.
    ("peek", r#"{"descriptor": {"user": "look"}, "cost": 3}"#, 200, r#"{"remaining": 3}"#),
    ("peek", r#"{"descriptor": {"user": "look"}, "cost": 3}"#, 200, r#"{"remaining": 3}"#),
    ("check", r#"{"descriptor": {"user": "look"}, "cost": 3}"#, 200, r#"{"remaining": 0}"#),
    ("peek", r#"{"descriptor": {"user": "look"}, "cost": 3}"#, 429, r#"{"allowed": false}"#),
    ("check", r#"{"descriptor": {"user": "other"}}"#, 200, r#"{"remaining": 2}"#),
    ("check", r#"{"domain": "jobs", "descriptor": {}}"#, 200, r#"{"delay_us": 0}"#),
];
const UNLIMITED: &str = r#"{"unlimited": true, "rule": null, "limit": null, "remaining": null}"#;
const BOTH: &str =
    r#"{"descriptors": [{"user": "both"}, {"descriptor": {"tenant": "both"}, "cost": 2}]}"#;

#[tokio::test]
async fn each_question_has_its_status_its_fields_and_a_retry_after_only_if_it_is_refused() {
    let (_server, client) = Server::with_client(RULES);
    for (verb, body, status, expected) in QUESTIONS {
        let answer = client.post(&format!("/v1/{verb}"), body).await;
        assert_eq!(answer.status, status, "{body}: {}", answer.text);
        assert_eq!(answer.header("retry-after").is_some(), status == 429, "{body}");
        let reported = answer.json();
        let limit = reported["limit"].as_u64().map(|limit| limit.to_string());
        assert_eq!(answer.header("x-ratelimit-limit"), limit.as_deref(), "{body}");
        assert!(verb == "peek" || fields(&answer) == FIELDS, "{body}: {}", answer.text);
        let expected: Value = serde_json::from_str(expected).unwrap();
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(reported[name], *value, "{name} of {body}: {}", answer.text);
        }
    }
    // A queue tells how long to hold the request.
    let held = client.check(r#"{"domain": "jobs", "descriptor": {}}"#).await.json();
    assert!((1..=HOUR_US / 4).contains(&held["delay_us"].as_u64().unwrap()), "{held}");
}

#[tokio::test]
async fn a_shadow_rule_is_reported_and_refuses_nothing() {
    let (_server, client) = Server::with_client(RULES);
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

const CLOSED: &str = r#"
rule = [
    { name = "closed", key = ["user"], algorithm = "sliding_log", limit = 0 },
]
"#;

/// Over HTTP with the fast path and by hyper, and over gRPC; one unit was used before the limit became 0.
#[tokio::test]
async fn a_limit_of_nothing_is_403_and_over_limit_without_a_reset() {
    let (server, client) = Server::with_client(CLOSED);
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
    let question = grpc::request_in("default", vec![grpc::descriptor(&[("user", "a")])]);
    let refused = grpc.should_rate_limit(question).await.unwrap().into_inner();
    assert_eq!(refused.overall_code(), Code::OverLimit);
    assert_eq!(refused.statuses[0].duration_until_reset, None);
    assert!(refused.response_headers_to_add.is_empty());
}
