//! Many concurrent clients on one limit.

use crate::client::Client;
use crate::process::Server;

const RULES: &str = r#"
rule = [
    { name = "hundred", key = ["user"], algorithm = "sliding_log", rate = "100/1h" },
]
"#;
const BODY: &str = r#"{"descriptor": {"user": "a"}}"#;
const TASKS: usize = 8;
const EACH: usize = 200;

/// Sends many concurrent requests over both protocols; returns the number that is admitted.
async fn admitted(server: &Server) -> usize {
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| match task % 2 {
            0 => server.client(),
            _ => Client::http2(server.http),
        })
        .map(|client| tokio::spawn(one(client)))
        .collect();
    let mut admitted = 0;
    for task in tasks {
        admitted += task.await.unwrap();
    }
    admitted
}

async fn one(client: Client) -> usize {
    let mut admitted = 0;
    for _ in 0..EACH {
        match client.check(BODY).await.status.as_u16() {
            200 => admitted += 1,
            429 => {}
            other => panic!("status {other}"),
        }
    }
    admitted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_at_once_are_admitted_up_to_the_limit_and_not_one_more() {
    let server = Server::with_rules(RULES);
    assert_eq!(admitted(&server).await, 100);
}
