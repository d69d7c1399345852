//! A server with leases: operators see them, and a server that is stopped gives back the units that it holds.

use serde_json::Value;

use crate::client::Client;
use crate::process::Server;
use crate::store::Store;

const LIMIT: u64 = 4_000;
const ANYBODY: &str = r#"{"descriptor": {"user": "ada"}}"#;

/// A server of one node, whose rule has this lease.
fn started(store: &Store, lease: &str) -> Server {
    let rule = "[[rule]]\nname = \"calls\"\nalgorithm = \"fixed_window\"\n";
    let rules = store.with(&format!("{rule}rate = \"{LIMIT}/1d\"\n{lease}"));
    Server::with_rules(&format!("{rules}nodes = 1\n"))
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
    let server = started(&store, "lease = { max = \"20%\", life = \"1s\" }");
    let client = server.client();
    let mut admitted = 0;
    loop {
        client.check(ANYBODY).await.succeeded();
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
    let other = started(&store, "");
    let answer: Value = other.client().check(ANYBODY).await.json();
    assert_eq!(answer["remaining"], LIMIT - admitted - 1, "{answer}");
}
