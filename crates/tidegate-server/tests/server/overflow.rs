//! A rule without room for more keys: the answer reports it, and no limited key is forgotten.

use serde_json::json;

use crate::client::{Answer, Client};
use crate::process::Server;

/// The rules hold one key each; one hour is longer than any test.
const RULES: &str = r#"
rule = [
    { name = "shares", key = ["user"], algorithm = "fixed_window", anchor = "first_request", rate = "2/1h", max_keys = 1 },
    { name = "refuses", domain = "strict", key = ["user"], algorithm = "sliding_log", rate = "2/1h", max_keys = 1, on_full = "refuse" },
]
"#;

const HOUR_US: u64 = 3_600_000_000;

async fn ask(client: &Client, domain: &str, user: &str) -> Answer {
    let body = json!({"domain": domain, "descriptor": {"user": user}});
    client.check(&body.to_string()).await
}

/// The status, true if it has `overflow`, and the remaining units.
fn answered(answer: &Answer) -> (u16, bool, u64) {
    let body = answer.json();
    let overflow = body["overflow"].as_bool().unwrap();
    (answer.status.as_u16(), overflow, body["remaining"].as_u64().unwrap())
}

#[tokio::test]
async fn keys_beyond_the_cap_share_one_limiter_or_are_asked_to_come_back_a_window_later() {
    let (_server, client) = Server::with_client(RULES);
    for (domain, user, expected) in [
        ("default", "a", (200, false, 1)),
        ("default", "b", (200, true, 1)),
        ("default", "c", (200, true, 0)),
        ("default", "d", (429, true, 0)),
        ("default", "a", (200, false, 0)),
        ("default", "a", (429, false, 0)),
        ("strict", "a", (200, false, 1)),
        ("strict", "b", (429, true, 0)),
        ("strict", "a", (200, false, 0)),
    ] {
        let answer = ask(&client, domain, user).await;
        assert_eq!(answered(&answer), expected, "{domain} {user}");
    }
    let refused = ask(&client, "strict", "b").await;
    assert_eq!(refused.header("retry-after"), Some("3600"));
    let body = refused.json();
    assert_eq!(body["retry_after_us"], HOUR_US);
    assert_eq!((&body["degraded"], &body["rule"]), (&json!(false), &json!("refuses")));
}
