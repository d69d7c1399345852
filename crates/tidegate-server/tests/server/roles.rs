//! Operators who may change, operators who may only read, and the lines of the log about changes.

use std::process::Command;

use serde_json::json;

use crate::certificates::Certificates;
use crate::client::Client;
use crate::process::{ANY_PORTS, BINARY, Server};
use crate::raw;

const RULES: &str = r#"
[[rule]]
name = "per-user"
key = ["user"]
algorithm = "sliding_log"
limit = 5
window = "1d"
"#;

const ADA: &str = r#"{"descriptor": {"user": "ada-s3cret"}}"#;

#[tokio::test]
async fn a_reader_looks_at_everything_and_changes_nothing() {
    let files = Certificates::new();
    let (change, read) = (files.with("change", "for-change"), files.with("read", "for-read"));
    let more = ["--admin-token-file", &change, "--admin-read-token-file", &read];
    let server = Server::with_rules_and(RULES, &more);
    let (public, admin) = (Client::new(server.http), Client::new(server.admin));
    let reader = [("authorization", "Bearer for-read")];
    for path in ["/v1/rules", "/metrics"] {
        assert_eq!(admin.get_with(path, &reader).await.status, 200);
        assert_eq!(admin.get(path).await.status, 401);
    }
    assert_eq!(public.check(ADA).await.json()["remaining"], 4);
    let peek = admin.post_as("/v1/peek", ADA, "Bearer for-read").await;
    assert_eq!(peek.json()["remaining"], 4);
    let settle = json!({"reservation": "0".repeat(32), "actual": 1}).to_string();
    for (path, body) in [("/v1/reset", ADA), ("/v1/refund", ADA), ("/v1/settle", &settle)] {
        let refused = admin.post_as(path, body, "Bearer for-read").await;
        assert_eq!(refused.json()["type"], "urn:problem-type:tidegate:role-forbidden");
        let detail = refused.problem(403);
        assert!(detail.contains("needs the role change"), "{detail}");
        assert!(detail.contains("--admin-token-file"), "{detail}");
    }
    let put = admin.put_rules_as("*", RULES, "Bearer for-read").await;
    assert!(put.problem(403).contains("PUT /v1/rules"));
    assert_eq!(public.check(ADA).await.json()["remaining"], 3, "nothing was reset");
    assert_eq!(admin.post_as("/v1/reset", ADA, "Bearer for-change").await.status, 200);
    assert_eq!(admin.post_as("/v1/reset", ADA, "Bearer unknown").await.status, 401);
}

#[tokio::test]
async fn a_reader_who_tries_every_method_at_every_path_changes_nothing() {
    let files = Certificates::new();
    let (change, read) = (files.with("change", "for-change"), files.with("read", "for-read"));
    let more = ["--admin-token-file", &change, "--admin-read-token-file", &read];
    let server = Server::with_rules_and(RULES, &more);
    let (public, admin) = (Client::new(server.http), Client::new(server.admin));
    assert_eq!(public.check(ADA).await.json()["remaining"], 4);
    let before = admin.get_with("/v1/rules", &[("authorization", "Bearer for-read")]).await.text;
    let paths = [
        "check",
        "peek",
        "reserve",
        "settle",
        "refund",
        "reset",
        "report",
        "rules",
        "stats",
        "top",
        "decisions",
        "stats/events",
    ];
    let paths = paths.map(|path| format!("/v1/{path}"));
    for path in paths.iter().map(String::as_str).chain(["/metrics", "/healthz"]) {
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            let request = format!(
                "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer for-read\r\n\
                 content-type: application/json\r\nif-match: *\r\nconnection: close\r\n\
                 content-length: {}\r\n\r\n{ADA}",
                ADA.len()
            );
            let status = raw::status(server.admin, &request).await;
            let reads = ["GET", "HEAD"].contains(&method)
                && ["rules", "stats", "top", "decisions", "stats/events", "metrics", "healthz"]
                    .contains(&path.trim_start_matches("/v1/").trim_start_matches('/'))
                || (method, path) == ("POST", "/v1/peek");
            assert_eq!(status == 200, reads, "{method} {path}: {status}");
            assert!(status == 200 || (400..500).contains(&status), "{method} {path}: {status}");
        }
    }
    let after = admin.get_with("/v1/rules", &[("authorization", "Bearer for-read")]).await.text;
    assert_eq!(before, after);
    assert_eq!(public.check(ADA).await.json()["remaining"], 3);
}

/// Each line says who, what, before and after, and no entry of a request.
#[tokio::test]
async fn each_change_of_an_operator_is_a_line_of_the_log() {
    let files = Certificates::new();
    let tokens = files.with("tokens", "first\nsecond");
    let mut server = Server::with_rules_and(
        RULES,
        &["--admin-token-file", &tokens, "--public-verbs", "check,reserve"],
    );
    let (public, admin) = (Client::new(server.http), Client::new(server.admin));
    let spend = ADA.replace('}', "") + "}, \"cost\": 5}";
    let told = public.post("/v1/reserve", &spend).await.json();
    let refund = spend.replace('5', "2");
    for (path, body, expected) in [
        (
            "/v1/refund",
            refund.clone(),
            ["verb=\"refund\"", "per-user: 0 of 5", "per-user: 2 of 5", "units=2"],
        ),
        (
            "/v1/renew",
            json!({"reservation": told["reservation"]}).to_string(),
            ["verb=\"renew\"", "renewed=true", "token 2", "role change"],
        ),
        (
            "/v1/settle",
            json!({"reservation": told["reservation"], "actual": 4}).to_string(),
            ["verb=\"settle\"", "reserved [5]", "settled for [4]", "domain=\"default\""],
        ),
        (
            "/v1/reset",
            ADA.to_owned(),
            ["verb=\"reset\"", "per-user: 3 of 5", "per-user: 5 of 5", "descriptors=1"],
        ),
    ] {
        let changed = admin.post_as(path, &body, "Bearer second").await;
        assert_eq!(changed.status, 200, "{}", changed.text);
        let line = server.logs("limiters were changed by an operator");
        assert!(line.contains("who=127.0.0.1:") && line.contains("token 2, role change"), "{line}");
        for part in expected {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(!line.contains("s3cret"), "{line}");
    }
    // More than other events are logged in a minute.
    for _ in 0..30 {
        assert_eq!(admin.post_as("/v1/reset", ADA, "Bearer first").await.status, 200);
    }
    for _ in 0..30 {
        let _ = server.logs("limiters were changed by an operator");
    }
}

#[test]
fn a_certificate_that_is_named_only_reads() {
    let files = Certificates::new();
    let paths = ["server.pem", "server.key", "ca.pem"].map(|name| files.path(name));
    let more = [
        "--tls-cert",
        &paths[0],
        "--tls-key",
        &paths[1],
        "--tls-client-ca",
        &paths[2],
        "--admin-readers",
        "ann,client",
    ];
    let mut server = Server::with_rules_and(RULES, &more);
    let curl = |path: &str, name: &str, more: &[&str]| {
        let url = format!("https://{}{path}", server.admin);
        let (cert, key) = (files.path(&format!("{name}.pem")), files.path(&format!("{name}.key")));
        let mut command = Command::new("curl");
        command.args(["-s", "-w", "%{http_code}", "--cacert", &paths[2], &url]);
        let output = command.args(["--cert", &cert, "--key", &key]).args(more).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let reset = ["-H", "content-type: application/json", "-d", ADA];
    assert!(curl("/v1/rules", "client", &[]).ends_with("200"));
    let refused = curl("/v1/reset", "client", &reset);
    assert!(refused.ends_with("403") && refused.contains("--admin-readers"), "{refused}");
    let reset = curl("/v1/reset", "server", &reset);
    assert!(reset.ends_with("200"), "{reset}");
    let line = server.logs("limiters were changed by an operator");
    assert!(line.contains("certificate of server, role change"), "{line}");
}

#[test]
fn beyond_loopback_operators_are_asked_for_a_token_or_the_server_does_not_start() {
    let files = Certificates::new();
    let token = files.with("token", &"a".repeat(32));
    let start = |more: &[&str]| {
        let mut command = Command::new(BINARY);
        command.arg("serve").args(&ANY_PORTS[..6]).args(["--admin", "0.0.0.0:0"]).args(more);
        command
    };
    let refused = start(&[]).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("--admin 0.0.0.0:") && said.contains("--admin-token-file"), "{said}");
    let named = start(&["--admin-readers", "ann"]).output().unwrap();
    let said = String::from_utf8(named.stderr).unwrap();
    assert!(said.contains("expected --tls-client-ca"), "{said}");
    for flag in ["--token-file", "--admin-token-file", "--admin-read-token-file"] {
        let more = ["--admin", "0.0.0.0:0", flag, &*token];
        drop(Server::with_arguments(&more));
    }
}
