//! HTTP/1.1 and HTTP/2 on one port, and one limit for both.

use hyper::Method;

use crate::client::Client;
use crate::process::Server;

const BODY: &str = r#"{"descriptor": {"key": "a"}}"#;

#[tokio::test]
async fn http_2_by_prior_knowledge_is_answered_on_the_same_port() {
    let server = Server::with_example();
    let client = Client::http2(server.http);
    let answer = client.check(BODY).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("4"));
    client.check("{").await.problem(400);
    assert_eq!(Client::http2(server.admin).get("/v1/rules").await.status, 200);
}

#[tokio::test]
async fn a_second_protocol_does_not_go_round_the_limit() {
    let server = Server::with_example();
    let (one, two) = (Client::new(server.http), Client::http2(server.http));
    assert_eq!(one.check(BODY).await.json()["remaining"], 4);
    assert_eq!(two.check(BODY).await.json()["remaining"], 3);
}

#[tokio::test]
async fn a_head_request_is_answered_like_a_get_without_a_body() {
    let server = Server::with_example();
    let client = Client::new(server.http);
    let answer = client.send(Method::HEAD, "/healthz", None, Vec::new()).await;
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, ""));
}

#[tokio::test]
async fn a_head_too_large_is_told_so_over_http_2_too() {
    let server = Server::with_example();
    let client = Client::http2(server.http);
    let long = format!("application/json; padding={}", "a".repeat(100_000));
    let body = br#"{"descriptor": {"user": "a"}}"#.to_vec();
    let refused = client.send(Method::POST, "/v1/check", Some(&long), body).await;
    assert!(refused.problem(431).contains("expected at most 65536"), "{}", refused.text);
    assert_eq!(client.get("/healthz").await.status, 200, "the connection goes on");
}
