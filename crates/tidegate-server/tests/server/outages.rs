//! Reports of an outage of the store to operators: in the log, at `/healthz`, and in the metrics.

use crate::process::{Server, value};

const RULE: &str =
    "[[rule]]\nname = \"r\"\nalgorithm = \"sliding_log\"\nlimit = 9\nwindow = \"1d\"\n";

#[tokio::test]
async fn an_outage_is_named_and_measured_in_the_log_and_shown_by_healthz_and_metrics() {
    let mut store = testkit::store::Server::start(&[], &[]);
    let address = format!("store=\"redis://127.0.0.1:{}/0\"", store.port);
    let rules = format!("{RULE}[store]\nurl = \"redis://127.0.0.1:{}\"\n", store.port);
    let (mut server, client) = Server::with_client(&rules);
    let admin = server.operator();
    let is_shown = async |state: &str| {
        let metrics = admin.get("/metrics").await.text;
        for one in ["available", "unavailable"] {
            let series = format!("tidegate_store_state{{state=\"{one}\"}}");
            assert_eq!(value(&metrics, &series), Some(u64::from(one == state)), "{metrics}");
        }
        // It asks for a decision as well.
        let answer = client.get("/healthz").await.succeeded();
        assert_eq!(answer.json()["store"]["state"], state);
        metrics
    };
    is_shown("available").await;
    store.kill();
    client.check(r#"{"descriptor": {}}"#).await.succeeded();
    server.logs_with("the store is unavailable", &[&address]);
    let metrics = is_shown("unavailable").await;
    for series in [
        r#"tidegate_degraded_requests_total{cause="unavailable"}"#,
        r#"tidegate_rule_decisions_total{domain="default",rule="r",outcome="allowed"}"#,
    ] {
        assert_eq!(value(&metrics, series), Some(1), "{metrics}");
    }
    store.start_again(&[]);
    server.logs_with("the store is back", &[&address, "outage=\""]);
    is_shown("available").await;
}

#[test]
fn a_server_without_its_store_says_so_and_its_rules_say_what_decides() {
    let server = Server::with_rules(&format!("{RULE}[store]\nurl = \"redis://127.0.0.1:1\"\n"));
    let printed = &server.printed;
    assert!(printed.contains("redis://127.0.0.1:1/0 (unavailable now)"), "{printed}");
    let shown = server.operate(&["rules"]).printed();
    assert!(shown.contains("on_store_error local"), "{shown}");
}
