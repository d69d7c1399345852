//! Rules that let a request wait: the answer waits.

use crate::client::{Answer, Client};
use crate::process::Server;

const BODY: &str = r#"{"descriptor": {"key": "a"}}"#;

fn rule(window: &str, wait: &str, max_waiters: usize) -> String {
    format!(
        r#"
[[rule]]
name = "patient"
key = ["key"]
algorithm = "token_bucket"
limit = 1
window = "{window}"
on_excess = {{ wait = "{wait}", max_waiters = {max_waiters} }}
"#
    )
}

/// A check that is under way.
fn begun(server: &Server) -> tokio::task::JoinHandle<Answer> {
    let client = Client::new(server.http);
    tokio::spawn(async move { client.check(BODY).await })
}

#[tokio::test]
async fn all_are_admitted_in_the_end_where_there_is_time_for_all() {
    let server = Server::with_rules(&rule("20ms", "1h", 10));
    let answers: Vec<_> = (0..8).map(|_| begun(&server)).collect();
    for answer in answers {
        let answer = answer.await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!(answer.json()["delay_us"], 0);
    }
}

#[tokio::test]
async fn a_wait_that_can_only_end_after_its_deadline_is_not_begun() {
    let server = Server::with_rules(&rule("1h", "1s", 10));
    let client = Client::new(server.http);
    assert_eq!(client.check(BODY).await.status, 200);
    let refused = client.check(BODY).await;
    assert_eq!(refused.status, 429);
    let told_us = refused.json()["retry_after_us"].as_u64().unwrap();
    assert!((3_000_000_000..=3_600_000_000).contains(&told_us), "{told_us}");
    assert!(refused.header("retry-after").is_some());
}

#[tokio::test]
async fn a_line_holds_so_many_and_moves_when_units_are_given_back() {
    let server = Server::with_rules(&rule("1h", "2h", 1));
    let admin = Client::new(server.admin);
    assert_eq!(Client::new(server.http).check(BODY).await.status, 200);
    let (mut one, mut other) = (begun(&server), begun(&server));
    let (beyond, waits) = tokio::select! {
        ended = &mut one => (ended.unwrap(), other),
        ended = &mut other => (ended.unwrap(), one),
    };
    assert_eq!(beyond.status, 429, "the line has one place: {}", beyond.text);
    let given_back = r#"{"descriptor": {"key": "a"}, "cost": 1}"#;
    assert_eq!(admin.post("/v1/refund", given_back).await.status, 200);
    let admitted = waits.await.unwrap();
    assert_eq!(admitted.status, 200, "{}", admitted.text);
}
