//! Units that are reserved before work and settled after it, over HTTP and RESP, in memory and in a store.

use redis::Value;
use serde_json::{Value as Json, json};

use crate::client::Client;
use crate::process::{Server, run_in};
use crate::store::Store;

const RULES: &str = r#"
rule = [
    { name = "tokens", key = ["user"], algorithm = "sliding_log", rate = "1000/1d", dedupe = "10s" },
    { name = "calls", when = { kind = "call" }, key = ["user"], algorithm = "sliding_log", rate = "10/1d" },
]
"#;

/// The verbs of a client that reserves.
const VERBS: &str = "check,peek,reserve,settle";

fn granting(rules: &str) -> (Server, Client) {
    let server = Server::granting(rules, VERBS);
    let client = server.client();
    (server, client)
}

const UNKNOWN: &str = "00000000000000000000000000000000";

/// The id in the answer to a reserve.
fn id(reserved: &Json) -> &Json {
    assert_eq!(reserved["reservation"].as_str().map(str::len), Some(32), "{reserved}");
    &reserved["reservation"]
}

/// In memory and in a store: settled for less, for more and not at all.
#[tokio::test]
async fn a_reservation_is_settled_for_what_it_cost() {
    let store = Store::start();
    for rules in [RULES, &store.with(RULES)] {
        let (_server, client) = granting(rules);
        let reserve = json!({"descriptor": {"user": "ada"}, "cost": 500}).to_string();
        let first = client.post("/v1/reserve", &reserve).await;
        assert_eq!((first.status.as_u16(), &first.json()["remaining"]), (200, &json!(500)));
        assert!(first.header("x-ratelimit-limit").is_some());
        let first = first.json();
        for _ in 0..2 {
            let settled = client.settle(id(&first), 120).await.succeeded();
            let answer = settled.json();
            assert_eq!((&answer["rule"], &answer["remaining"]), (&json!("tokens"), &json!(880)));
            assert_eq!((&answer["settled"], &answer["cut"]), (&json!(120), &json!(0)));
        }
        let other = client.settle(id(&first), 121).await.problem(409);
        let expected = "for another cost: for 120 in all, and this settle says 121";
        assert!(other.contains(expected), "{other}");
        let second = client.reserve("ada", 500).await;
        let debt = client.settle(id(&second), 2_000).await.json();
        assert_eq!((&debt["remaining"], &debt["allowed"]), (&json!(0), &json!(true)), "into debt");
        let refused = client.post("/v1/reserve", &reserve).await;
        assert_eq!((refused.status.as_u16(), refused.json().get("reservation")), (429, None));
    }
}

#[tokio::test]
async fn units_that_a_settlement_cuts_or_that_a_rule_keeps_because_it_is_gone_are_counted_and_logged()
 {
    let (server, client) = granting(RULES);
    let lost = async |cause: &str| {
        let series = format!("tidegate_reserved_units_lost_total{{cause=\"{cause}\"}}");
        server.metric(&series).await.unwrap()
    };
    let kept = [client.reserve("bob", 100).await, client.reserve("bob", 100).await];
    // The limit and a debt of another limit; then a reservation that holds nothing.
    for (cost, actual, cut) in [(500, 5_000, 3_000), (0, 7, 7)] {
        let reserved = client.reserve("ada", cost).await;
        let settled = client.settle(id(&reserved), actual).await.json();
        assert_eq!(settled["cut"], json!(cut));
    }
    assert_eq!([lost("debt_cut").await, lost("too_late").await], [3_007, 0]);
    let others = "[[rule]]\nname = \"other\"\nrate = \"9/d\"\n";
    server.operator().put_rules("", "*", others).await.succeeded();
    for (one, actual, cut) in [(&kept[0], 0, 0), (&kept[1], 300, 200)] {
        let settled = client.settle(id(one), actual).await.json();
        assert_eq!((&settled["settled"], &settled["cut"]), (&json!(actual - cut), &json!(cut)));
    }
    assert_eq!([lost("debt_cut").await, lost("too_late").await], [3_207, 100]);
    let log = server.stopped();
    assert!(log.contains("the units above are not taken"), "{log}");
    assert!(log.contains("of a rule that is gone"), "{log}");
}

/// Over HTTP and RESP, in memory and in a store.
#[tokio::test]
async fn a_reservation_of_cost_0_is_an_id_that_settles_to_nothing() {
    let store = Store::start();
    for rules in [RULES, &store.with(RULES)] {
        let (server, client) = granting(rules);
        let reserved = client.reserve("ada", 0).await;
        for actual in [7, 7, 2_000, 0] {
            let settled = client.settle(id(&reserved), actual).await.succeeded();
            let answer = settled.json();
            assert_eq!((&answer["settled"], &answer["cut"]), (&json!(0), &json!(actual)));
        }
        let id = server.reserve(&["default", "COST", "0", "user", "ada"]);
        for actual in [7, 2_000] {
            let settled = server.reply(&["TG.SETTLE", &id, &actual.to_string()]);
            let [.., taken, _, cut] = &settled[..] else { panic!("{settled:?}") };
            assert_eq!((taken, cut), (&Value::Int(0), &Value::Int(actual)), "{settled:?}");
        }
        assert_eq!(client.remaining("ada").await, 1_000);
        assert_eq!(server.metric("tidegate_reservations").await, Some(0));
    }
}

/// Reservations that the store decided are settled when it answers again; reservations that this server decided are
/// settled here.
#[tokio::test]
async fn without_the_store_its_reservations_wait_and_those_of_this_server_are_settled_here() {
    let mut store = Store::start();
    let rules = store.with(RULES).replace("20s", "1s");
    let (_server, client) = granting(&rules);
    let of_store = client.reserve("ada", 100).await;
    assert_eq!(of_store["degraded"], false);
    store.kill();
    let refused = client.settle(id(&of_store), 1).await;
    match refused.status.as_u16() {
        202 => assert_eq!(refused.json()["pending"], true),
        _ => assert!(refused.problem(503).contains("it is unknown whether")),
    }
    let mut here = client.reserve("ada", 100).await;
    while here["degraded"] == false {
        here = client.reserve("ada", 100).await;
    }
    let left = here["remaining"].as_u64().unwrap();
    let settled = client.settle(id(&here), 40).await.succeeded();
    let answer = settled.json();
    assert_eq!((&answer["degraded"], &answer["remaining"]), (&json!(true), &json!(left + 60)));
}

#[tokio::test]
async fn each_descriptor_may_have_a_cost_of_its_own() {
    let (_server, client) = granting(RULES);
    let call = json!({"descriptor": {"user": "ada", "kind": "call"}, "cost": 1});
    let tokens = json!({"descriptor": {"user": "bob"}, "cost": 300});
    let body = json!({"descriptors": [call, tokens]}).to_string();
    let reserved = client.post("/v1/reserve", &body).await.json();
    client
        .settle(id(&reserved), vec![1, 2, 3])
        .await
        .refused(400, "one for each of the 2 descriptors");
    client.settle(id(&reserved), vec![1, 40]).await.succeeded();
    let left = async |user: &str, kind: &str| {
        let body = json!({"descriptor": {"user": user, "kind": kind}}).to_string();
        client.post("/v1/peek", &body).await.json()["remaining"].clone()
    };
    assert_eq!((left("ada", "call").await, left("bob", "-").await), (json!(9), json!(960)));
}

#[tokio::test]
async fn what_nobody_settles_stays_taken_and_its_id_is_forgotten() {
    let (server, client) = granting(RULES);
    let reserve = json!({"descriptor": {"user": "ada"}, "cost": 7, "life_ms": 1}).to_string();
    let answer = client.post("/v1/reserve", &reserve).await.json();
    let ended = r#"tidegate_reservations_ended_total{how="unsettled"}"#;
    while server.metric(ended).await != Some(1) {}
    client.settle(id(&answer), 0).await.refused(404, "its life is over");
    assert_eq!(client.remaining("ada").await, 993);
}

#[tokio::test]
async fn what_can_not_be_reserved_or_settled_is_reported() {
    let (_server, client) = granting(RULES);
    let ada = json!({"user": "ada"});
    for (path, body, expected) in [
        ("/v1/reserve", json!([{"descriptor": ada}]), "a reservation is of one request"),
        ("/v1/reserve", json!({"descriptor": ada, "life_ms": 0}), "at least 1 millisecond"),
        ("/v1/reserve", json!({"descriptor": ada, "life_ms": 86_400_001}), "from 0 to 86400000"),
        ("/v1/check", json!({"descriptor": ada, "life_ms": 1}), "POST /v1/reserve makes"),
        ("/v1/settle", json!({"reservation": "7", "actual": 1}), "the 32 hexadecimal digits"),
        ("/v1/settle", json!({"reservation": UNKNOWN}), "missing field `actual`"),
        ("/v1/settle", json!({"reservation": UNKNOWN, "actual": "1"}), "a whole number of units"),
        ("/v1/settle", json!({"reservation": UNKNOWN, "actual": 2_000_000_000}), "to 1000000000"),
    ] {
        let detail = client.post(path, &body.to_string()).await.problem(400);
        assert!(detail.contains(expected), "{path} {body}: {detail}");
    }
    client.settle(&json!(UNKNOWN), 1).await.refused(404, "no such reservation");
}

#[tokio::test]
async fn without_space_for_a_reservation_nothing_is_taken() {
    let server =
        Server::with_rules_and(RULES, &["--public-verbs", VERBS, "--reservation-memory", "64KiB"]);
    let client = server.client();
    let reserve = json!({"descriptor": {"user": "ada"}}).to_string();
    let (mut admitted, mut last) = (0, client.post("/v1/reserve", &reserve).await);
    while last.status == 200 {
        admitted += 1;
        last = client.post("/v1/reserve", &reserve).await;
    }
    assert_eq!(last.header("retry-after"), Some("1"));
    last.refused(503, "--reservation-memory");
    assert!((50..200).contains(&admitted), "{admitted}");
    assert_eq!(server.metric("tidegate_reservations").await, Some(admitted));
    assert_eq!(client.remaining("ada").await, 1_000 - admitted);
}

#[tokio::test]
async fn redis_clients_reserve_and_settle_as_well() {
    let (server, client) = granting(RULES);
    let reserve = ["TG.RESERVE", "default", "COST", "500", "LIFE", "60000", "user", "ada"];
    let reply = server.reply(&reserve);
    let Value::BulkString(id) = reply.last().unwrap() else { panic!("{reply:?}") };
    let id = std::str::from_utf8(id).unwrap();
    assert_eq!((reply.len(), &reply[7]), (24, &Value::Int(500)));
    let settled = server.reply(&["TG.SETTLE", id, "120"]);
    assert_eq!((settled.len(), &settled[7]), (26, &Value::Int(880)));
    let http = client.settle(&json!(id), 120).await;
    assert_eq!(http.json()["remaining"], 880, "every listener knows the id");
    let refused = server.reply(&[&reserve[..], &["x", "y"]].concat());
    assert_eq!(refused.last(), Some(&refused[23].clone()));
    let fails = |words: &[&str], expected: &str| {
        let error = server.command(words).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    };
    fails(&["TG.SETTLE", id, "121"], "for another cost");
    fails(&["TG.SETTLE", UNKNOWN, "1"], "no such reservation");
    fails(&["TG.SETTLE", id, "-1"], "from 0 to 1000000000");
    fails(&["TG.SETTLE", id], "wrong number of arguments");
    fails(&["TG.RESERVE", "default", "LIFE", "0"], "LIFE is \"0\"");
}

/// Operators list, settle and drop reservations, over the admin listener and from a shell; a reader sees no ids.
#[tokio::test]
async fn operators_list_settle_and_drop_reservations() {
    let files = crate::certificates::Certificates::folder();
    let more = [&["--public-verbs", VERBS][..], &files.operators()].concat();
    let mut server = Server::with_rules_and(RULES, &more);
    let (client, admin) = (server.client(), server.operator());
    let mut ids = Vec::new();
    for user in ["ada", "bob", "eve"] {
        ids.push(id(&client.reserve(user, 7).await).as_str().unwrap().to_owned());
    }
    let list = async |token: &str| admin.get_as("/v1/reservations?n=2", token).await;
    let listed = list("Bearer for-change").await.json();
    assert_eq!((&listed["open"], &listed["pending"]), (&json!(3), &json!(0)));
    let first = &listed["reservations"][0];
    assert_eq!((&first["reservation"], &first["costs"]), (&json!(ids[0]), &json!([7])));
    assert_eq!(first["keys"][0]["key"], json!({"user": "ada"}));
    assert_eq!(listed["reservations"].as_array().unwrap().len(), 2);
    let read = list("Bearer for-read").await.json();
    assert_eq!((&read["open"], &read["reservations"][0]["reservation"]), (&json!(3), &json!(null)));
    let dropped = json!({"reservation": ids[0]}).to_string();
    let drop = async |token: &str| admin.post_as("/v1/drop", &dropped, token).await;
    assert_eq!(drop("Bearer for-read").await.status, 403);
    assert_eq!(drop("Bearer for-change").await.json(), json!({"dropped": true}));
    drop("Bearer for-change").await.refused(404, "no such reservation");
    server.logs("verb=\"drop\"");
    assert_eq!(client.remaining("ada").await, 993, "its units stay taken");
    let url = server.admin_url();
    let command = |words: &[&str]| {
        let args = [&["reservations", "--admin", &url], words].concat();
        run_in(&args, &[("TIDEGATE_OPERATOR_TOKEN", "for-change")]).printed()
    };
    let shown = command(&[]);
    assert!(shown.starts_with("2 open, 0 wait for the store"), "{shown}");
    assert!(shown.contains(&ids[1]) && shown.contains("tokens (user=bob)"), "{shown}");
    let settled = command(&["settle", &ids[1], "3"]);
    assert_eq!(settled, format!("{} is settled for 3; cut: 0\n", ids[1]));
    server.logs("settled for [3]");
    assert_eq!(client.remaining("bob").await, 997);
    assert!(command(&["drop", &ids[2]]).contains("its units stay taken"));
    assert!(command(&["--format", "json"]).starts_with("{\"open\":0,"));
}
