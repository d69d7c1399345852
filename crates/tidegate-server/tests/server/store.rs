//! Limiters in a store that servers share: one limit, and the answers while the store is
//! unavailable.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::task::block_in_place;
use tokio::time::timeout;

use crate::client::Client;
use crate::grpc;
use crate::process::{BINARY, Ended, Server, config, not_started_in};
use crate::proxy::{Proxy, Way};
use crate::raw;

/// A Redis that ends with the test.
pub(crate) struct Store(testkit::store::Server);

impl Store {
    pub(crate) fn start() -> Self {
        Self(testkit::store::Server::start(&[], &[]))
    }

    pub(crate) fn url(&self) -> String {
        self.0.url()
    }

    /// Rules whose limiters are in it.
    pub(crate) fn with(&self, rules: &str) -> String {
        format!("{rules}\n[store]\nurl = \"{}\"\ntimeout = \"20s\"\n", self.url())
    }

    /// Its port.
    pub(crate) const fn port(&self) -> u16 {
        self.0.port
    }

    /// The number of its keys.
    fn keys(&self) -> u64 {
        let mut connection = TcpStream::connect(("127.0.0.1", self.port())).unwrap();
        connection.write_all(b"DBSIZE\r\n").unwrap();
        let mut message = String::new();
        BufReader::new(connection).read_line(&mut message).unwrap();
        message.trim_start_matches(':').trim().parse().unwrap()
    }

    pub(crate) fn kill(&mut self) {
        self.0.kill();
    }

    /// Sends a signal such as `STOP`, which freezes it with its connections open, or `CONT`.
    pub(crate) fn signal(&self, name: &str) {
        self.0.signal(name);
    }
}

pub(crate) const RULE: &str = r#"
[[rule]]
name = "per-user"
key = ["user"]
algorithm = "sliding_log"
limit = 10
window = "1d"
"#;

fn rules(on_store_error: &str, url: &str) -> String {
    format!(
        "{RULE}on_store_error = \"{on_store_error}\"\n[store]\nurl = \"{url}\"\ntimeout = \"20s\"\n"
    )
}

const ADA: &str = r#"{"descriptor": {"user": "ada"}}"#;

async fn statuses(server: &Server) -> Vec<u16> {
    let client = server.client();
    let mut answers = Vec::new();
    for _ in 0..8 {
        answers.push(client.check(ADA).await.status.as_u16());
    }
    answers
}

#[tokio::test]
async fn two_servers_admit_the_limit_together_and_operators_reach_it_through_either() {
    let store = Store::start();
    let one = Server::with_rules(&rules("closed", &store.url()));
    let two = Server::with_rules(&rules("closed", &store.url()));
    assert_eq!(statuses(&one).await, [200; 8]);
    assert_eq!(statuses(&two).await, [200, 200, 429, 429, 429, 429, 429, 429]);
    let refunded = one.operator().post("/v1/refund", ADA).await.json();
    assert_eq!(
        (&refunded["remaining"], &refunded["degraded"]),
        (&Value::from(1), &Value::from(false))
    );
    assert_eq!(two.operator().post("/v1/reset", ADA).await.json()["reset"], 1);
    assert_eq!(one.client().post("/v1/peek", ADA).await.json()["remaining"], 10);
}

/// Its first requests were decided without the store, because it was still connecting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_answers_after_it_reached_its_store() {
    let store = Store::start();
    let proxy = Proxy::before(store.port()).await;
    proxy.turn(Way::Slow(Duration::from_millis(15)));
    let _server = block_in_place(|| Server::with_rules(&rules("closed", &proxy.url())));
    assert_eq!(store.keys(), 1, "the list of nodes has the server");
}

/// Concurrent questions of one client do not push its own, or a question of another client, past the store's bound.
#[tokio::test]
async fn a_flood_of_questions_waits_for_the_store_and_is_decided_by_it() {
    let store = Store::start();
    let rules = rules("open", &store.url()) + "max_in_flight = 64\n";
    let server = Server::with_rules(&rules);
    let flood = format!("[{}]", vec![ADA; 300].join(","));
    let clients = [(); 3].map(|()| Client::http2(server.http));
    let (one, two, three) =
        tokio::join!(clients[0].check(&flood), clients[1].check(&flood), clients[2].check(ADA),);
    assert_eq!(three.json()["degraded"], false, "{}", three.text);
    let answers = [one.json(), two.json()];
    let answers: Vec<_> = answers.iter().flat_map(|all| all.as_array().unwrap()).collect();
    assert_eq!(answers.len(), 600);
    assert!(answers.iter().all(|answer| answer["degraded"] == false));
    let single = usize::from(three.status == 200);
    let allowed = answers.iter().filter(|answer| answer["allowed"] == true).count();
    assert_eq!(allowed + single, 10);
}

#[tokio::test]
async fn a_store_that_is_away_is_a_503_only_where_a_rule_is_closed_then() {
    for (choice, status) in [("open", 200), ("closed", 503), ("local", 200)] {
        let mut store = Store::start();
        let server = Server::granting(&rules(choice, &store.url()), "check,grpc-refund");
        let client = server.client();
        client.check(ADA).await.succeeded();
        store.kill();
        let answer = client.check(ADA).await;
        assert_eq!(answer.status, status, "{choice}: {}", answer.text);
        assert_eq!(answer.json()["degraded"], true);
        assert_eq!(answer.json()["allowed"], status == 200);
        let refund = server.operator().post("/v1/refund", ADA).await;
        assert_eq!(refund.header("retry-after"), Some("1"));
        refund.refused(503, "nothing was changed: repeat it");
        let check = grpc::request_in("default", vec![grpc::descriptor(&[("user", "ada")])]);
        let reported = grpc::client(&server).await.should_rate_limit(check).await.unwrap();
        let reported = reported.into_inner().dynamic_metadata.unwrap().fields;
        assert_eq!(reported.keys().collect::<Vec<_>>(), ["degraded"], "{choice}");
        let back = grpc::request_in("default", vec![grpc::giving_back(1, &[("user", "ada")])]);
        let message = grpc::client(&server).await.should_rate_limit(back).await.unwrap_err();
        assert_eq!(message.code(), tonic::Code::Unavailable, "{message:?}");
        server.client().get("/healthz").await.succeeded();
    }
}

/// A call with its own limit is decided in the store as well, many at a time and in order.
#[test]
fn calls_that_carry_their_limit_are_shared_too_and_fail_clearly_while_the_store_is_away() {
    let mut store = Store::start();
    let one = Server::with_rules(&rules("closed", &store.url()));
    let two = Server::with_rules(&rules("closed", &store.url()));
    let mut to_one = one.redis();
    let mut to_two = two.redis();
    let mut pipe = redis::pipe();
    for _ in 0..100 {
        pipe.cmd("CL.THROTTLE").arg(&["ada", "149", "1", "86400"]);
        pipe.cmd("PING").ignore();
    }
    let reply: Vec<(u8, u64, u64, i64, u64)> = pipe.query(&mut to_one).unwrap();
    let left: Vec<_> = reply.iter().map(|answer| answer.2).collect();
    assert_eq!(left, (50..150).rev().collect::<Vec<_>>(), "in order");
    let reply: Vec<(u8, u64, u64, i64, u64)> = pipe.query(&mut to_two).unwrap();
    assert_eq!(reply.iter().filter(|answer| answer.0 == 0).count(), 50);
    // Another limit for the same key: used units stay used.
    let reply: (u8, u64, u64, i64, u64) =
        redis::cmd("CL.THROTTLE").arg(&["ada", "159", "1", "86400"]).query(&mut to_one).unwrap();
    assert_eq!((reply.0, reply.1, reply.2), (0, 160, 9));
    store.kill();
    let lost = redis::cmd("CL.THROTTLE").arg(&["ada", "1", "1", "1"]).query::<()>(&mut to_one);
    assert!(lost.unwrap_err().to_string().contains("store"));
    assert_eq!(redis::cmd("PING").query::<String>(&mut to_one).unwrap(), "PONG");
}

/// A replay of these lines under these rules, and the folder of its files.
fn replay(rules: &str, lines: &str) -> (TempDir, Command) {
    let folder = TempDir::new().unwrap();
    let (config, trace) = (folder.path().join("rules.toml"), folder.path().join("trace.ndjson"));
    std::fs::write(&config, rules).unwrap();
    std::fs::write(&trace, lines).unwrap();
    let mut command = Command::new(BINARY);
    command.args(["replay", "--format", "ndjson", "--config"]).arg(&config);
    command.arg("--trace").arg(&trace);
    (folder, command)
}

#[test]
fn a_replay_in_the_store_decides_as_one_in_process() {
    let store = Store::start();
    let line = |at: u64| {
        format!(
            "{{\"at_us\": {at}, \"descriptor\": {{\"user\": \"u{}\"}}, \"cost\": {}, \
             \"request_id\": \"{}\"}}\n",
            at % 3,
            at % 4,
            at % 29
        )
    };
    let lines: String = (0..400).map(|number| line(number * 40_000 + number % 7)).collect();
    let rules = RULE.replace("1d", "1s") + "dedupe = \"500ms\"\n";
    let replay = |more: &[&str]| {
        let (_files, mut command) = replay(&rules, &lines);
        Ended::of(command.args(more)).printed()
    };
    let here = replay(&[]);
    assert!(here.lines().count() == 400 && here.contains("\"allowed\":false"));
    assert_eq!(replay(&["--store", &store.url()]), here);
    assert_eq!(replay(&["--store", &store.url()]), here, "each run begins afresh");
}

#[test]
fn a_replay_that_is_stopped_leaves_nothing_in_the_store() {
    let line =
        |at: u64| format!("{{\"at_us\": {at}, \"descriptor\": {{\"user\": \"u{}\"}}}}\n", at % 700);
    let lines: String = (0..400_000).map(line).collect();
    for signal in ["INT", "TERM"] {
        let store = Store::start();
        let (_files, mut command) = replay(RULE, &lines);
        let command = command.args(["--store", &store.url()]).stdout(Stdio::null());
        let replay = command.stderr(Stdio::piped()).spawn().unwrap();
        while store.keys() < 100 {
            std::thread::yield_now();
        }
        let pid = replay.id().to_string();
        assert!(
            Command::new("kill").arg(format!("-{signal}")).arg(pid).status().unwrap().success()
        );
        Ended::from(replay.wait_with_output().unwrap()).fails(1, "was stopped");
        // The key that is used to test writing expires by itself.
        let left = store.keys();
        assert!(left <= 1, "{left} keys are left");
    }
}

#[tokio::test]
async fn a_request_waits_over_a_store_as_it_does_in_process() {
    let store = Store::start();
    let waits = RULE.replace("1d", "200ms").replace("limit = 10", "limit = 1")
        + "on_excess = { wait = \"1h\", max_waiters = 10 }\n";
    let rules = store.with(&waits);
    let servers = [Server::with_rules(&rules), Server::with_rules(&rules)];
    for _ in 0..2 {
        for server in &servers {
            server.client().check(ADA).await.succeeded();
        }
    }
    let never = r#"{"descriptor": {"user": "ada"}, "cost": 2}"#;
    assert_eq!(servers[0].client().check(never).await.status, 422);
}

#[test]
fn grpc_has_threads_of_its_own_over_a_store_and_a_listener_that_is_off_has_none() {
    let store = Store::start();
    let started = |more: &[&str]| {
        let off = ["--resp", "off", "--admin", "off", "--grpc-threads", "3", "--threads", "2"];
        let log = Server::with_arguments(&[&off, more].concat()).stopped();
        let line = log.lines().find(|line| line.contains("started")).unwrap().to_owned();
        (log.contains("--grpc-threads has no effect"), line)
    };
    let (warned, line) = started(&["--store", &store.url()]);
    assert!(!warned && line.contains("grpc_threads=3"), "{line}");
    let (warned, line) = started(&["--grpc", "off"]);
    assert!(warned && line.contains("grpc_threads=0"), "{line}");
}

#[test]
fn a_password_that_can_not_be_read_is_reported_at_start_and_never_shown() {
    use std::os::unix::ffi::OsStrExt;
    let store = Store::start();
    let secret = std::ffi::OsStr::from_bytes(b"caf\xe9-sesame");
    for (field, value, said) in [
        ("password_env", "TIDEGATE_TEST_PASSWORD", "`TIDEGATE_TEST_PASSWORD`"),
        ("password_env", "TIDEGATE_TEST_NOTHING", "is not set"),
        ("password_file", "/nowhere/password", "`/nowhere/password`"),
        ("tls_roots", "/nowhere/roots.pem", "`tls_roots`"),
        ("tls_roots", "/dev/null", "holds no certificate"),
        ("password_file", "/dev/null", "is empty"),
    ] {
        let scheme = if field == "tls_roots" { "rediss" } else { "redis" };
        let url = store.url().replacen("redis", scheme, 1);
        let text = format!("{RULE}\n[store]\nurl = \"{url}\"\n{field} = \"{value}\"\n");
        let config = config(&text);
        let arguments = ["--config", config.path()];
        let message = not_started_in(&[("TIDEGATE_TEST_PASSWORD", secret)], &arguments);
        assert!(message.contains(said) && !message.contains("sesame"), "{message}");
    }
}

#[tokio::test]
async fn what_ends_a_connection_does_so_after_the_replies_before_it() {
    let store = Store::start();
    let server = Server::with_rules(&rules("closed", &store.url()));
    for (key, last, expected) in
        [("a", "QUIT\r\nPING\r\n", "+OK\r\n"), ("b", "*1\r\n!\r\n", "-ERR Protocol error")]
    {
        // The server closes at once, and not only a connection that is idle for a minute.
        let sent = format!("CL.THROTTLE {key} 0 1 86400 1\r\n{last}");
        let came = timeout(Duration::from_secs(40), raw::exchange(server.resp, &sent)).await;
        let came = came.expect("the server closes the connection");
        let (first, rest) = came.split_once("86400\r\n").unwrap();
        assert!(first.starts_with("*5\r\n:") && rest.starts_with(expected), "{came:?}");
        assert_eq!(rest.lines().count(), 1, "{came:?}");
    }
}
