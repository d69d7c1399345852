//! HTTP/1.1 messages by RFC 9112: one host, one length, and a connection for as long as both sides
//! want it.

use std::net::SocketAddr;

use crate::process::Server;
use crate::raw::{CHECK, Response, exchange, responses};

/// The statuses of all answers to these bytes, and which of them announces to be the last.
async fn statuses(at: SocketAddr, sent: &str) -> Vec<(String, bool)> {
    let came = exchange(at, sent).await;
    let all = responses(&came);
    let status = |response: &Response<'_>| response.head[9..12].to_owned();
    all.iter().map(|one| (status(one), one.header("connection") == Some("close"))).collect()
}

/// RFC 9112, 3.2: exactly one host; an HTTP/1.0 request needs none.
#[tokio::test]
async fn a_request_is_for_one_host() {
    let server = Server::with_example();
    let ask = |version: &str, hosts: &str| {
        format!("GET /healthz HTTP/{version}\r\n{hosts}connection: close\r\n\r\n")
    };
    for at in [server.http, server.admin] {
        for (version, hosts, status) in [
            ("1.1", "host: a\r\n", "200"),
            ("1.1", "host: [::1]:8080\r\n", "200"),
            ("1.1", "host:\r\n", "200"),
            ("1.0", "", "200"),
            ("1.1", "", "400"),
            ("1.1", "host: a\r\nhost: a\r\n", "400"),
            ("1.0", "host: a\r\nhost: b\r\n", "400"),
            ("1.1", "host: a b\r\n", "400"),
            ("1.1", "host: b@a\r\n", "400"),
            ("1.1", "host: a/b\r\n", "400"),
        ] {
            let answer = statuses(at, &ask(version, hosts)).await;
            assert_eq!(answer.len(), 1, "{version} {hosts:?}");
            assert_eq!(answer[0].0, status, "{version} {hosts:?}");
        }
    }
    let check = CHECK.replace("host: a\r\n", "connection: close\r\n");
    assert_eq!(statuses(server.http, &check).await[0].0, "400", "a check is no other");
}

/// RFC 9112, 6.1: an unknown coding, and one body with two lengths.
#[tokio::test]
async fn a_body_of_two_lengths_or_an_unknown_coding_ends_the_connection() {
    let server = Server::with_example();
    let body = "1e\r\n{\"descriptor\": {\"key\": \"abc\"}}\r\n0\r\n\r\n";
    for (version, fields, status) in [
        ("1.1", "transfer-encoding: chunked\r\ncontent-length: 5\r\n", "200"),
        ("1.1", "content-length: 5\r\ntransfer-encoding: chunked\r\n", "200"),
        ("1.1", "transfer-encoding: gzip\r\n", "400"),
        ("1.1", "transfer-encoding: gzip, chunked\r\n", "501"),
        ("1.1", "transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n", "501"),
        ("1.0", "transfer-encoding: chunked\r\n", "400"),
    ] {
        let sent = format!("POST /v1/check HTTP/{version}\r\nhost: a\r\n{fields}\r\n{body}{CHECK}");
        let answer = statuses(server.http, &sent).await;
        assert_eq!(answer, [(status.to_owned(), true)], "bytes after it are not read: {fields:?}");
    }
}

/// RFC 9112, 9.3 and 9.6, on both paths: a single check, and one that others follow.
#[tokio::test]
async fn a_connection_lasts_as_long_as_its_client_says() {
    let server = Server::with_example();
    let field = |field: &str| CHECK.replace("host: a", &format!("host: a\r\nconnection: {field}"));
    let old = |check: &str| check.replace("HTTP/1.1", "HTTP/1.0");
    for (sent, lasts) in [
        (field("close"), false),
        (field("keep-alive, Close"), false),
        (field("keep-alive\r\nconnection: close"), false),
        (old(CHECK), false),
        (old(&field("keep-alive")), true),
        (field("keep-alive"), true),
        (CHECK.to_owned(), true),
    ] {
        let message = statuses(server.http, &format!("{sent}{}", field("close"))).await;
        assert_eq!(message.len(), if lasts { 2 } else { 1 }, "{sent}");
        let closes = message.last().is_some_and(|(_, closes)| *closes);
        assert!(closes || sent.contains("1.0"), "{sent}");
    }
}
