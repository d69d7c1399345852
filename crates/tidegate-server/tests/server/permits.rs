//! Permits of `concurrency` over HTTP and RESP, in memory and in a store: reserved with a token, renewed, returned, and
//! told when it is too late.

use std::time::Duration;

use redis::Value;
use serde_json::{Value as Json, json};
use tokio::time::sleep;

use crate::process::Server;
use crate::store::Store;

fn rules(life: &str) -> String {
    format!(
        r#"
[[rule]]
name = "jobs"
key = ["user"]
algorithm = "concurrency"
limit = 2
window = "{life}"

[[rule]]
name = "calls"
algorithm = "sliding_log"
limit = 1000
window = "1d"
"#
    )
}

fn granting(rules: &str) -> Server {
    Server::granting(rules, "check,reserve,settle")
}

/// Takes both permits, returns one, renews the other.
async fn taken_renewed_and_returned(server: &Server) {
    let client = server.client();
    let (one, two) = (client.reserve("ada", 1).await, client.reserve("ada", 1).await);
    let token = |reserved: &Json| {
        let permits = reserved["permits"].as_array().unwrap();
        assert_eq!((permits.len(), &permits[0]["rule"]), (1, &json!("jobs")));
        permits[0]["token"].as_u64().unwrap()
    };
    assert!(token(&two) > token(&one));
    let refused = client.reserve("ada", 1).await;
    assert_eq!((&refused["allowed"], refused.get("permits")), (&json!(false), None));
    for _ in 0..2 {
        let renewed = client.renew(&one["reservation"]).await;
        assert_eq!((renewed.status.as_u16(), renewed.json()), (200, json!({"renewed": true})));
    }
    let settled = client.settle(&one["reservation"], 7).await.json();
    assert_eq!((&settled["rule"], &settled["remaining"]), (&json!("jobs"), &json!(1)));
    let late = client.renew(&one["reservation"]).await;
    assert_eq!(late.json(), json!({"renewed": false}), "it was returned");
    assert!(token(&client.reserve("ada", 1).await) > token(&two));
    client.renew(&json!("0".repeat(32))).await.problem(404);
    client.post("/v1/renew", "{}").await.problem(400);
}

#[tokio::test]
async fn permits_are_taken_renewed_and_returned_in_memory_and_in_a_store() {
    let store = Store::start();
    for rules in [rules("1h"), store.with(&rules("1h"))] {
        taken_renewed_and_returned(&granting(&rules)).await;
    }
}

#[tokio::test]
async fn a_permit_comes_back_by_itself_and_who_renews_late_is_reported() {
    let mut server = granting(&rules("50ms"));
    let client = server.client();
    let late = client.reserve("ada", 1).await;
    let mut last = client.reserve("ada", 1).await;
    for _ in 0..2 {
        let next = loop {
            let next = client.reserve("ada", 1).await;
            if next["allowed"] == true {
                break next;
            }
            sleep(Duration::from_micros(next["retry_after_us"].as_u64().unwrap())).await;
        };
        last = next;
    }
    assert!(last["permits"][0]["token"].as_u64() > late["permits"][0]["token"].as_u64());
    for _ in 0..8 {
        let answer = client.renew(&late["reservation"]).await.json();
        assert_eq!(answer, json!({"renewed": false}));
    }
    server.logs("permits are renewed too late");
    let calls = client.post("/v1/reserve", r#"{"descriptor": {"team": "a"}}"#).await.json();
    let answer = client.renew(&calls["reservation"]).await.json();
    assert_eq!(answer, json!({"renewed": true}), "it has no permit");
    server.logs("permits are renewed in time again");
    for (outcome, renewals) in [("late", 8), ("renewed", 1)] {
        let series = format!("tidegate_renewals_total{{outcome=\"{outcome}\"}}");
        assert_eq!(server.metric(&series).await, Some(renewals), "{outcome}");
    }
}

#[tokio::test]
async fn redis_clients_have_permits_as_well_and_whoever_may_settle_may_renew() {
    let server = granting(&rules("1h"));
    let reply = server.reply(&["TG.RESERVE", "default", "user", "ada"]);
    let [.., Value::BulkString(name), Value::BulkString(id), Value::BulkString(permits), list] =
        &reply[..]
    else {
        panic!("{reply:?}")
    };
    assert_eq!((&name[..], &permits[..]), (&b"reservation"[..], &b"permits"[..]));
    assert!(format!("{list:?}").contains("jobs"), "{list:?}");
    let id = std::str::from_utf8(id).unwrap();
    let renewed = || server.command(&["TG.RENEW", id]).unwrap();
    assert_eq!(renewed(), Value::Int(1));
    server.command(&["TG.SETTLE", id, "1"]).unwrap();
    assert_eq!(renewed(), Value::Int(0));
    let unknown = server.command(&["TG.RENEW", "nothing"]).unwrap_err();
    assert!(unknown.to_string().contains("32 hexadecimal digits"), "{unknown}");

    let without = Server::with_rules_and(&rules("1h"), &["--public-verbs", "check,reserve"]);
    without.client().renew(&json!(id)).await.refused(403, "`settle`");
}

#[tokio::test]
async fn a_repeated_answer_names_no_permit_that_was_returned() {
    let server = granting(
        "[[rule]]\nname = \"jobs\"\nkey = [\"user\"]\nalgorithm = \"concurrency\"\nlimit = 2\nwindow = \"1h\"\n\
         dedupe = \"1m\"\n",
    );
    let client = server.client();
    let body = json!({"descriptor": {"user": "ada"}, "request_id": "job-1"}).to_string();
    let first = client.post("/v1/reserve", &body).await.json();
    let again = client.post("/v1/reserve", &body).await.json();
    assert!(first["permits"].is_array());
    assert_eq!(again["reservation"], first["reservation"]);
    assert_eq!(again["permits"], first["permits"]);
    client.settle(&first["reservation"], 1).await.succeeded();
    let late = client.post("/v1/reserve", &body).await.json();
    assert_eq!((&late["allowed"], &late["remaining"]), (&json!(true), &json!(1)), "as at first");
    assert_eq!((late.get("reservation"), late.get("permits")), (None, None), "{late}");
}
