//! Rules that let a request wait: the answer waits.

use crate::client::Answer;
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

/// The request of a caller that waits so many milliseconds at most.
fn waiting_at_most(ms: u64) -> String {
    format!(r#"{{"descriptor": {{"key": "a"}}, "max_wait_ms": {ms}}}"#)
}

/// A check that is under way.
fn begun(server: &Server, body: &str) -> tokio::task::JoinHandle<Answer> {
    let (client, body) = (server.client(), body.to_owned());
    tokio::spawn(async move { client.check(&body).await })
}

/// The rule lets all wait, and each caller says that it has the time, or nothing.
#[tokio::test]
async fn all_are_admitted_in_the_end_where_there_is_time_for_all() {
    let server = Server::with_rules(&rule("20ms", "1h", 10));
    for body in [BODY.to_owned(), waiting_at_most(3_600_000)] {
        let answers: Vec<_> = (0..8).map(|_| begun(&server, &body)).collect();
        for answer in answers {
            let answer = answer.await.unwrap().succeeded();
            assert_eq!(answer.json()["delay_us"], 0);
        }
    }
}

/// The unit comes back in an hour: after the wait of the rule, or after the wait of the caller.
#[tokio::test]
async fn a_wait_that_can_only_end_after_its_deadline_is_not_begun() {
    let rejects = rule("1h", "1s", 1).replace("on_excess", "# on_excess");
    for (rules, bodies) in [
        (rule("1h", "1s", 10), vec![BODY.to_owned()]),
        (rule("1h", "2h", 10), [0, 1, 3_000_000].map(waiting_at_most).to_vec()),
        (rejects, vec![waiting_at_most(86_400_000)]),
    ] {
        let (_server, client) = Server::with_client(&rules);
        client.check(&bodies[0]).await.succeeded();
        for body in bodies {
            let refused = client.check(&body).await;
            assert_eq!(refused.status, 429, "{body}: {}", refused.text);
            let reported_us = refused.json()["retry_after_us"].as_u64().unwrap();
            assert!((3_000_000_000..=3_600_000_000).contains(&reported_us), "{reported_us}");
            assert!(refused.header("retry-after").is_some());
        }
    }
}

#[tokio::test]
async fn a_line_holds_so_many_and_moves_when_units_are_given_back() {
    let server = Server::with_rules(&rule("1h", "2h", 1));
    let admin = server.operator();
    server.client().check(BODY).await.succeeded();
    let (mut one, mut other) = (begun(&server, BODY), begun(&server, BODY));
    let (beyond, waits) = tokio::select! {
        ended = &mut one => (ended.unwrap(), other),
        ended = &mut other => (ended.unwrap(), one),
    };
    assert_eq!(beyond.status, 429, "the line has one place: {}", beyond.text);
    let given_back = r#"{"descriptor": {"key": "a"}, "cost": 1}"#;
    admin.post("/v1/refund", given_back).await.succeeded();
    waits.await.unwrap().succeeded();
}
