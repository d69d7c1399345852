//! A gateway to language models: it looks before a request, and reports the tokens afterwards.

use super::proxy::Envoy;
use super::{get, header, number, until_left};
use crate::client::Client;
use crate::process::Server;

/// The rule of the documents.
const RULES: &str = r#"
[[rule]]
name = "tokens"
domain = "ai"
key = ["user"]
algorithm = "sliding_window"
limit = 1000
window = "1h"
usage = "reported"
"#;

#[test]
fn the_documents_show_this_rule() {
    let document = include_str!("../../../../../docs/envoy.md");
    assert!(document.contains(RULES.trim()));
}

#[tokio::test]
async fn tokens_are_reported_past_the_limit_and_the_next_request_is_refused() {
    let server = Server::with_rules(RULES);
    let envoy = Envoy::ai_gateway(&server).await;
    let (client, own) = (Client::new(envoy.at), server.client());
    let peek = r#"{"domain": "ai", "descriptor": {"user": "ada"}, "cost": 0}"#;
    for left in [700, 400, 100, 0] {
        get(&client, "/tokens/300", "ada").await.succeeded();
        until_left(&own, peek, left).await;
    }
    let refused = get(&client, "/tokens/300", "ada").await;
    assert_eq!(refused.status, 429);
    assert_eq!(header(&refused, "x-ratelimit-remaining"), "0");
    assert!(number(&refused, "retry-after") > 0);
    assert_eq!(envoy.upstream.served(), 4, "a refused request is not run, and reports nothing");
}

#[tokio::test]
async fn an_answer_without_a_number_reports_nothing() {
    let server = Server::with_rules(RULES);
    let envoy = Envoy::ai_gateway(&server).await;
    let (client, own) = (Client::new(envoy.at), server.client());
    let peek = r#"{"domain": "ai", "descriptor": {"user": "ada"}, "cost": 0}"#;
    for (path, left) in [("/other", 1000), ("/tokens/5", 995), ("/other", 995), ("/tokens/6", 989)]
    {
        get(&client, path, "ada").await.succeeded();
        until_left(&own, peek, left).await;
    }
}
