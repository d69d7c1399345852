//! SIGTERM and SIGINT: requests under way and on their way are answered, new connections are not accepted, exit code 0.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use tempfile::TempDir;

use crate::process::{BINARY, Server};
use crate::raw::{CHECK, HEALTH, rest};

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

#[test]
fn sigterm_and_sigint_let_a_request_under_way_finish() {
    for signal in ["TERM", "INT"] {
        let server = Server::with_example();
        let mut stream = under_way(&server);
        server.signal(signal);
        until_closed(&server);
        stream.write_all(BODY.as_bytes()).unwrap();
        let answer = rest(stream);
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(answer.contains("\"remaining\":4"), "{answer}");
        server.ended_uncut();
    }
}

#[test]
fn a_second_signal_does_not_wait() {
    let mut server = Server::with_example();
    let _stream = under_way(&server);
    server.signal("TERM");
    server.logs_with("stopping once", &["a second signal stops at once, with exit code 1"]);
    server.signal("INT");
    let log = server.ended(1);
    assert!(log.contains("stopped at once, being asked a second time connections_cut=1"), "{log}");
}

#[test]
fn sighup_without_certificates_ends_nothing() {
    let mut server = Server::with_example();
    server.reload("the rules are built in");
    server.stopped();
}

/// One unit; the next request would wait for a year.
const HOPELESS: &str = r#"
rule = [
    { name = "hopeless", key = ["key"], algorithm = "token_bucket", rate = "1/365d", on_excess = { wait = "365d", max_waiters = 100 } },
]
"#;

/// A command that waits; the command before it is answered.
fn waits_behind_a_ping(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.resp).unwrap();
    stream.write_all(b"PING\r\nTG.CHECK default key a\r\nPING\r\n").unwrap();
    let mut pong = [0; 7];
    stream.read_exact(&mut pong).unwrap();
    stream
}

#[tokio::test]
async fn who_waits_in_vain_is_refused_and_not_dropped_mute() {
    let server = Server::with_rules_and(HOPELESS, &["--drain", "2s"]);
    server.client().check(BODY).await.succeeded();
    let (mut http, resp) = (under_way(&server), waits_behind_a_ping(&server));
    server.signal("TERM");
    http.write_all(BODY.as_bytes()).unwrap();
    let (http, resp) = (rest(http), rest(resp));
    assert!(http.starts_with("HTTP/1.1 429"), "{http}");
    assert!(http.contains("retry-after:"), "{http}");
    let answers: Vec<_> = resp.lines().collect();
    assert_eq!(
        (answers[2], answers[3], *answers.last().unwrap()),
        ("allowed", ":0", "+PONG"),
        "{resp}"
    );
    server.ended_uncut();
}

/// The answer to a request over HTTP/1.1; nothing if the connection ends before its first byte.
fn asked(stream: &mut TcpStream, request: &str) -> Option<String> {
    stream.write_all(request.as_bytes()).ok()?;
    let (mut answer, mut bytes) = (String::new(), [0; 4_096]);
    loop {
        let read = stream.read(&mut bytes).unwrap_or(0);
        answer.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
        let whole = answer.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            body.len() == length.map_or(0, |length| length.parse().unwrap())
        });
        match (read, whole) {
            (_, true) => return Some(answer),
            (0, false) => return None,
            _ => {}
        }
    }
}

/// New connections, and some that have been answered before, on the fast path or by hyper.
#[test]
fn a_request_that_was_on_its_way_when_the_server_stops_is_answered_as_the_last() {
    let mut server = Server::with_example();
    let connect = |at| TcpStream::connect(at).unwrap();
    let mut streams: Vec<_> = (0..4).map(|_| connect(server.http)).collect();
    for (number, stream) in streams.iter_mut().enumerate() {
        let before = [None, Some(CHECK), Some(HEALTH), Some(HEALTH)][number];
        assert!(before.is_none_or(|before| asked(stream, before).is_some()));
    }
    let mut resp = connect(server.resp);
    server.signal("TERM");
    server.logs("stopping once");
    for (number, stream) in streams.iter_mut().enumerate() {
        let answer = asked(stream, [CHECK, CHECK, CHECK, HEALTH][number]);
        let answer = answer.unwrap_or_else(|| panic!("connection {number} ended"));
        assert!(answer.starts_with("HTTP/1.1 "), "{number}: {answer}");
        assert!(answer.contains("connection: close\r\n"), "{number}: {answer}");
        assert!(asked(stream, CHECK).is_none(), "{number}: it was the last");
    }
    resp.write_all(b"PING\r\n").unwrap();
    assert_eq!(rest(resp), "+PONG\r\n");
    server.ended_uncut();
}

/// Each client asks again as soon as it is answered, until an answer announces the end.
#[test]
fn no_request_of_a_run_is_lost_when_the_server_stops() {
    fn run(at: SocketAddr, answered: &AtomicUsize) -> Result<(), String> {
        let mut stream = TcpStream::connect(at).unwrap();
        loop {
            let answer = asked(&mut stream, CHECK).ok_or("a request was lost")?;
            answered.fetch_add(1, SeqCst);
            if answer.contains("connection: close\r\n") {
                return Ok(());
            }
        }
    }
    let server = Server::with_example();
    let answered = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..32)
        .map(|_| {
            let (at, answered) = (server.http, Arc::clone(&answered));
            thread::spawn(move || run(at, &answered))
        })
        .collect();
    while answered.load(SeqCst) < 2_000 {
        thread::yield_now();
    }
    server.signal("TERM");
    let ends: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    assert_eq!(ends.iter().filter(|end| end.is_err()).count(), 0, "{ends:?}");
    assert_eq!(server.end().0, Some(0));
}

/// A library before the system's, in which writes never reach the disk.
const HANGS: &str = "#include <unistd.h>\nint fsync(int file) { (void)file; for (;;) pause(); }\n";

#[test]
fn a_disk_that_hangs_does_not_keep_a_server_from_stopping() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("hangs.c"), HANGS).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o", &path("hangs.so"), &path("hangs.c")]);
    assert!(compiler.status().unwrap().success());
    let mut command = Command::new(BINARY);
    command.env("LD_PRELOAD", path("hangs.so"));
    let server = Server::of(command, &["--snapshot", &path("limiters")]);
    server.signal("TERM");
    let log = server.ended(1);
    assert!(log.contains("stopped without the last snapshot") && log.contains("4s"), "{log}");
}
