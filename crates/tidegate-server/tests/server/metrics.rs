//! `GET /metrics`: the counts of each listener and each rule, and the right to read them.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::client::Client;
use crate::envoy_api::Code;
use crate::grpc::{self, descriptor, request, request_in};
use crate::process::{Server, value};
use crate::raw;
use crate::store::Store;

const RULES: &str = r#"
rule = [
    { name = "per-user", key = ["user"], algorithm = "fixed_window", limit = 2, window = "365d" },
    { name = "tried", key = ["user"], algorithm = "fixed_window", limit = 1, window = "365d", mode = "shadow" },
]
"#;

async fn metrics(server: &Server) -> String {
    let answer = server.operator().get("/metrics").await;
    assert_eq!(answer.status, 200);
    let kind = answer.header("content-type").unwrap();
    assert!(kind.starts_with("application/openmetrics-text; version=1.0.0"), "{kind}");
    assert!(answer.text.ends_with("# EOF\n"), "{}", answer.text);
    answer.text
}

/// The numbers of requests of a listener: allowed, refused, never, errors, and how many were timed.
async fn counted(server: &Server, listener: &str) -> [u64; 5] {
    let text = metrics(server).await;
    let of = |outcome: &str| {
        let labels = format!(r#"{{listener="{listener}",outcome="{outcome}"}}"#);
        value(&text, &format!("tidegate_requests_total{labels}")).unwrap()
    };
    let timed = format!(r#"tidegate_request_duration_seconds_count{{listener="{listener}"}}"#);
    [of("allowed"), of("refused"), of("never"), of("error"), value(&text, &timed).unwrap()]
}

/// Over HTTP in each of its ways, over RESP except for pings, and over gRPC.
#[tokio::test]
async fn each_request_counts_once_at_its_listener() {
    let server = Server::with_rules(RULES);
    let ask = json!({"descriptor": {"user": "ada"}}).to_string();
    for client in [server.client(), Client::http2(server.http)] {
        client.check(&ask).await.succeeded();
    }
    let client = server.client();
    assert_eq!(client.check(&ask).await.status, 429);
    assert_eq!(client.post("/v1/peek", &ask).await.status, 429);
    assert_eq!(client.check("{}").await.status, 400);
    let never = json!({"descriptor": {"user": "bob"}, "cost": 3}).to_string();
    client.check(&format!("[{ask},{never}]")).await.succeeded();
    assert_eq!(counted(&server, "http").await, [2, 2, 1, 1, 4]);
    let nobody = json!({"descriptor": {"User": "ada"}}).to_string();
    client.check(&nobody).await.succeeded();
    let unlimited = r#"tidegate_requests_total{listener="http",outcome="unlimited"}"#;
    assert_eq!(value(&metrics(&server).await, unlimited), Some(1));

    let sent = "PING\r\nTG.CHECK default user eve\r\nTG.CHECK default user eve\r\n\
                TG.CHECK default user eve\r\nTG.PEEK default user eve\r\nTG.CHECK default user\r\n\
                CL.THROTTLE ada 0 1 86400 1\r\nCL.THROTTLE ada 0 1 86400 1\r\nQUIT\r\n";
    raw::exchange(server.resp, sent).await;
    assert_eq!(counted(&server, "resp").await, [3, 2, 0, 1, 5]);
    let accepted = r#"tidegate_connections_accepted_total{listener="resp"}"#;
    assert_eq!(value(&metrics(&server).await, accepted), Some(1));

    let mut grpc = grpc::client(&server).await;
    for _ in 0..3 {
        let asked = request_in("default", vec![descriptor(&[("user", "gus")])]);
        grpc.should_rate_limit(asked).await.unwrap();
    }
    let refused = grpc.should_rate_limit(request(Vec::new())).await.unwrap().into_inner();
    assert_eq!(refused.overall_code(), Code::OverLimit, "it is not understood");
    assert_eq!(counted(&server, "grpc").await, [2, 1, 0, 1, 3]);
}

/// A check, a reply and a count; a rule without `near` has none of them.
#[tokio::test]
async fn a_rule_that_is_near_its_end_marks_answers_and_counts_them() {
    let server = Server::with_rules(&RULES.replace("limit = 2", "limit = 4, near = 0.75"));
    let ask = json!({"descriptor": {"user": "ada"}}).to_string();
    let client = server.client();
    let mut near = Vec::new();
    for _ in 0..3 {
        near.push(client.check(&ask).await.json().get("near").cloned());
    }
    assert_eq!(near, [None, None, Some(json!(true))]);
    let redis = redis::Client::open(format!("redis://{}/?protocol=resp3", server.resp)).unwrap();
    let mut redis = redis.get_connection().unwrap();
    for (verb, is_near) in [("TG.PEEK", true), ("TG.CHECK", true), ("TG.CHECK", false)] {
        let message: std::collections::HashMap<String, redis::Value> =
            redis::cmd(verb).arg(&["default", "user", "ada"]).query(&mut redis).unwrap();
        let expected = is_near.then_some(redis::Value::Boolean(true));
        assert_eq!(message.get("near"), expected.as_ref(), "{message:?}");
    }
    let text = metrics(&server).await;
    let counted = value(&text, "tidegate_rule_near_total{domain=\"default\",rule=\"per-user\"}");
    assert_eq!(counted, Some(2));
    assert!(!text.contains("tidegate_rule_near_total{domain=\"default\",rule=\"tried\"}"));
}

#[tokio::test]
async fn a_store_is_shown_with_its_calls() {
    let store = Store::start();
    // No answer is late, however slow the machine.
    let server = Server::with_rules(&store.with(RULES));
    let ask = json!({"descriptor": {"user": "ada"}}).to_string();
    server.client().check(&ask).await.succeeded();
    let sent = "CL.THROTTLE ada 0 1 86400 1\r\nTG.CHECK default user bob\r\n\
                TG.PEEK default user bob\r\nCL.THROTTLE ada 0 none 86400 1\r\nQUIT\r\n";
    raw::exchange(server.resp, sent).await;
    assert_eq!(counted(&server, "resp").await, [2, 0, 0, 1, 2], "commands that wait for it");
    let text = metrics(&server).await;
    assert!(value(&text, "tidegate_store_call_duration_seconds_count").unwrap() > 0);
    // The server itself asks the store now and then.
    let began = Instant::now();
    while value(&metrics(&server).await, "tidegate_store_calls_under_way") != Some(0) {
        assert!(began.elapsed() < Duration::from_secs(60), "a call is under way for ever");
    }
    assert!(!text.contains("tidegate_rule_keys"), "its keys are in the store");
    let allowed =
        r#"tidegate_rule_decisions_total{domain="default",rule="per-user",outcome="allowed"}"#;
    assert_eq!(value(&text, allowed), Some(2));
}
