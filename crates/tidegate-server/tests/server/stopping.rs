//! SIGTERM and SIGINT: requests under way are finished, new ones are not accepted, exit code 0.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::client::Client;
use crate::process::Server;

const BODY: &str = r#"{"descriptor": {"key": "a"}}"#;

/// A request whose body the server waits for, after it has asked for it.
fn under_way(server: &Server) -> TcpStream {
    const ASKED: &str = "HTTP/1.1 100 Continue\r\n\r\n";
    let mut stream = TcpStream::connect(server.http).unwrap();
    let length = BODY.len();
    write!(
        stream,
        "POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\nexpect: 100-continue\r\n\r\n"
    )
    .unwrap();
    let mut asked = vec![0; ASKED.len()];
    stream.read_exact(&mut asked).unwrap();
    assert_eq!(String::from_utf8(asked).unwrap(), ASKED);
    stream
}

/// Returns once the listener is closed.
fn until_closed(server: &Server) {
    while TcpStream::connect(server.http).is_ok() {}
}

fn a_signal_drains(signal: &str) {
    let server = Server::with_example();
    let mut stream = under_way(&server);
    server.signal(signal);
    until_closed(&server);
    stream.write_all(BODY.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains("\"remaining\":4"), "{answer}");
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("stopped connections_cut=0"), "{log}");
}

#[test]
fn sigterm_lets_a_request_under_way_finish() {
    a_signal_drains("TERM");
}

#[test]
fn sigint_lets_a_request_under_way_finish() {
    a_signal_drains("INT");
}

#[test]
fn a_second_signal_does_not_wait() {
    let mut server = Server::with_example();
    let _stream = under_way(&server);
    server.signal("TERM");
    let told = server.logs("stopping once");
    assert!(told.contains("a second signal stops at once, with exit code 1"), "{told}");
    server.signal("INT");
    let (code, log) = server.end();
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("stopped at once, being asked a second time connections_cut=1"), "{log}");
}

#[test]
fn sighup_without_certificates_ends_nothing() {
    let mut server = Server::with_example();
    server.signal("HUP");
    server.logs("the rules are built in");
    server.signal("TERM");
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
}

/// One unit; the next request would wait for a year.
const HOPELESS: &str = r#"
[[rule]]
name = "hopeless"
key = ["key"]
algorithm = "token_bucket"
limit = 1
window = "365d"
on_excess = { wait = "365d", max_waiters = 100 }
"#;

/// A command that waits; the one before it is answered.
fn waits_behind_a_ping(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.resp).unwrap();
    stream.write_all(b"PING\r\nTG.CHECK default key a\r\nPING\r\n").unwrap();
    let mut pong = [0; 7];
    stream.read_exact(&mut pong).unwrap();
    stream
}

/// All bytes until the server closes.
fn rest(mut stream: TcpStream) -> String {
    let mut came = String::new();
    stream.read_to_string(&mut came).unwrap();
    came
}

#[tokio::test]
async fn who_waits_in_vain_is_refused_and_not_dropped_mute() {
    let server = Server::with_rules_and(HOPELESS, &["--drain", "2s"]);
    assert_eq!(Client::new(server.http).check(BODY).await.status, 200);
    let (mut http, resp) = (under_way(&server), waits_behind_a_ping(&server));
    server.signal("TERM");
    http.write_all(BODY.as_bytes()).unwrap();
    let (http, resp) = (rest(http), rest(resp));
    assert!(http.starts_with("HTTP/1.1 429"), "{http}");
    assert!(http.contains("retry-after:"), "{http}");
    let told: Vec<_> = resp.lines().collect();
    assert_eq!((told[2], told[3], *told.last().unwrap()), ("allowed", ":0", "+PONG"), "{resp}");
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("stopped connections_cut=0"), "{log}");
}
