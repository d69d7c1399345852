//! Requests that are not HTTP end the connection with a status, over HTTP/1.1; answers before them are unchanged.

use crate::process::Server;
use crate::raw::{CHECK, Response, exchange, responses};

/// Bytes that are no request.
const GARBAGE: [&str; 13] = [
    "garbage\r\n\r\n",
    "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\u{fc}\u{3}\u{3}",
    "GET /\r\n\r\n",
    "GET / HTTP/1.1\r\nbad header\r\n\r\n",
    "GET / HTTP/1.1\r\n: no name\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: a\0b\r\n\r\n",
    "GET / HTTP/3.0\r\nhost: a\r\n\r\n",
    "GET / JUNK/1.1\r\nhost: a\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
    "GET  / HTTP/1.1\r\nhost: a\r\n\r\n",
    "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: x\r\n\r\n",
    "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
    "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}",
];

/// Checks that a response ends the connection with this status.
fn is_last(response: &Response<'_>, status: u16) {
    assert!(response.head.starts_with(&format!("HTTP/1.1 {status} ")), "{response:?}");
    assert_eq!(response.header("connection"), Some("close"), "{response:?}");
}

#[tokio::test]
async fn what_is_no_request_is_400_and_ends_the_connection() {
    let server = Server::with_example();
    for at in [server.http, server.admin] {
        for sent in GARBAGE {
            let came = exchange(at, sent).await;
            let all = responses(&came);
            assert_eq!(all.len(), 1, "{sent:?}: {came}");
            is_last(&all[0], 400);
        }
    }
}

#[tokio::test]
async fn a_head_of_too_many_fields_is_431() {
    let server = Server::with_example();
    let many = "a: b\r\n".repeat(101);
    let came = exchange(server.http, &format!("GET /healthz HTTP/1.1\r\n{many}\r\n")).await;
    is_last(&responses(&came)[0], 431);
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
    is_last(&all[2], 400);
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
    is_last(&all[1], 400);
}

#[tokio::test]
async fn chunks_that_are_nonsense_are_a_mistake_of_the_body() {
    let server = Server::with_example();
    let head = "POST /v1/check HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    for chunks in ["zz\r\n{}\r\n0\r\n\r\n", "fffffffffffffffff\r\n{}", "2\r\n{}xx0\r\n\r\n"] {
        let came = exchange(server.http, &format!("{head}{chunks}")).await;
        let (kind, detail) = responses(&came)[0].problem(400);
        assert!(kind.ends_with(":invalid-body"), "{chunks}: {kind}");
        assert!(detail.contains("the body broke off: invalid chunk"), "{chunks}: {detail}");
        assert!(detail.contains("chunks that each follow their size"), "{chunks}: {detail}");
    }
}
