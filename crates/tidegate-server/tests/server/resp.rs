//! Redis clients on the RESP listener: their own programs and libraries, unchanged.

use std::io::ErrorKind::{TimedOut, WouldBlock};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Output};
use std::time::Duration;

use redis::{Connection, Value, cmd};

use crate::process::Server;

pub(crate) const RULES: &str = r#"
rule = [
    { name = "per-user", key = ["user"], algorithm = "fixed_window", rate = "3/365d" },
    { name = "many", domain = "load", key = ["user"], algorithm = "sliding_log", rate = "10000/1d" },
]
"#;

/// The examples of the page in a language.
pub(crate) fn examples(language: &str) -> Vec<&'static str> {
    let page = include_str!("../../../../docs/resp.md");
    let begin = format!("```{language}\n");
    page.split(&begin).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

/// Runs `redis-cli`, which prints bare replies if its output is not a terminal.
fn redis_cli(at: SocketAddr, args: &[&str]) -> String {
    let port = at.port().to_string();
    let output = program("redis-cli", &[&["-p", &port], args].concat());
    String::from_utf8(output.stdout).unwrap()
}

fn program(name: &str, args: &[&str]) -> Output {
    let output = Command::new(name).args(args).output();
    let output = output.unwrap_or_else(|_| panic!("{name} cannot be run: install `redis-tools`"));
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// A connection of the Rust client; it chooses RESP3 if the options say so.
fn connect(at: SocketAddr, options: &str) -> Connection {
    let client = redis::Client::open(format!("redis://{at}/{options}")).unwrap();
    client.get_connection().unwrap()
}

#[test]
fn redis_cli_shows_what_is_decided() {
    let server = Server::with_rules(RULES);
    let check = ["TG.CHECK", "default", "COST", "2", "user", "ada"];
    let shown = redis_cli(server.resp, &[&["--no-raw"], &check[..]].concat());
    let lines: Vec<_> = shown.lines().map(str::trim).collect();
    assert_eq!(lines[..4], ["1) \"allowed\"", "2) (integer) 1", "3) \"rule\"", "4) \"per-user\""]);
    let shown = redis_cli(server.resp, &[&["-3", "--no-raw"], &check[..]].concat());
    assert!(
        shown.starts_with(" 1# \"allowed\" => (false)\n 2# \"rule\" => \"per-user\"\n"),
        "{shown}"
    );
    let shown = redis_cli(server.resp, &["CL.THROTTLE", "user123", "15", "30", "60"]);
    assert_eq!(shown, "0\n16\n15\n-1\n2\n");
    assert_eq!(redis_cli(server.resp, &["PING"]), "PONG\n");
}

#[test]
fn redis_benchmark_drives_it_and_every_call_is_counted() {
    let server = Server::with_rules(RULES);
    let port = server.resp.port().to_string();
    let calls = ["TG.CHECK", "load", "user", "ada"];
    let driven = ["-p", &port, "-n", "6000", "-c", "50", "-P", "16", "-q"];
    let output = program("redis-benchmark", &[&driven, &calls[..]].concat());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("requests per second"), "{said}");
    let mut client = connect(server.resp, "");
    let reply: Vec<Value> =
        cmd("TG.PEEK").arg(&["load", "user", "ada"]).query(&mut client).unwrap();
    assert_eq!(reply[6..8], [Value::BulkString(b"remaining".to_vec()), Value::Int(4_000)]);
}

#[test]
fn the_rust_client_speaks_both_versions_and_pipelines_any_depth() {
    let server = Server::with_rules(RULES);
    for (options, user) in [("", "a"), ("?protocol=resp3", "b")] {
        let mut client = connect(server.resp, options);
        let reply: (u8, u64, u64, i64, u64) =
            cmd("CL.THROTTLE").arg(&[user, "0", "1", "86400"]).query(&mut client).unwrap();
        assert_eq!(reply, (0, 1, 0, -1, 86_400));
        let mut pipe = redis::pipe();
        for _ in 0..10_000 {
            pipe.cmd("CL.THROTTLE").arg(&["deep", user, "1", "86400"]);
        }
        let refused = pipe.query::<Vec<Value>>(&mut client).unwrap_err();
        assert!(refused.to_string().contains("Couldn't parse as integer"), "{refused}");
        let mut pipe = redis::pipe();
        for _ in 0..10_000 {
            pipe.cmd("CL.THROTTLE").arg(&[&format!("deep-{user}"), "6999", "1", "86400"]);
        }
        let reply: Vec<(u8, u64, u64, i64, u64)> = pipe.query(&mut client).unwrap();
        assert_eq!(reply.iter().filter(|answer| answer.0 == 0).count(), 7_000);
        assert!(reply[..7_000].iter().all(|answer| answer.0 == 0), "in order");
    }
}

#[test]
fn a_cluster_has_its_one_node_where_the_operator_says() {
    let server = Server::with_rules(RULES);
    let port = server.resp.port();
    assert!(
        redis_cli(server.resp, &["CLUSTER", "NODES"]).contains(&format!(" 127.0.0.1:{port}@0 "))
    );
    let server = Server::with_rules_and(RULES, &["--resp-announce", "limits.example.com:443"]);
    for (about, expected) in [
        ("SLOTS", "0\n16383\nlimits.example.com\n443\n"),
        ("SHARDS", "\nlimits.example.com\n"),
        ("NODES", " limits.example.com:443@0 myself,master "),
    ] {
        let shown = redis_cli(server.resp, &["CLUSTER", about]);
        assert!(shown.contains(expected) && !shown.contains("127.0.0.1"), "{shown}");
    }
}

/// The next connection is accepted when there is room, and not before.
#[test]
fn each_listener_holds_no_more_connections_than_it_may() {
    let server = Server::with_rules_and(RULES, &["--max-connections", "1"]);
    let ping = |at: SocketAddr| {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(b"PING\r\n").unwrap();
        stream
    };
    let mut pong = [0; 7];
    let mut first = ping(server.resp);
    first.read_exact(&mut pong).unwrap();
    let mut second = ping(server.resp);
    second.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let early = second.read(&mut pong).unwrap_err();
    assert!(matches!(early.kind(), WouldBlock | TimedOut), "{early}");
    drop(first);
    second.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    second.read_exact(&mut pong).unwrap();
    assert_eq!(pong, *b"+PONG\r\n");
}
