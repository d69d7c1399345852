//! `GET /v1/recorded` and `tidegate replay --recorded`: what a server decided is decided so again.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use serde_json::{Value, json};

use crate::certificates::Certificates;
use crate::envoy_api::{Code, RateLimitDescriptor, RateLimitOverride, Unit};
use crate::grpc;
use crate::process::{BINARY, Ended, Server, config};
use crate::raw;
use crate::store::Store;

const RULES: &str = r#"
rule = [
    { name = "per-user", key = ["user"], algorithm = "sliding_log", rate = "5/1d" },
    { name = "per-ip", key = ["ip"], algorithm = "token_bucket", rate = "20/1m", dedupe = "10s" },
    { name = "slow", key = ["ip"], algorithm = "leaky_queue", rate = "30/1s", capacity = 3 },
    { name = "per-card", key = ["card"], algorithm = "fixed_window", rate = "4/1d", hide_keys = true },
    { name = "per-tenant", domain = "edge", key = ["tenant"], algorithm = "sliding_window", rate = "2/1d", limit_from_request = true },
    { name = "all", algorithm = "sliding_counter", rate = "60/1d" },
]
[server]
record = "10m"
"#;

/// Runs a replay of what a server recorded.
fn replay(rules: &str, server: &Server, more: &[&str]) -> Ended {
    let (rules, url) = (config(rules), server.admin_url());
    let mut command = Command::new(BINARY);
    command.args(["replay", "--recorded", &url, "-c"]).arg(rules.path());
    let format = if more.contains(&"--format") { &[][..] } else { &["--format", "json"] };
    Ended::of(command.args(format).args(more))
}

async fn lines(server: &Server) -> Vec<Value> {
    let answer = server.operator().get("/v1/recorded").await.succeeded();
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    assert_eq!(answer.header("content-length"), Some(&*answer.text.len().to_string()));
    answer.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Asks over every protocol; returns how many requests there were, and how many were refused.
async fn ask(server: &Server) -> (u64, u64) {
    let (client, mut refused) = (server.client(), 0);
    for number in 0..60 {
        let (user, ip) = (format!("u{}", number % 7), format!("192.0.2.{}", number % 3));
        let body = match number % 3 {
            0 => json!({"descriptor": {"user": user, "ip": ip}, "cost": 1 + number % 2}),
            1 => json!({"descriptors": [{"user": user}, {"descriptor": {"ip": ip}, "cost": 2}],
                        "request_id": format!("id-{}", number % 5)}),
            _ => json!({"descriptor": {"card": format!("4111-{}", number % 2), "ip": ip}}),
        };
        let answer = client.check(&body.to_string()).await;
        refused += u64::from(answer.json()["allowed"] == false);
    }
    let mut envoy = grpc::client(server).await;
    for number in 0..8_u32 {
        let unit = Unit::Hour.into();
        let limit = RateLimitOverride { requests_per_unit: 3 + number % 2, unit };
        let limit = (number % 4 > 0).then_some(limit);
        let tenant = RateLimitDescriptor { limit, ..grpc::descriptor(&[("tenant", "a")]) };
        let asked = grpc::request(vec![tenant, grpc::costing(2, &[("user", "ada")])]);
        let answer = envoy.should_rate_limit(asked).await.unwrap().into_inner();
        refused += u64::from(answer.overall_code() == Code::OverLimit);
    }
    let calls = "TG.CHECK default user eve\r\n".repeat(8) + "QUIT\r\n";
    let came = raw::exchange(server.resp, &calls).await;
    (76, refused + came.matches("allowed\r\n:0\r\n").count() as u64)
}

async fn decides_again(rules: &str) {
    let server = Server::with_rules(rules);
    let (asked, refused) = ask(&server).await;
    assert!((10..60).contains(&refused), "{refused}");
    assert_eq!(lines(&server).await.len() as u64, asked);
    let again = replay(RULES, &server, &[]).object();
    let same = json!({"decisions": asked, "now_refused": 0, "now_admitted": 0});
    assert_eq!((&again["recorded"], &again["refused"]), (&same, &json!(refused)));
    // Half of the limit of each user.
    let other = replay(&RULES.replace("5/1d", "2/1d"), &server, &[]).object();
    assert!(other["recorded"]["now_refused"].as_u64().unwrap() > 0, "{other}");
    let table = replay(RULES, &server, &["--format", "table"]).printed();
    let expected =
        format!("Of {asked} recorded decisions, 0 change to a refusal and 0 to an admission.\n");
    assert!(table.contains(&expected), "{table}");
}

#[tokio::test]
async fn a_recording_is_replayed_as_it_was_decided_in_memory_and_over_a_store() {
    let store = Store::start();
    for rules in [RULES, &store.with(RULES)] {
        decides_again(rules).await;
    }
}

#[tokio::test]
async fn a_recording_has_no_hidden_key_and_no_id() {
    let (server, client) = Server::with_client(RULES);
    for body in [
        r#"{"descriptor": {"card": "4111-s3cret", "ip": "a"}, "request_id": "of-s3cret"}"#,
        r#"{"descriptors": [{"ip": "b"}, {"ip": "b", "card": "4111-s3cret"}]}"#,
    ] {
        client.check(body).await.succeeded();
    }
    let lines = lines(&server).await;
    let card = &lines[0]["descriptor"]["card"];
    assert_eq!((card.as_str().unwrap().len(), &lines[0]["descriptor"]["ip"]), (16, &json!("a")));
    assert_eq!(lines[1]["descriptors"][1]["descriptor"]["card"], *card);
    assert!(!format!("{lines:?}").contains("s3cret"), "{lines:?}");
    assert_eq!(server.metric("tidegate_recorder_memory_bytes").await, Some(65_536));
    let dropped = r#"tidegate_recorder_dropped_total{cause="no_space"}"#;
    assert_eq!(server.metric(dropped).await, Some(0));
}

#[tokio::test]
async fn a_reader_may_read_it_and_who_has_no_token_may_not() {
    let files = Certificates::folder();
    let tokens = files.operators();
    let server = Server::with_rules_and(RULES, &tokens);
    ask(&server).await;
    replay(RULES, &server, &[]).fails(1, "--token-file or TIDEGATE_OPERATOR_TOKEN");
    let again = replay(RULES, &server, &["--token-file", tokens[3]]).object();
    assert_eq!(again["recorded"]["decisions"], 76);
    server.client().get("/v1/recorded").await.problem(404);
}

#[tokio::test]
async fn a_sample_has_all_requests_of_its_keys_and_off_is_an_error_that_says_so() {
    let server = Server::with_rules_and(RULES, &["--record-one-in", "4"]);
    let client = server.client();
    for number in 0..120 {
        let body = json!({"descriptor": {"user": format!("u{}", number % 40)}}).to_string();
        client.check(&body).await;
    }
    let lines = lines(&server).await;
    assert!((3..=75).contains(&lines.len()) && lines.len().is_multiple_of(3), "{}", lines.len());
    let off = Server::with_rules_and(RULES, &["--record", "off"]);
    off.operator().get("/v1/recorded").await.refused(404, "`record` of `[server]` is \"off\"");
    replay(RULES, &off, &[]).fails(1, "`record` of `[server]` is \"off\"");
    assert_eq!(off.metric("tidegate_recorder_memory_bytes").await, None);
}

#[tokio::test]
async fn recordings_of_several_servers_and_files_are_one_trace() {
    let (one, other) = (Server::with_rules(RULES), Server::with_rules(RULES));
    for server in [&one, &other] {
        for _ in 0..3 {
            server.client().check(r#"{"descriptor": {"user": "ada"}}"#).await;
        }
    }
    let file = config("{\"at_us\": 1, \"descriptor\": {\"user\": \"ada\"}}\n");
    let more = ["--recorded", &other.admin_url(), "--trace", file.path()];
    let merged = replay(RULES, &one, &more).object();
    assert_eq!(merged["requests"], 7);
    // Each server admitted three of five, which is one too many for both.
    assert_eq!(merged["recorded"], json!({"decisions": 6, "now_refused": 1, "now_admitted": 0}));
}

/// A second client would hold as much memory again.
#[tokio::test]
async fn a_client_that_reads_slowly_keeps_others_waiting_and_no_decision() {
    let (server, client) = Server::with_client(RULES);
    let one = json!({"descriptor": {"path": "x".repeat(900)}});
    let batch = json!(vec![one; 1_000]).to_string();
    for _ in 0..24 {
        client.check(&batch).await.succeeded();
    }
    let mut slow = TcpStream::connect(server.admin).unwrap();
    slow.write_all(b"GET /v1/recorded HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .unwrap();
    slow.read_exact(&mut [0; 64]).unwrap();
    server.operator().get("/v1/recorded").await.refused(503, "another client reads");
    client.check(&batch).await.succeeded();
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).unwrap();
    let rest = String::from_utf8(rest).unwrap();
    assert_eq!(rest.matches("\"allowed\":").count(), 24_000, "as it was when it was asked for");
    assert_eq!(lines(&server).await.len(), 25_000);
}
