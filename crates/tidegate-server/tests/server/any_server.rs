//! Reservations over a store: any of its servers settles, renews or drops them, once, over HTTP and RESP.

use redis::{Value, cmd};
use serde_json::{Value as Json, json};

use crate::client::Answer;
use crate::process::Server;
use crate::store::Store;

const VERBS: &str = "check,peek,reserve,settle";

fn rules(store: &Store, rule: &str) -> String {
    store.with(&format!("[[rule]]\nname = \"tokens\"\nkey = [\"user\"]\n{rule}"))
}

const LOG: &str = "algorithm = \"sliding_log\"\nlimit = 1000\nwindow = \"1d\"";

fn two(store: &Store, rule: &str) -> [Server; 2] {
    [(); 2].map(|()| Server::granting(&rules(store, rule), VERBS))
}

async fn reserve(server: &Server, cost: u64) -> Json {
    let answer = server.client().reserve("ada", cost).await;
    assert_eq!(answer["degraded"], false, "{answer}");
    answer["reservation"].clone()
}

async fn settle(server: &Server, id: &Json, actual: u64) -> Answer {
    server.client().settle(id, actual).await
}

/// A balancer without a sticky route sent the settle elsewhere, and it was answered 404.
#[tokio::test]
async fn any_server_settles_and_of_all_one_does() {
    let store = Store::start();
    let [a, b] = two(&store, LOG);
    let id = reserve(&a, 500).await;
    for _ in 0..2 {
        let settled = settle(&b, &id, 120).await;
        assert_eq!((settled.status.as_u16(), &settled.json()["remaining"]), (200, &json!(880)));
    }
    settle(&b, &id, 121).await.refused(409, "for another cost");
    for _ in 0..2 {
        settle(&a, &id, 120).await.refused(409, "another server");
    }
    for (server, how) in [(&a, "left"), (&b, "settled")] {
        let ended = format!("tidegate_reservations_ended_total{{how=\"{how}\"}}");
        assert_eq!(server.metric(&ended).await, Some(1), "{how}");
        assert_eq!(server.metric("tidegate_reservations").await, Some(0), "{how}");
    }

    // Over RESP, and back.
    let id = reserve(&a, 500).await;
    let settled = b.reply(&["TG.SETTLE", id.as_str().unwrap(), "20"]);
    assert!(settled.contains(&Value::Int(860)), "{settled:?}");
    let id = b.reserve(&["default", "COST", "60", "user", "ada"]);
    let settled = settle(&a, &json!(id), 0).await;
    assert_eq!((settled.status.as_u16(), &settled.json()["remaining"]), (200, &json!(860)));
    let again = a.reply(&["TG.SETTLE", &id, "0"]);
    assert_eq!(again[7], Value::Int(860), "the server that settled it repeats its answer");
    let elsewhere = b.command(&["TG.SETTLE", &id, "0"]).unwrap_err();
    assert!(elsewhere.to_string().contains("another server"), "{elsewhere}");

    // Wrong numbers of costs claim nothing.
    let id = reserve(&a, 10).await;
    assert_eq!(b.client().settle(&id, vec![1, 2]).await.status, 400);
    settle(&a, &id, 10).await.succeeded();
}

#[tokio::test]
async fn a_reservation_outlives_its_server() {
    let store = Store::start();
    let [a, b] = two(&store, LOG);
    let id = reserve(&a, 500).await;
    drop(a);
    assert_eq!(settle(&b, &id, 1).await.json()["remaining"], 999);
}

#[tokio::test]
async fn a_permit_is_renewed_at_one_server_and_returned_at_the_other() {
    let store = Store::start();
    let [a, b] = two(&store, "algorithm = \"concurrency\"\nlimit = 2\nwindow = \"60s\"");
    let id = reserve(&a, 1).await;
    for server in [&b, &a] {
        let renewed = server.client().renew(&id).await;
        assert_eq!(renewed.json()["renewed"], true, "{}", renewed.text);
    }
    assert_eq!(settle(&b, &id, 0).await.json()["remaining"], 2);
    let late = a.client().renew(&id).await;
    assert_eq!(late.json()["renewed"], false);
    assert_eq!(settle(&a, &id, 0).await.status, 409);
}

#[tokio::test]
async fn an_operator_drops_a_reservation_of_another_server() {
    let store = Store::start();
    let [a, b] = two(&store, LOG);
    let id = reserve(&a, 500).await;
    let body = json!({"reservation": id}).to_string();
    let admin = b.operator();
    assert_eq!(admin.post("/v1/drop", &body).await.json()["dropped"], true);
    assert_eq!(settle(&a, &id, 0).await.status, 409);
    assert_eq!(admin.post("/v1/drop", &body).await.status, 409);
    let of_nothing = reserve(&a, 0).await;
    settle(&b, &of_nothing, 0).await.succeeded();
}

/// Units that a server took alone come back to it alone, and it alone knows their reservation.
#[tokio::test]
async fn what_was_reserved_without_the_store_stays_with_its_server() {
    let mut store = Store::start();
    let short = rules(&store, LOG).replace("20s", "100ms");
    let [a, b] = [(); 2].map(|()| Server::granting(&short, VERBS));
    store.kill();
    let reserved = a.client().reserve("ada", 5).await;
    assert_eq!(reserved["degraded"], true, "{reserved}");
    let id = &reserved["reservation"];
    settle(&a, id, 1).await.succeeded();
    // Without the store the other server does not know whether there is such a reservation.
    let elsewhere = settle(&b, id, 1).await;
    assert!(elsewhere.header("retry-after").is_some(), "{}", elsewhere.text);
    elsewhere.refused(503, "nothing was settled");
}

/// A server without room claims nothing, so that another server can settle.
#[tokio::test]
async fn a_server_without_room_leaves_a_reservation_to_the_others() {
    let store = Store::start();
    let a = Server::granting(&rules(&store, LOG), VERBS);
    let small = ["--public-verbs", VERBS, "--reservation-memory", "64KiB"];
    let b = Server::with_rules_and(&rules(&store, LOG), &small);
    let id = reserve(&a, 5).await;
    let client = b.client();
    let body = json!({"descriptor": {"user": "bob"}, "cost": 1}).to_string();
    while client.post("/v1/reserve", &body).await.status == 200 {}
    let full = settle(&b, &id, 1).await;
    assert!(full.header("retry-after").is_some(), "{}", full.text);
    full.refused(503, "no room for a reservation of another server");
    assert_eq!(settle(&a, &id, 1).await.json()["remaining"], 999);
}

async fn reserve_again(server: &Server, life_ms: u64) -> Json {
    let body =
        json!({"descriptor": {"user": "ada"}, "cost": 7, "request_id": "r-1", "life_ms": life_ms});
    server.client().post("/v1/reserve", &body.to_string()).await.json()
}

/// A reply was lost, and the balancer sent the repetition elsewhere: it was admitted without a reservation, and its units
/// stayed taken.
#[tokio::test]
async fn a_reserve_that_is_repeated_at_any_server_is_one_reservation() {
    let store = Store::start();
    let rule = format!("{LOG}\ndedupe = \"1h\"");
    let [a, b] = two(&store, &rule);
    let first = reserve_again(&a, 60_000).await;
    let id = &first["reservation"];
    for server in [&b, &a, &b] {
        assert_eq!(reserve_again(server, 60_000).await, first);
    }
    // As if the first server had ended before it wrote the record.
    let mut redis = redis::Client::open(store.url()).unwrap().get_connection().unwrap();
    let records: Vec<String> = cmd("KEYS").arg("*?reserved").query(&mut redis).unwrap();
    cmd("DEL").arg(&records).exec(&mut redis).unwrap();
    let [c, d] = two(&store, &rule);
    assert_eq!(reserve_again(&c, 60_000).await, first);
    assert_eq!(settle(&d, id, 2).await.json()["remaining"], 998);
    for server in [&a, &b, &c] {
        settle(server, id, 0).await.refused(409, "another server");
    }
    // It is settled, so a further repetition opens none.
    let late = reserve_again(&b, 60_000).await;
    assert_eq!((&late["allowed"], &late["reservation"]), (&json!(true), &json!(null)), "{late}");
}

/// Written again after its end, a settled reservation could be settled a second time.
#[tokio::test]
async fn a_reservation_that_has_ended_is_not_opened_again() {
    let store = Store::start();
    let [a, b] = two(&store, &format!("{LOG}\ndedupe = \"1h\""));
    let first = reserve_again(&a, 1).await;
    let id = &first["reservation"];
    while settle(&b, id, 0).await.status != 404 {}
    // The life of the first counts, not the life that a repetition asks for.
    for (server, life_ms) in [(&a, 1), (&b, 1), (&a, 60_000), (&b, 60_000)] {
        assert_eq!(reserve_again(server, life_ms).await["reservation"], json!(null));
    }
}
