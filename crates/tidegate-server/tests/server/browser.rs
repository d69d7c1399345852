//! Requests that a browser sends for a web page, and their answers.

use crate::certificates::Certificates;
use crate::process::Server;
use crate::raw::{exchange, responses};

/// A POST as a browser sends it for a page of `origin` to `host`.
fn post(path: &str, host: &str, origin: &str, more: &str) -> String {
    let origin = if origin.is_empty() { String::new() } else { format!("origin: {origin}\r\n") };
    let body = r#"{"descriptor": {"key": "a"}}"#;
    format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\n{origin}{more}content-type: application/json\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn a_page_of_another_origin_asks_in_vain_at_both_listeners() {
    let server = Server::with_example();
    for (at, path) in [(server.http, "/v1/check"), (server.admin, "/v1/reset")] {
        let host = at.to_string();
        for origin in ["http://evil.example", "null", "http://127.0.0.1:1", "https://localhost"] {
            let came = exchange(at, &post(path, &host, origin, "")).await;
            let (kind, detail) = responses(&came)[0].problem(403);
            assert!(kind.ends_with(":forbidden") && detail.contains(origin), "{detail}");
        }
        for origin in ["", &format!("http://{host}")] {
            let came = exchange(at, &post(path, &host, origin, "")).await;
            assert!(came.starts_with("HTTP/1.1 200"), "{origin}: {came}");
        }
    }
}

/// DNS rebinding: to the browser the page and the listener are one origin.
#[tokio::test]
async fn operators_are_not_answered_under_a_name_that_a_page_could_have() {
    let server = Server::with_example();
    let port = server.admin.port();
    let own = format!("evil.example:{port}");
    let came = exchange(server.admin, &post("/v1/reset", &own, &format!("http://{own}"), "")).await;
    assert!(responses(&came)[0].problem(403).1.contains("expected an IP address or localhost"));
    let rules = format!("GET /v1/rules HTTP/1.1\r\nhost: {own}\r\nconnection: close\r\n\r\n");
    let came = exchange(server.admin, &rules).await;
    assert!(came.starts_with("HTTP/1.1 403"), "{came}");
    for host in [&format!("localhost:{port}"), "[::1]:9090", "10.0.0.7"] {
        let came = exchange(server.admin, &post("/v1/reset", host, "", "")).await;
        assert!(came.starts_with("HTTP/1.1 200"), "{host}: {came}");
    }
    let came = exchange(server.http, &post("/v1/check", "limits.internal", "", "")).await;
    assert!(came.starts_with("HTTP/1.1 200"), "clients may know the server by any name: {came}");
}

/// Also where clients may undo limits.
#[tokio::test]
async fn a_page_undoes_no_limit_at_the_public_listener_either() {
    let server = Server::with_arguments(&["--public-verbs", "check,refund,reset"]);
    let own = format!("evil.example:{}", server.http.port());
    for path in ["/v1/reset", "/v1/refund"] {
        let asked = post(path, &own, &format!("http://{own}"), "");
        let came = exchange(server.http, &asked).await;
        assert!(responses(&came)[0].problem(403).1.contains("expected an IP address or localhost"));
        let untyped =
            post(path, "localhost", "", "").replace("content-type: application/json\r\n", "");
        let came = exchange(server.http, &untyped).await;
        assert!(came.starts_with("HTTP/1.1 415"), "{came}");
        let came = exchange(server.http, &post(path, "localhost", "", "")).await;
        assert!(came.starts_with("HTTP/1.1 200"), "{came}");
    }
}

#[tokio::test]
async fn who_shows_a_token_is_no_page() {
    let files = Certificates::folder();
    let tokens = files.with("tokens", "sesame");
    let server = Server::with_arguments(&["--token-file", &tokens]);
    let token = "authorization: Bearer sesame\r\n";
    let asked = post("/v1/reset", "limits.internal", "https://console.internal", token);
    let came = exchange(server.admin, &asked).await;
    assert!(came.starts_with("HTTP/1.1 200"), "{came}");
}
