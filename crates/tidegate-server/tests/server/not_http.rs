//! Requests that are not HTTP get a problem too, over HTTP/1.1; answers before them are unchanged.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::process::Server;
use crate::raw::{Response, exchange, responses};

const PROBLEM: &str = "urn:problem-type:tidegate:";
const CHECK: &str = "POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: 30\r\n\r\n\
                     {\"descriptor\": {\"key\": \"abc\"}}";

/// The input, and a part of the detail of its problem.
const GARBAGE: [(&str, &str); 13] = [
    ("garbage\r\n\r\n", "invalid"),
    ("\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\u{fc}\u{3}\u{3}", "http://, not https://"),
    ("GET /\r\n\r\n", "invalid"),
    ("GET / HTTP/1.1\r\nbad header\r\n\r\n", "invalid HTTP header"),
    ("GET / HTTP/1.1\r\n: no name\r\n\r\n", "invalid HTTP header"),
    ("GET / HTTP/1.1\r\nhost: a\0b\r\n\r\n", "invalid HTTP header"),
    ("GET / HTTP/3.0\r\nhost: a\r\n\r\n", "invalid HTTP version"),
    ("GET / JUNK/1.1\r\nhost: a\r\n\r\n", "invalid HTTP version"),
    ("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", "invalid HTTP version"),
    ("GET  / HTTP/1.1\r\nhost: a\r\n\r\n", "invalid"),
    ("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: x\r\n\r\n", "content-length"),
    ("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n", "content-length"),
    (
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}",
        "content-length",
    ),
];

/// The type and the detail of the one problem that these bytes get.
async fn refused(at: SocketAddr, sent: &str, status: u16) -> (String, String) {
    let came = exchange(at, sent).await;
    let all = responses(&came);
    assert_eq!(all.len(), 1, "{came}");
    last_problem(&all[0], status)
}

/// The type and the detail of a problem that ends the connection.
fn last_problem(response: &Response<'_>, status: u16) -> (String, String) {
    assert_eq!(response.header("connection"), Some("close"), "{response:?}");
    response.problem(status)
}

#[tokio::test]
async fn what_is_no_request_is_an_error_that_says_what_is_wrong_and_what_was_expected() {
    let server = Server::with_example();
    for at in [server.http, server.admin] {
        for (sent, expected) in GARBAGE {
            let (kind, detail) = refused(at, sent, 400).await;
            assert_eq!(kind, format!("{PROBLEM}invalid-request"), "{sent:?}");
            assert!(detail.contains(expected), "{sent:?}: {detail}");
            assert!(detail.contains("`POST /v1/check HTTP/1.1`"), "{sent:?}: {detail}");
        }
    }
}

#[tokio::test]
async fn a_head_that_is_too_large_is_431_however_much_of_it_there_is() {
    let server = Server::with_example();
    let long = "x".repeat(100_000);
    let many = "a: b\r\n".repeat(101);
    for sent in [
        format!("GET /healthz HTTP/1.1\r\nlong: {long}\r\n\r\n"),
        format!("GET /{long} HTTP/1.1\r\nhost: a\r\n\r\n"),
        format!("{long}{long}"),
        format!("GET /healthz HTTP/1.1\r\n{many}\r\n"),
    ] {
        let (kind, detail) = refused(server.http, &sent, 431).await;
        assert_eq!(kind, format!("{PROBLEM}head-too-large"));
        assert!(detail.contains("less than 65536 bytes"), "{detail}");
        assert!(detail.contains("at most 100 fields"), "{detail}");
    }
    let most = "a: b\r\n".repeat(98);
    let sent = format!("GET /healthz HTTP/1.1\r\nhost: a\r\n{most}connection: close\r\n\r\n");
    let came = exchange(server.http, &sent).await;
    assert!(came.starts_with("HTTP/1.1 200 OK"), "{came}");
}

#[tokio::test]
async fn good_requests_before_a_bad_one_get_their_answers_first() {
    let server = Server::with_example();
    let came = exchange(server.http, &format!("{CHECK}{CHECK}nonsense\r\n\r\n{CHECK}")).await;
    let all = responses(&came);
    assert_eq!(all.len(), 3, "{came}");
    for (good, remaining) in all.iter().zip(["4", "3"]) {
        assert!(good.head.starts_with("HTTP/1.1 200 OK"), "{good:?}");
        assert_eq!(good.header("content-type"), Some("application/json"));
        assert_eq!(good.header("x-ratelimit-remaining"), Some(remaining));
    }
    last_problem(&all[2], 400);
}

#[tokio::test]
async fn a_bad_request_that_comes_byte_by_byte_gets_the_same_answer() {
    let server = Server::with_example();
    let sent = format!("{CHECK}GET / HTTP/1.1\r\nbad header\r\n\r\n");
    let mut stream = TcpStream::connect(server.http).await.unwrap();
    stream.set_nodelay(true).unwrap();
    for byte in sent.bytes() {
        // The server may answer before the last byte; the rest is read and dropped.
        stream.write_all(&[byte]).await.unwrap();
    }
    let mut came = String::new();
    stream.read_to_string(&mut came).await.unwrap();
    let all = responses(&came);
    assert!(all[0].head.starts_with("HTTP/1.1 200 OK"), "{came}");
    assert!(last_problem(&all[1], 400).1.contains("invalid HTTP header"), "{came}");
}

#[tokio::test]
async fn a_problem_of_the_router_before_a_bad_request_is_its_own() {
    let server = Server::with_example();
    let sent = "HEAD /nowhere HTTP/1.1\r\nhost: a\r\n\r\n\
                POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\n{";
    let came = exchange(server.http, &format!("{sent}nonsense\r\n\r\n")).await;
    let (head, rest) = came.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 404 "), "{came}");
    let all = responses(rest);
    assert!(all[0].head.starts_with("HTTP/1.1 400 "), "{came}");
    assert!(all[0].body.contains("invalid-body"), "{came}");
    assert!(last_problem(&all[1], 400).0.ends_with("invalid-request"), "{came}");
}

#[tokio::test]
async fn chunks_that_are_nonsense_are_a_mistake_of_the_body() {
    let server = Server::with_example();
    let head = "POST /v1/check HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    for chunks in ["zz\r\n{}\r\n0\r\n\r\n", "fffffffffffffffff\r\n{}", "2\r\n{}xx0\r\n\r\n"] {
        let came = exchange(server.http, &format!("{head}{chunks}")).await;
        let (kind, detail) = responses(&came)[0].problem(400);
        assert_eq!(kind, format!("{PROBLEM}invalid-body"), "{chunks}");
        assert!(detail.contains("the body broke off: invalid chunk"), "{chunks}: {detail}");
        assert!(detail.contains("chunks each behind its size"), "{chunks}: {detail}");
    }
}
