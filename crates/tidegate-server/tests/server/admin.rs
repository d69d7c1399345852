//! The operators' requests: reset, refund, the rules in force; and health, on both listeners.

use std::path::Path;

use serde_json::json;

use crate::client::Client;
use crate::process::Server;

const RULES: &str = r#"
revision = 7

[[rule]]
name = "per-user"
when = { plan = "free", path = "api/*" }
key = ["user", "path"]
match = "exact"
algorithm = "token_bucket"
limit = 3
window = "1h"
capacity = 5
max_keys = 20_000
on_full = "refuse"
on_excess = { wait = "2s", max_waiters = 7 }
on_store_error = "local"
hash_tag = "user"
dedupe = "10s"
across_slots = true
limit_from_request = true

[[rule.override]]
match = { user = "vip" }
limit = 100
capacity = 10

[[rule]]
name = "all"
domain = "open"
algorithm = "fixed_window"
anchor = "first_request"
limit = -1
mode = "off"

[[rule]]
name = "parts"
domain = "more"
key = ["user"]
algorithm = "sliding_window"
rate = "8/1s"
buckets = 4
strict = true
max_debt = 5
max_memory = "1MiB"
max_life = "1m"
near = 0.75
hide_keys = true

[[rule]]
name = "start"
domain = "more"
algorithm = "token_bucket"
rate = "8/1s"
initial = 3

[[rule]]
name = "times"
domain = "more"
algorithm = "sliding_log"
rate = "8/1s"
resolution = "10ms"
layout = "sorted_set"

[memory]
max_keys = 2_000_000
"#;

const ASKED: &str = r#"{"descriptor": {"plan": "free", "path": "api/x", "user": "a"}, "cost": 4}"#;

fn server() -> (Server, Client, Client) {
    let server = Server::with_rules(RULES);
    let (public, admin) = (server.client(), server.operator());
    (server, public, admin)
}

#[tokio::test]
async fn a_reset_makes_limiters_new_and_says_how_many() {
    let (_server, public, admin) = server();
    public.check(ASKED).await.succeeded();
    assert_eq!(public.check(ASKED).await.status, 429);
    let reset = admin.post("/v1/reset", &ASKED.replace(r#", "cost": 4"#, "")).await;
    assert_eq!(
        (reset.status.as_u16(), reset.json()),
        (200, json!({"reset": 1, "rules": ["per-user"]}))
    );
    assert_eq!(public.check(ASKED).await.json()["remaining"], 1);
    let none = admin.post("/v1/reset", r#"{"descriptor": {"user": "a"}}"#).await;
    assert_eq!(none.json(), json!({"reset": 0, "rules": []}));
}

/// None of them changes anything.
#[tokio::test]
async fn what_means_nothing_to_a_reset_or_a_refund_is_refused() {
    let (_server, public, admin) = server();
    public.check(ASKED).await.succeeded();
    let with = |field: &str| ASKED.replace("\"cost\": 4", field);
    for (path, body, expected) in [
        ("/v1/reset", ASKED.to_owned(), "`cost` means nothing to a reset"),
        ("/v1/reset", with("\"max_wait_ms\": 1"), "`max_wait_ms` means nothing to a reset"),
        ("/v1/refund", with("\"max_wait_ms\": 1"), "`max_wait_ms` means nothing to a refund"),
        ("/v1/reset", with("\"request_id\": \"a\""), "request_id"),
        ("/v1/refund", with("\"request_id\": \"a\""), "request_id"),
        ("/v1/reset", format!("[{ASKED}]"), "the body is an array"),
        ("/v1/refund", format!("[{ASKED}]"), "the body is an array"),
    ] {
        let detail = admin.post(path, &body).await.problem(400);
        assert!(detail.contains(expected), "{path} {body}: {detail}");
    }
    assert_eq!(public.check(ASKED).await.status, 429, "nothing was reset");
}

#[tokio::test]
async fn a_refund_gives_units_back_and_never_more_than_were_used() {
    let (_server, public, admin) = server();
    assert_eq!(public.check(ASKED).await.json()["remaining"], 1);
    for _ in 0..2 {
        let refund = admin.post("/v1/refund", ASKED).await;
        assert_eq!(refund.status, 200);
        let answer = refund.json();
        assert_eq!((&answer["rule"], &answer["remaining"]), (&json!("per-user"), &json!(5)));
    }
}

#[tokio::test]
async fn the_rules_in_force_are_reported_in_the_words_of_a_configuration() {
    let (_server, _public, admin) = server();
    let answer = admin.get("/v1/rules").await;
    assert_eq!(answer.status, 200);
    let expected = json!({"revision": 7, "rules": [
        {
            "domain": "default", "name": "per-user", "mode": "enforce", "match": "exact",
            "when": {"plan": "free", "path": "api/*"}, "key": ["user", "path"],
            "algorithm": "token_bucket", "limit": 3, "window_us": 3_600_000_000_u64, "capacity": 5,
            "max_keys": 20_000, "on_full": "refuse", "on_excess": {"wait_us": 2_000_000, "max_waiters": 7},
            "on_store_error": "local", "dedupe_us": 10_000_000, "hash_tag": "user",
            "across_slots": true, "limit_from_request": true, "usage": "requested",
            "overrides": [{"match": {"user": "vip"}, "limit": 100, "capacity": 10}],
        },
        {
            "domain": "open", "name": "all", "mode": "off", "match": "subset",
            "when": {}, "key": [], "algorithm": "fixed_window", "limit": -1,
            "anchor": "first_request", "on_full": "share", "on_excess": "reject",
            "on_store_error": "local", "usage": "requested", "overrides": [],
        },
        {
            "domain": "more", "name": "parts", "mode": "enforce", "match": "subset", "when": {}, "key": ["user"],
            "algorithm": "sliding_window", "limit": 8, "window_us": 1_000_000, "buckets": 4, "strict": true,
            "max_memory": 1_048_576, "max_debt": 5, "on_full": "share", "on_excess": "reject", "usage": "requested",
            "on_store_error": "local", "max_life_us": 60_000_000, "near": 0.75, "hide_keys": true, "overrides": [],
        },
        {
            "domain": "more", "name": "start", "mode": "enforce", "match": "subset", "when": {}, "key": [],
            "algorithm": "token_bucket", "limit": 8, "window_us": 1_000_000, "initial": 3, "on_full": "share",
            "on_excess": "reject", "usage": "requested", "on_store_error": "local", "overrides": [],
        },
        {
            "domain": "more", "name": "times", "mode": "enforce", "match": "subset", "when": {}, "key": [],
            "algorithm": "sliding_log", "limit": 8, "window_us": 1_000_000, "resolution_us": 10_000,
            "layout": "sorted_set", "on_full": "share", "on_excess": "reject", "usage": "requested",
            "on_store_error": "local", "overrides": [],
        },
    ], "memory": {"max_keys": 2_000_000}, "reloads": {"succeeded": 0, "failed": 0, "refused": 0}});
    let mut shown = answer.json();
    let file = shown.as_object_mut().unwrap().remove("file").unwrap();
    assert!(Path::new(file.as_str().unwrap()).is_file(), "{file}");
    assert_eq!(shown, expected);
    assert!(answer.text.contains(r#""when":{"plan":"free","path":"api/*"}"#), "in file order");
}

#[tokio::test]
async fn both_listeners_tell_their_health_and_asking_takes_nothing() {
    let (_server, public, admin) = server();
    for client in [&public, &admin] {
        for _ in 0..10 {
            let health = client.get("/healthz").await;
            assert_eq!((health.status.as_u16(), health.json()), (200, json!({"status": "ok"})));
        }
    }
    // The probe looks at the limiter of these entries.
    let probed = r#"{"descriptor": {"plan": "free", "path": "api/demo", "user": "demo"}}"#;
    assert_eq!(public.check(probed).await.json()["remaining"], 4);
}
