//! Every kind of bad request gets a problem with the error and the expected text.

use std::io::{Read, Write};

use hyper::Method;

use crate::client::{Answer, Client};
use crate::process::Server;
use crate::raw;

/// A body, and a part of the detail of its problem.
const BODIES: [(&str, &str); 33] = [
    ("", "EOF while parsing a value at line 1 column 0"),
    ("{", "not JSON: EOF while parsing an object at line 1 column 1"),
    ("{\"descriptor\": {}} x", "trailing characters at line 1 column 20"),
    ("[]", "the batch is empty: expected such as {\"descriptor\""),
    (
        "[{\"descriptor\": {}}, {}]",
        "question 2 of the batch: neither `descriptor` nor `descriptors`",
    ),
    ("[[]]", "invalid type: sequence, expected an object"),
    (
        r#"[{"descriptor": {}, "max_wait_ms": 1}]"#,
        "question 1 of the batch: `max_wait_ms` is more than 0, and nothing in a batch waits",
    ),
    (
        r#"{"descriptor": {}, "max_wait_ms": -1}"#,
        "expected a wait in milliseconds, which is a whole",
    ),
    (r#"{"descriptor": {}, "max_wait_ms": 86400001}"#, "number from 0 to 86400000"),
    ("3", "invalid type: integer `3`, expected an object"),
    ("{}", "neither `descriptor` nor `descriptors`"),
    (r#"{"descriptor": {}, "descriptors": [{}]}"#, "both `descriptor` and `descriptors`"),
    (r#"{"descriptors": []}"#, "`descriptors` is empty"),
    (r#"{"descriptr": {}}"#, "unknown field `descriptr`, expected one of `domain`, `descriptor`"),
    ("{\n  \"descriptor\": {},\n  \"hits\": 1\n}", "unknown field `hits`"),
    (r#"{"descriptor": {}, "cost": 1, "cost": 2}"#, "duplicate field `cost`"),
    (r#"{"domain": "", "descriptor": {}}"#, "`domain` is empty"),
    (r#"{"domain": 7, "descriptor": {}}"#, "integer `7`, expected a string"),
    (r#"{"domain": null, "descriptor": {}}"#, "null, expected a string"),
    (r#"{"descriptor": null}"#, "null, expected an object of text values"),
    (r#"{"descriptor": ["user", "a"]}"#, "sequence, expected an object of text values"),
    (r#"{"descriptor": {"user": 7}}"#, "integer `7`, expected a string at line 1 column 25"),
    (r#"{"descriptors": {"user": "a"}}"#, "map, expected a sequence"),
    (r#"{"descriptors": ["user"]}"#, "string \"user\", expected a descriptor, such as"),
    (r#"{"descriptors": [{"user": 7}]}"#, "entry `user` is not a text"),
    (
        r#"{"descriptors": [{"descriptor": {}, "user": "a"}]}"#,
        "unknown field `user`, expected `descriptor` or `cost`",
    ),
    (r#"{"descriptors": [{"descriptor": {}, "descriptor": {}}]}"#, "duplicate field `descriptor`"),
    (r#"{"descriptors": [{"cost": 2}]}"#, "missing field `descriptor`"),
    (
        r#"{"descriptors": [{"descriptor": {}, "cost": "2"}]}"#,
        "string \"2\", expected a cost, which is a whole number",
    ),
    (
        r#"{"descriptor": {}, "cost": -1}"#,
        "integer `-1`, expected a cost, which is a whole number from 0 to 1000000000",
    ),
    (r#"{"descriptor": {}, "cost": 1.5}"#, "floating point `1.5`, expected a cost"),
    (r#"{"descriptor": {}, "cost": 1000000001}"#, "integer `1000000001`, expected a cost"),
    (r#"{"descriptor": {}, "cost": 99999999999999999999}"#, "expected a cost"),
];

fn server() -> (Server, Client) {
    let server = Server::with_example();
    let client = server.client();
    (server, client)
}

#[tokio::test]
async fn a_body_that_can_not_be_understood_is_answered_what_is_wrong() {
    let (_server, client) = server();
    for (body, expected) in BODIES {
        let detail = client.check(body).await.problem(400);
        assert!(detail.contains(expected), "{body}: {detail}");
        assert!(detail.contains("expected such as {\"descriptor\""), "{body}: {detail}");
    }
}

#[tokio::test]
async fn a_mistake_is_at_a_place_and_takes_nothing() {
    let (_server, client) = server();
    let problem = client.check("{\n  \"descriptor\": {},\n  \"hits\": 1\n}").await.json();
    assert_eq!((&problem["line"], &problem["column"]), (&3.into(), &8.into()));
    let body = b"{\"descriptor\": {\"user\": \xff\"a\"}}".to_vec();
    let json = Some("application/json");
    let detail = client.send(Method::POST, "/v1/check", json, body).await.problem(400);
    assert!(detail.contains("expected value at line 1 column"), "not UTF-8: {detail}");
    let good = r#"{"descriptor": {"key": "a"}}"#;
    client.check(&good.replace('}', "} x")).await.problem(400);
    assert_eq!(client.check(good).await.json()["remaining"], 4);
    let answer = client.check(r#"{"descriptor": {"key": "a"}, "cost": 1000000000}"#).await;
    assert_eq!(answer.status, 422, "the largest cost is understood, and never fits");
}

/// All requests with a body, on both listeners.
fn posts(server: &Server) -> [(Client, &'static str); 4] {
    let (public, admin) = (server.client(), server.operator());
    [
        (public.clone(), "/v1/check"),
        (public, "/v1/peek"),
        (admin.clone(), "/v1/reset"),
        (admin, "/v1/refund"),
    ]
}

async fn typed(client: &Client, path: &str, kind: Option<&str>) -> Answer {
    let body = br#"{"descriptor": {"user": "a"}}"#.to_vec();
    client.send(Method::POST, path, kind, body).await
}

/// A web page can have a browser post to this machine, but not with a type of its choice.
#[tokio::test]
async fn only_json_is_read_and_what_changes_limiters_must_be_declared_as_json() {
    let server = Server::with_example();
    for (client, path) in posts(&server) {
        for kind in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "application/json; charset=latin1",
            "application/problem+json",
            "",
        ] {
            let detail = typed(&client, path, Some(kind)).await.problem(415);
            let expected = format!("{kind:?}: expected application/json");
            assert!(detail.contains(&expected), "{path}: {detail}");
            assert!(detail.contains("-H 'content-type: application/json'"), "the fix: {detail}");
        }
        let json = Some("application/json; charset=UTF-8");
        assert_eq!(typed(&client, path, json).await.status, 200, "{path}");
        match path {
            "/v1/reset" | "/v1/refund" => {
                typed(&client, path, None).await.refused(415, "content-type is missing");
            }
            _ => assert_eq!(typed(&client, path, None).await.status, 200, "{path}"),
        }
    }
    // The answer named a type for a method that the path does not take with any.
    let admin = server.operator();
    typed(&admin, "/v1/top", None).await.refused(405, "expected GET");
    admin.get("/v1/rules").await.succeeded();
    let json = "content-type: application/json\r\n";
    for (second, status) in [(json, 200), ("content-type: text/plain\r\n", 415)] {
        let sent = format!(
            "POST /v1/check HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{json}{second}content-length: 18\r\n\r\n{{\"descriptor\": {{}}}}"
        );
        assert_eq!(raw::status(server.http, &sent).await, status, "{second}");
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_is_413() {
    let (_server, client) = server();
    let body = |bytes: usize| {
        let body = r#"{"descriptor": {}}"#;
        format!("{body}{}", " ".repeat(bytes - body.len()))
    };
    client.check(&body(1 << 20)).await.succeeded();
    client.check(&body((1 << 20) + 1)).await.refused(413, "at most 1048576 bytes");
}

#[tokio::test]
async fn descriptors_and_entries_are_only_so_many() {
    let (_server, client) = server();
    let descriptors = |n: usize| format!(r#"{{"descriptors": [{}]}}"#, vec!["{}"; n].join(","));
    client.check(&descriptors(64)).await.succeeded();
    client.check(&descriptors(65)).await.refused(400, "has 65 items, and at most 64 are taken");

    let entries =
        |n: usize| (0..n).map(|i| format!(r#""e{i}": "v""#)).collect::<Vec<_>>().join(",");
    for form in [
        r#"{"descriptor": {@}}"#,
        r#"{"descriptors": [{@}]}"#,
        r#"{"descriptors": [{"descriptor": {@}}]}"#,
    ] {
        assert_eq!(client.check(&form.replace('@', &entries(64))).await.status, 200, "{form}");
        let detail = client.check(&form.replace('@', &entries(65))).await.problem(400);
        assert!(detail.contains("at most 64 entries"), "{form}: {detail}");
    }
}

#[tokio::test]
async fn a_path_is_answered_at_its_listener_and_with_its_method() {
    let (server, client) = server();
    let admin = server.operator();
    for (client, path, expected) in [
        (
            &client,
            "/v1/chek",
            "/v1/chek: expected one of /v1/check, /v1/peek, /healthz, /openapi.json",
        ),
        (
            &admin,
            "/",
            "expected one of /v1/peek, /v1/settle, /v1/renew, /v1/reservations, /v1/drop, /v1/refund, \
             /v1/reset, /v1/report, /v1/rules, /metrics, /v1/stats, /v1/stats/events, /v1/top, /v1/decisions, /v1/recorded, /healthz, /openapi.json",
        ),
        (&client, "/v1/rules", "is answered on the admin listener, at its own port"),
        (&client, "/metrics", "is answered on the admin listener, at its own port"),
        (&admin, "/v1/check", "is answered on the public listener, at its own port"),
        (&admin, "/v1/reserve", "is answered on the public listener, at its own port"),
    ] {
        let detail = client.post(path, r#"{"descriptor": {}}"#).await.problem(404);
        assert!(detail.ends_with(expected), "{path}: {detail}");
    }
    let answer = client.get("/v1/check").await;
    assert_eq!(answer.header("allow"), Some("POST"));
    answer.refused(405, "/v1/check does not take GET");
    let answer = admin.post("/v1/rules", "{}").await;
    assert_eq!(answer.header("allow"), Some("GET,HEAD,PUT"));
    answer.problem(405);
}

/// The head alone, and the head with its whole body in one write.
#[test]
fn a_refusal_before_the_body_announces_the_end_and_one_after_it_does_not() {
    let server = Server::with_example();
    let refused = |head: &str, body: &str| {
        let mut stream = std::net::TcpStream::connect(server.http).unwrap();
        stream.write_all(format!("{head}\r\nhost: a\r\n\r\n{body}").as_bytes()).unwrap();
        let mut came = String::new();
        while !came.contains("\r\n\r\n") {
            let mut bytes = [0; 1_024];
            let read = stream.read(&mut bytes).unwrap();
            assert!(read > 0, "{head}: {came}");
            came.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
        (came[9..12].to_owned(), came.contains("connection: close\r\n"))
    };
    let typed = "content-type: application/json";
    for (head, status) in [
        ("POST /v1/check HTTP/1.1\r\ncontent-type: text/html\r\ncontent-length: 9", "415"),
        ("POST /nowhere HTTP/1.1\r\ncontent-length: 9", "404"),
        ("PUT /v1/check HTTP/1.1\r\ncontent-length: 9", "405"),
        ("POST /v1/reset HTTP/1.1\r\ncontent-length: 9", "403"),
    ] {
        assert_eq!(refused(head, ""), (status.to_owned(), true), "{head}");
        assert_eq!(refused(head, "{\"a\": 12}"), (status.to_owned(), false), "{head}");
        let asks = format!("{head}\r\nexpect: 100-continue");
        assert_eq!(refused(&asks, ""), (status.to_owned(), true), "{asks}");
    }
    let large = format!("POST /v1/check HTTP/1.1\r\n{typed}\r\ncontent-length: 99999999");
    assert_eq!(refused(&large, ""), ("413".to_owned(), true));
}
