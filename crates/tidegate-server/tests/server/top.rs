//! `GET /v1/top`: the keys that are refused most and asked most, over every listener.

use serde_json::{Value, json};

use crate::client::Client;
use crate::process::Server;
use crate::raw;

const RULES: &str = r#"
rule = [
    { name = "per-user", key = ["user", "path"], algorithm = "fixed_window", rate = "100/1d" },
    { name = "per-card", key = ["card"], algorithm = "fixed_window", rate = "0/1d", mode = "shadow", hide_keys = true },
    { name = "all", algorithm = "fixed_window", rate = "1000000/1d" },
]
"#;

/// Asks so often for an entry, in batches of 1,000.
async fn ask(client: &Client, thousands: usize, descriptor: &str) {
    let one = format!(r#"{{"descriptor": {descriptor}}}"#);
    let batch = format!("[{}]", vec![one; 1_000].join(","));
    for _ in 0..thousands {
        client.check(&batch).await.succeeded();
    }
}

async fn top(server: &Server, query: &str) -> Vec<Value> {
    let answer = server.operator().get(&format!("/v1/top{query}")).await.succeeded();
    let answer = answer.json();
    assert_eq!(answer["sampled_one_in"], 16);
    assert!(answer["since_us"].is_u64());
    answer["keys"].as_array().unwrap().clone()
}

#[tokio::test]
async fn keys_are_reported_by_refusals_and_by_requests_and_hidden_where_a_rule_says_so() {
    let server = Server::with_rules(RULES);
    let public = server.client();
    assert_eq!(top(&server, "").await, Vec::<Value>::new());
    // A gap between two decisions of the sample has at most 30 others, so every thousand has some.
    ask(&public, 4, r#"{"user": "ada", "path": "/a"}"#).await;
    ask(&public, 1, r#"{"user": "bob", "path": "/b", "card": "4111"}"#).await;
    let by_requests = top(&server, "?by=requests&rule=per-user").await;
    assert_eq!(by_requests.len(), 2);
    let first = &by_requests[0];
    assert_eq!((&first["domain"], &first["rule"]), (&json!("default"), &json!("per-user")));
    assert_eq!(
        (&first["key"], &first["error"]),
        (&json!({"user": "ada", "path": "/a"}), &json!(0))
    );
    assert!((4_000 / 31..=4_000).contains(&first["count"].as_u64().unwrap()), "{first}");
    let refused = top(&server, "").await;
    assert_eq!(refused[0]["key"], json!({"user": "ada", "path": "/a"}));
    assert_eq!(refused.len(), 3, "two users, and the card in shadow mode: {refused:?}");
    let card = top(&server, "?rule=per-card&n=1").await;
    let shown = card[0]["key"].as_str().unwrap();
    assert!(shown.len() == 16 && shown.bytes().all(|byte| byte.is_ascii_hexdigit()), "{shown}");
    assert_eq!(top(&server, "?rule=all&by=requests").await, Vec::<Value>::new(), "one key for all");
    assert!(!server.metrics().await.contains("ada"));
}

#[tokio::test]
async fn a_key_with_what_a_terminal_obeys_is_escaped_and_the_same_text_to_a_parser() {
    let server = Server::with_rules(RULES);
    ask(&server.client(), 1, r#"{"user": "\u009b2J\u202e", "path": "/a"}"#).await;
    let answer = server.operator().get("/v1/top").await;
    assert!(answer.text.contains(r"\u009b2J\u202e") && answer.text.is_ascii(), "{}", answer.text);
    assert_eq!(answer.json()["keys"][0]["key"]["user"], "\u{9b}2J\u{202e}");
}

#[tokio::test]
async fn redis_clients_are_counted_too() {
    let server = Server::with_rules(RULES);
    let commands = "TG.CHECK default user eve path /c\r\n".repeat(2_000) + "QUIT\r\n";
    raw::exchange(server.resp, &commands).await;
    let keys = top(&server, "").await;
    assert_eq!(keys[0]["key"], json!({"user": "eve", "path": "/c"}));
}
