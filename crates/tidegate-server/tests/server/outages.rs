//! Reports of an outage of the store to operators: in the log, and at `/healthz`.

use crate::process::Server;

const RULE: &str =
    "[[rule]]\nname = \"r\"\nalgorithm = \"sliding_log\"\nlimit = 9\nwindow = \"1d\"\n";

#[tokio::test]
async fn an_outage_is_named_and_measured_in_the_log_and_shown_by_healthz() {
    let mut store = testkit::store::Server::start(&[], &[]);
    let address = format!("store=\"redis://127.0.0.1:{}/0\"", store.port);
    let rules = format!("{RULE}[store]\nurl = \"redis://127.0.0.1:{}\"\n", store.port);
    let mut server = Server::with_rules(&rules);
    let client = server.client();
    let health = async || {
        let answer = client.get("/healthz").await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json()["store"]["state"].clone()
    };
    assert_eq!(health().await, "available");
    store.kill();
    assert_eq!(client.check(r#"{"descriptor": {}}"#).await.status, 200);
    let message = server.logs("the store is unavailable");
    assert!(message.contains(&address), "{message}");
    assert_eq!(health().await, "unavailable");
    store.start_again(&[]);
    let message = server.logs("the store is back");
    assert!(message.contains(&address) && message.contains("outage=\""), "{message}");
    assert_eq!(health().await, "available");
}

#[test]
fn a_server_without_its_store_says_so_and_its_rules_say_what_decides() {
    let server = Server::with_rules(&format!("{RULE}[store]\nurl = \"redis://127.0.0.1:1\"\n"));
    let printed = &server.printed;
    assert!(printed.contains("redis://127.0.0.1:1/0 (unavailable now)"), "{printed}");
    let shown = server.operate(&["rules"]).printed();
    assert!(shown.contains("on_store_error local"), "{shown}");
}
