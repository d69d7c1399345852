//! Reservations that are settled while the store does not answer: they wait for it, and nothing comes back twice.

use serde_json::{Value, json};

use crate::client::Client;
use crate::process::Server;
use crate::store::Store;

const VERBS: &str = "check,peek,reserve,settle";

/// Reservations of 50 units, settled for 5 each.
const MANY: u64 = 16;

const RULES: &str = r#"
rule = [
    { name = "tokens", key = ["user"], algorithm = "sliding_log", rate = "100000/1d" },
]
"#;

fn started(store: &Store) -> Server {
    Server::granting(&store.with(RULES).replace("20s", "100ms"), VERBS)
}

async fn reserve(client: &Client) -> Value {
    loop {
        let answer = client.reserve("ada", 50).await;
        // The store decides, however busy the machine is.
        if answer["degraded"] == false {
            return answer["reservation"].clone();
        }
    }
}

async fn used(client: &Client) -> u64 {
    let body = json!({"descriptor": {"user": "ada"}}).to_string();
    loop {
        let answer = client.post("/v1/peek", &body).await.json();
        if answer["degraded"] == false {
            return 100_000 - answer["remaining"].as_u64().unwrap();
        }
    }
}

/// A settle that was sent, and then given up as though nothing had been, could be repeated, and gave back twice.
#[tokio::test]
async fn settles_wait_for_a_frozen_store_and_give_nothing_back_twice() {
    let store = Store::start();
    let server = started(&store);
    let client = server.client();
    let mut ids = Vec::new();
    for _ in 0..MANY {
        ids.push(reserve(&client).await);
    }
    let before = used(&client).await;
    store.signal("STOP");
    let (mut waiting, mut unknown) = (Vec::new(), 0);
    for id in &ids {
        let answer = client.settle(id, 5).await;
        match answer.status.as_u16() {
            202 => {
                assert_eq!(answer.json()["pending"], true);
                assert_eq!(client.settle(id, 6).await.status, 409, "another cost");
                waiting.push(id);
            }
            200 => {}
            _ => {
                assert!(answer.header("retry-after").is_none(), "{}", answer.text);
                answer.refused(503, "it is unknown whether");
                unknown += 1;
            }
        }
    }
    assert!(!waiting.is_empty(), "{unknown} unknown: once it is unavailable nothing is sent");
    store.signal("CONT");
    while server.metric("tidegate_reservations_pending").await.unwrap() > 0 {}
    let mut settled = 0;
    for id in waiting {
        let answer = client.settle(id, 5).await;
        settled += u64::from(answer.status == 200);
    }
    // Each is settled once, or it is unknown whether it was: at least 5 units of each are used, and 50 at most.
    let used = used(&client).await;
    assert!((5 * MANY..=before).contains(&used), "{used} of {before} used");
    assert!(used <= before - 45 * settled, "{used} of {before} used, {settled} settled since");
}

#[tokio::test]
async fn redis_clients_learn_that_a_settle_waits_and_it_is_given_up_at_the_end() {
    let mut store = Store::start();
    let server = started(&store);
    let client = server.client();
    let body = json!({"descriptor": {"user": "ada"}, "cost": 5, "life_ms": 5_000}).to_string();
    let mut ids = Vec::new();
    while ids.len() < MANY as usize {
        let answer = client.post("/v1/reserve", &body).await.json();
        if let (Value::Bool(false), Some(id)) =
            (&answer["degraded"], answer["reservation"].as_str())
        {
            ids.push(id.to_owned());
        }
    }
    store.kill();
    let mut redis = server.redis();
    let mut answers = Vec::new();
    for id in &ids {
        answers.push(redis::cmd("TG.SETTLE").arg(id).arg(1).query::<String>(&mut redis));
    }
    assert!(answers.iter().any(|one| one.as_deref() == Ok("PENDING")), "{answers:?}");
    let given_up = "tidegate_reservations_ended_total{how=\"given_up\"}";
    while server.metric(given_up).await.unwrap() == 0
        || server.metric("tidegate_reservations_pending").await.unwrap() > 0
    {}
    let last = client.settle(&json!(ids.last()), 1).await;
    // This server has forgotten it, and only the store knows whether its life is over.
    last.refused(503, "nothing was settled");
}
