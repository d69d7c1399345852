//! The layers by a header field, by a function of the request, and for all requests together.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{hello, to};
use axum::body::Body;
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode};
use tidegate::tower::{Entries, RateLimitLayer, Reason, Refusal, header};
use tidegate::{
    AlgorithmKind, Gate, Jitter, KeyedLimiter, ManualClock, OnNoRule, Policy, RuleSpec, Spec,
};
use tower::{Layer, ServiceExt, service_fn};

/// Values that a caller may send.
const VALUES: [&[u8]; 12] = [
    "jürgen".as_bytes(),
    b"j\xfcrgen",
    "🦀".as_bytes(),
    b"%FF",
    b"\xff",
    b"\xff\xfe",
    b"a\tb",
    br"\xff",
    br"CORP\ada",
    "\u{202e}nimda".as_bytes(),
    "\u{61c}".as_bytes(),
    &[0xfe; 60 << 10],
];

/// One unit an hour.
fn limiter() -> Arc<KeyedLimiter<ManualClock>> {
    let spec = Spec::per_hour(1).algorithm(AlgorithmKind::SlidingLog);
    Arc::new(KeyedLimiter::with_clock(spec, ManualClock::new()).unwrap())
}

async fn ask(layer: &RateLimitLayer, request: Request<Body>) -> Response<()> {
    layer.layer(service_fn(hello)).oneshot(request).await.unwrap().map(drop)
}

fn with_key(value: Option<&[u8]>) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    let value = value.map(|value| HeaderValue::from_bytes(value).unwrap());
    value.into_iter().for_each(|value| _ = request.headers_mut().insert("x-api-key", value));
    request
}

#[tokio::test]
async fn a_value_with_an_umlaut_matches_no_rule_and_passes_ten_of_ten() {
    let rule = RuleSpec::new("per-user", "3/h").key(["user"]);
    let gate = Arc::new(Gate::new(Policy::new(vec![rule]).unwrap()));
    let who = Entries::new().entry("user", header("x-api-key").unwrap());
    let layer = RateLimitLayer::new(gate).descriptor(who);
    for value in VALUES.into_iter().chain([&b""[..]]) {
        let mut passed = 0;
        for _ in 0..10 {
            passed += u32::from(ask(&layer, with_key(Some(value))).await.status() == 200);
        }
        assert_eq!(
            passed,
            3,
            "{}",
            value.escape_ascii().take(40).map(char::from).collect::<String>()
        );
    }
}

#[tokio::test]
async fn a_request_that_no_rule_matches_is_refused_where_that_is_chosen() {
    for (on_no_rule, status) in [(OnNoRule::Admit, 200), (OnNoRule::Refuse, 403)] {
        let rule = RuleSpec::new("per-user", "3/h").key(["user"]);
        let policy = Policy::new(vec![rule]).unwrap().with_on_no_rule(on_no_rule);
        let who = Entries::new().entry("user", header("x-api-key").unwrap());
        let layer = RateLimitLayer::new(Arc::new(Gate::new(policy))).descriptor(who);
        let answer = ask(&layer, with_key(None)).await;
        assert_eq!(answer.status(), status);
        let reason = answer.extensions().get::<Refusal>().map(Refusal::reason);
        assert_eq!(reason, (status == 403).then_some(Reason::NoRule));
        if let Some(refusal) = answer.extensions().get::<Refusal>() {
            let problem: serde_json::Value =
                serde_json::from_slice(refusal.to_problem().body()).unwrap();
            let expected = "no rule matches the request, and such requests are refused";
            assert_eq!(problem["detail"], expected);
        }
        assert_eq!(ask(&layer, with_key(Some(b"ada"))).await.status(), 200);
    }
}

#[tokio::test]
async fn values_of_any_bytes_are_keys_of_their_own() {
    let layer = RateLimitLayer::per_header("X-Api-Key", limiter()).unwrap();
    for status in [200, 429] {
        for value in VALUES {
            let answer = ask(&layer, with_key(Some(value))).await;
            assert_eq!(answer.status(), status, "{}", value.len());
        }
    }
}

#[tokio::test]
async fn a_field_left_out_is_no_way_round_the_limit_and_takes_nothing_from_who_sends_it() {
    let layer = RateLimitLayer::per_header("X-Api-Key", limiter()).unwrap();
    let asked: [(Option<&[u8]>, u16); 6] = [
        (None, 200),
        (None, 429),
        (Some(b""), 429),
        (Some(b"ada"), 200),
        (Some(b"ada"), 429),
        (Some(b"bob"), 200),
    ];
    for (value, status) in asked {
        assert_eq!(ask(&layer, with_key(value)).await.status(), status, "{value:?}");
    }
    let refused = ask(&layer, with_key(None)).await;
    assert_eq!(refused.extensions().get::<Refusal>().unwrap().rules(), ["per-key"]);
    assert_eq!(refused.headers()["retry-after"], "3600");
}

#[tokio::test]
async fn the_key_is_what_a_function_finds_in_the_request() {
    let tenant = |parts: &Parts| parts.uri.path().split('/').nth(1).map(str::to_owned);
    let limiter = limiter();
    let layer = RateLimitLayer::per_key(tenant, limiter.clone()).unwrap();
    for (path, status) in [("/a/1", 200), ("/a/2", 429), ("/b/1", 200), ("/", 200), ("/", 429)] {
        assert_eq!(ask(&layer, to(path)).await.status(), status, "{path}");
    }
    assert_eq!(limiter.keys(), 3);
    assert!(!limiter.admits("b", 1), "the program asks about the same keys");
}

#[tokio::test]
async fn all_requests_together_have_one_limit() {
    let layer = RateLimitLayer::global(Spec::per(2, Duration::from_secs(3_600))).unwrap();
    for (path, status) in [("/a", 200), ("/b", 200), ("/c", 429)] {
        let answer = ask(&layer, to(path)).await;
        assert_eq!(answer.status(), status, "{path}");
        assert_eq!(answer.headers()["ratelimit-policy"], "\"global\";q=2;w=3600");
    }
}

#[tokio::test]
async fn a_free_response_gives_the_unit_back_to_the_limiter_that_requests_without_a_key_share() {
    let layer = RateLimitLayer::per_header("x-api-key", limiter()).unwrap();
    let layer = layer.charge_when(|response| response.status == StatusCode::UNAUTHORIZED);
    for _ in 0..3 {
        assert_eq!(ask(&layer, with_key(None)).await.headers()["x-ratelimit-remaining"], "1");
    }
}

#[tokio::test]
async fn jitter_makes_no_wait_shorter_nor_longer_than_by_its_bound() {
    let jitter = Jitter::up_to(Duration::from_secs(1_000));
    let layer = RateLimitLayer::global(limiter()).unwrap().jitter(jitter);
    let admitted = ask(&layer, to("/")).await;
    assert!(!admitted.headers().contains_key("retry-after"));
    let mut waits = Vec::new();
    for _ in 0..20 {
        let refused = ask(&layer, to("/")).await;
        let field: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
        let wait = refused.extensions().get::<Refusal>().unwrap().retry_after().unwrap();
        assert_eq!(field, wait.as_micros().div_ceil(1_000_000) as u64);
        assert!((3_600..=4_600).contains(&field), "{field}");
        assert_eq!(refused.headers()["ratelimit"], "\"global\";r=0;t=3600");
        waits.push(wait);
    }
    waits.dedup();
    assert!(waits.len() > 10, "{waits:?}");
    let never = RateLimitLayer::global("0/s").unwrap().jitter(jitter);
    assert!(!ask(&never, to("/")).await.headers().contains_key("retry-after"));
}

#[test]
fn a_wrong_name_or_rate_is_an_error() {
    let name = RateLimitLayer::per_header("x api key", "1/s").unwrap_err().to_string();
    assert_eq!(name, "no header field can have the name \"x api key\"");
    let rate = RateLimitLayer::per_header("x-api-key", "1 a second").unwrap_err().to_string();
    assert!(rate.contains("is not a rate"), "{rate}");
    RateLimitLayer::global(Spec::per_second(2_000_000_000)).unwrap_err();
    RateLimitLayer::per_key(|_: &Parts| None, "fast").unwrap_err();
}
