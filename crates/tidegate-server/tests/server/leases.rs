//! A server with leases: operators see them, and a server that is stopped gives back the units that it holds.

use serde_json::Value;

use crate::client::Client;
use crate::process::Server;
use crate::store::Store;

const LIMIT: u64 = 4_000;
const ANYBODY: &str = r#"{"descriptor": {"user": "ada"}}"#;

fn rules(lease: &str, url: &str) -> String {
    format!(
        "[[rule]]\nname = \"calls\"\nalgorithm = \"fixed_window\"\nrate = \"{LIMIT}/1d\"\n{lease}\n[store]\n\
         url = \"{url}\"\ntimeout = \"20s\"\nnodes = 1\n"
    )
}

/// Units that were leased, that were spent, and that are held.
async fn leased(client: &Client) -> [u64; 3] {
    let health = client.get("/healthz").await.json();
    let count = |name: &str| health["store"][name].as_u64().unwrap();
    let [taken, spent] = ["leased", "leased_spent"].map(count);
    [taken, spent, taken - spent - count("leased_returned") - count("leased_expired")]
}

#[tokio::test]
async fn a_server_that_is_stopped_gives_back_what_it_leased() {
    let store = Store::start();
    let server =
        Server::with_rules(&rules("lease = { max = \"20%\", life = \"1s\" }", &store.url()));
    let client = server.client();
    let mut admitted = 0;
    loop {
        assert_eq!(client.check(ANYBODY).await.status, 200);
        admitted += 1;
        let [_, spent, held] = leased(&client).await;
        if spent > 0 && held > 0 {
            break;
        }
    }
    let metrics = server.metrics().await;
    for what in ["taken", "spent", "returned", "expired"] {
        let line = format!("tidegate_leased_units_total{{what=\"{what}\"}} ");
        assert!(metrics.contains(&line), "{metrics}");
    }
    server.signal("TERM");
    assert_eq!(server.end_unread(), Some(0));
    let other = Server::with_rules(&rules("", &store.url()));
    let answer: Value = other.client().check(ANYBODY).await.json();
    assert_eq!(answer["remaining"], LIMIT - admitted - 1, "{answer}");
}
