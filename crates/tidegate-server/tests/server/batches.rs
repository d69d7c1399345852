//! An array of questions gets an array of decisions, in order, each made by itself.

use serde_json::{Value, json};

use crate::client::Answer;
use crate::process::Server;

/// One hour is longer than any test: nothing comes back while one runs.
const RULES: &str = r#"
rule = [
    { name = "per-user", key = ["user"], algorithm = "token_bucket", rate = "2/1h", on_excess = { wait = "2h", max_waiters = 10 } },
    { name = "jobs", domain = "jobs", key = [], algorithm = "token_bucket", rate = "5/1h" },
]
"#;

fn user(name: &str) -> Value {
    json!({"descriptor": {"user": name}})
}

/// For each decision, true if it was allowed, and the remaining units.
fn answered(answer: &Answer) -> Vec<(bool, Option<u64>)> {
    assert_eq!(answer.status, 200, "{}", answer.text);
    let body = answer.json();
    let each = body.as_array().unwrap().iter();
    each.map(|one| (one["allowed"].as_bool().unwrap(), one["remaining"].as_u64())).collect()
}

#[tokio::test]
async fn each_is_decided_by_itself_and_in_order() {
    let (_server, client) = Server::with_client(RULES);
    let jobs = json!({"domain": "jobs", "descriptors": [{}, {}], "cost": 2});
    let batch = json!([user("a"), user("b"), user("a"), user("a"), jobs, jobs, {"descriptor": {}}]);
    let answer = client.check(&batch.to_string()).await;
    let (yes, no) = (|left| (true, Some(left)), (false, Some(0)));
    let expected = [yes(1), yes(1), yes(0), no, yes(1), (false, Some(1)), (true, None)];
    assert_eq!(answered(&answer), expected, "one that is refused refuses no other");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("x-ratelimit-limit"), None, "the figures are in the body");
}

#[tokio::test]
async fn an_element_says_what_the_same_question_alone_is_answered() {
    let (_server, client) = Server::with_client(RULES);
    let alone = client.post("/v1/peek", &user("a").to_string()).await.json();
    let batch = client.post("/v1/peek", &json!([user("a")]).to_string()).await.json();
    let names = |of: &Value| of.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&batch[0]), names(&alone));
    assert_eq!(
        answered(&client.post("/v1/peek", &json!([user("a"), user("a")]).to_string()).await),
        [(true, Some(2)), (true, Some(2))]
    );
}

#[tokio::test]
async fn a_mistake_anywhere_takes_nothing_anywhere_and_1000_are_the_most() {
    let (_server, client) = Server::with_client(RULES);
    let batch = json!([user("a"), {"domain": "", "descriptor": {}}]);
    let detail = client.check(&batch.to_string()).await.problem(400);
    assert!(detail.starts_with("question 2 of the batch: `domain` is empty"), "{detail}");
    let more = json!(vec![user("a"); 1001]);
    client
        .check(&more.to_string())
        .await
        .refused(400, "has 1001 questions, and at most 1000 are taken");
    let waits = json!([{"descriptor": {"user": "a"}, "max_wait_ms": 0}]).to_string();
    assert_eq!(answered(&client.check(&waits).await), [(true, Some(1))]);
    let most = json!(vec![user("a"); 1000]);
    let allowed = answered(&client.check(&most.to_string()).await);
    assert_eq!(allowed.iter().filter(|(allowed, _)| *allowed).count(), 1);
}
