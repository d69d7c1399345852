//! The log: a reader that stops causes no delay, and a terminal never interprets text of a stranger.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::certificates::Certificates;
use crate::process::{Server, check, config, run};
use crate::raw::answers_to;

const BODY: &str = r#"{"descriptor": {"key": "a"}}"#;

/// More than fits a pipe (64 KiB) and the log's own queue (1 MiB).
const LINES: usize = 320;
const LINE: usize = 4_096;

/// A server of one thread whose log is not read, so that its pipe and its queue are full.
async fn unread() -> Server {
    let server = Server::with_arguments(&["--threads", "1", "--log-level", "debug"]);
    let client = server.client();
    let path = format!("/{}", "a".repeat(LINE));
    for _ in 0..LINES {
        assert_eq!(client.get(&path).await.status, 404);
    }
    server
}

#[tokio::test]
async fn a_log_that_nobody_reads_stops_neither_listeners_nor_the_end() {
    let server = unread().await;
    server.client().check(BODY).await.succeeded();
    server.signal("TERM");
    assert_eq!(server.end_unread(), Some(0));
}

#[tokio::test]
async fn lines_that_were_dropped_are_counted_once_somebody_reads_again() {
    let mut server = unread().await;
    let answer = server.logs("log lines were dropped");
    let count = |name: &str| -> usize {
        let from = answer.split_once(name).unwrap().1;
        from.split_whitespace().next().unwrap().parse().unwrap()
    };
    assert!(count(" lines=") > 0 && count(" lines=") == count(" in_all="), "{answer}");
}

/// An unknown token over HTTP, and over RESP.
#[tokio::test]
async fn failed_tokens_are_counted_and_not_logged_one_by_one() {
    let files = Certificates::new();
    let (theirs, ours) = (files.with("theirs", "short"), files.with("ours", &"a".repeat(32)));
    let mut server =
        Server::with_arguments(&["--token-file", &theirs, "--admin-token-file", &ours]);
    server.logs_with("may be guessed", &["tokens=1", "32 characters"]);
    // Which names the flags of both.
    server.logs("settings come from flags and variables");
    for said in ["Bearer wrong", ""] {
        let refused = server.client().post_as("/v1/check", BODY, said).await;
        assert_eq!(refused.status, 401);
        assert_eq!(server.operator().post_as("/v1/reset", BODY, said).await.status, 401);
    }
    let refused = answers_to(server.resp, "AUTH wrong\r\n");
    assert!(refused.starts_with("-WRONGPASS"), "{refused}");
    let log = server.stopped();
    let answers: Vec<_> = log.lines().filter(|line| line.contains("token")).collect();
    assert_eq!(answers.len(), 1, "{log}");
    assert!(answers[0].contains("known token clients=3 admin=2"), "{log}");
}

/// A key with what terminals and readers of lines obey, and with what would end a text of JSON.
const EVIL: &str = "a\u{1b}[2J\u{7f}\u{9b}\u{85}\u{61c}\u{202e}\u{2028}\r\n\t\\\"}b";

#[tokio::test]
async fn a_line_of_json_is_json_whatever_a_caller_names() {
    let server = Server::with_arguments(&["--log-format", "json", "--log-level", "trace"]);
    let client = server.client();
    let body = json!({"domain": EVIL, "descriptor": {"ip": EVIL, EVIL: EVIL}}).to_string();
    client.check(&body).await.succeeded();
    let body = json!({"descriptor": {"ip": EVIL, EVIL: EVIL}}).to_string();
    client.check(&body).await.succeeded();
    let log = server.stopped();
    let lines = log.lines().map(|line| serde_json::from_str(line).map_err(|why| (line, why)));
    let lines: Vec<Value> = lines.collect::<Result<_, _>>().unwrap();
    assert!(lines.iter().any(|line| line.to_string().contains("202e")), "{log}");
    is_plain(&log);
}

/// The port is taken, which is known when the log runs already.
#[test]
fn a_server_that_fails_to_start_says_so_in_the_format_of_its_log() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let said = run(&["serve", "--http", &at, "--log-format", "json"]).refused(1);
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.last().unwrap()["message"].as_str().unwrap().contains(&at), "{said}");
}

/// Asserts that a text has no character that a terminal obeys.
fn is_plain(said: &str) {
    let obeyed = |c: char| c != '\n' && c.is_control() || "\u{202e}\u{61c}\u{2028}".contains(c);
    assert!(!said.is_empty() && !said.contains(obeyed), "{}", said.escape_debug());
}

#[tokio::test]
async fn control_characters_are_never_printed() {
    let evil = r#"\u001b[2J\u202e\r\n\u0007"#;
    // The text of a configuration, and of its errors.
    let wrong = config(&format!(
        "[[rule]]\nname = \"a{evil}\"\nalgorithm = \"{evil}\"\n\"{evil}\" = \"{evil}\"\n\u{1b}[2J"
    ));
    is_plain(&check(wrong.path()).refused(2));
    // The keys and bad lines of a trace.
    let rules = config(
        "[[rule]]\nname = \"a\"\nkey = [\"key\"]\nalgorithm = \"fixed_window\"\nrate = \"1/1h\"\n",
    );
    let event = format!("{{\"at_us\": 1, \"descriptor\": {{\"key\": \"a{evil}\"}}}}\n");
    let trace = config(&format!("{event}{event}\u{1b}[2J\u{202e}\n"));
    let (rules, trace) = (rules.path(), trace.path());
    for format in ["table", "ndjson"] {
        let traced = ["replay", "--config", rules, "--trace", trace, "--allow-unreadable"];
        let replay = [&traced[..], &["--format", format]].concat();
        let output = run(&replay);
        is_plain(&output.err);
        is_plain(&output.printed());
    }
    // The name of a file, and the log of a request.
    is_plain(&run(&["check", "/nowhere/\u{1b}[2J\u{202e}"]).refused(2));
    let server = Server::with_arguments(&["--log-level", "debug"]);
    let sent = "GET /\u{9b}2J\u{202e} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    answers_to(server.http, sent);
    let log = server.stopped();
    is_plain(&log);
}
