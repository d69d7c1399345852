//! Operators who may change, operators who may only read, and the lines of the log about changes.

use serde_json::json;

use crate::certificates::Certificates;
use crate::process::{Server, not_started, not_started_in};
use crate::raw;

const RULES: &str = r#"
rule = [
    { name = "per-user", key = ["user"], algorithm = "sliding_log", rate = "5/1d" },
]
"#;

const ADA: &str = r#"{"descriptor": {"user": "ada-s3cret"}}"#;

#[tokio::test]
async fn a_reader_looks_at_everything_and_changes_nothing() {
    let files = Certificates::folder();
    let server = Server::with_rules_and(RULES, &files.operators());
    let (public, admin) = (server.client(), server.operator());
    for path in ["/v1/rules", "/metrics"] {
        admin.get_as(path, "Bearer for-read").await.succeeded();
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
    put.refused(403, "PUT /v1/rules");
    assert_eq!(public.check(ADA).await.json()["remaining"], 3, "nothing was reset");
    admin.post_as("/v1/reset", ADA, "Bearer for-change").await.succeeded();
    assert_eq!(admin.post_as("/v1/reset", ADA, "Bearer unknown").await.status, 401);
}

#[tokio::test]
async fn a_reader_who_tries_every_method_at_every_path_changes_nothing() {
    let files = Certificates::folder();
    let more = [&files.operators()[..], &["--record", "1m"]].concat();
    let server = Server::with_rules_and(RULES, &more);
    let (public, admin) = (server.client(), server.operator());
    assert_eq!(public.check(ADA).await.json()["remaining"], 4);
    let before = admin.get_as("/v1/rules", "Bearer for-read").await.text;
    let read: Vec<_> =
        "/v1/rules /v1/stats /v1/top /v1/decisions /v1/recorded /v1/stats/events /metrics \
         /healthz /openapi.json"
            .split(' ')
            .collect();
    let changing = ["check", "peek", "reserve", "settle", "refund", "reset", "report"];
    let changing = changing.map(|path| format!("/v1/{path}"));
    for path in changing.iter().map(String::as_str).chain(read.iter().copied()) {
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            let request = format!(
                "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer for-read\r\n\
                 content-type: application/json\r\nif-match: *\r\nconnection: close\r\n\
                 content-length: {}\r\n\r\n{ADA}",
                ADA.len()
            );
            let status = raw::status(server.admin, &request).await;
            let is_read = ["GET", "HEAD"].contains(&method) && read.contains(&path)
                || (method, path) == ("POST", "/v1/peek");
            assert_eq!(status == 200, is_read, "{method} {path}: {status}");
            assert!(status == 200 || (400..500).contains(&status), "{method} {path}: {status}");
        }
    }
    let after = admin.get_as("/v1/rules", "Bearer for-read").await.text;
    assert_eq!(before, after);
    assert_eq!(public.check(ADA).await.json()["remaining"], 3);
}

/// Each line has the operator, the change, the state before and after, and no entry of a request.
#[tokio::test]
async fn each_change_of_an_operator_is_a_line_of_the_log() {
    let files = Certificates::folder();
    let tokens = files.with("tokens", "first\nsecond");
    let mut server = Server::with_rules_and(
        RULES,
        &["--admin-token-file", &tokens, "--public-verbs", "check,reserve"],
    );
    let (public, admin) = (server.client(), server.operator());
    let spend = ADA.replace('}', "") + "}, \"cost\": 5}";
    let answer = public.post("/v1/reserve", &spend).await.json();
    let refund = spend.replace('5', "2");
    for (path, body, expected) in [
        (
            "/v1/refund",
            refund.clone(),
            ["verb=\"refund\"", "per-user: 0 of 5", "per-user: 2 of 5", "units=2"],
        ),
        (
            "/v1/renew",
            json!({"reservation": answer["reservation"]}).to_string(),
            ["verb=\"renew\"", "renewed=true", "token 2", "role change"],
        ),
        (
            "/v1/settle",
            json!({"reservation": answer["reservation"], "actual": 4}).to_string(),
            ["verb=\"settle\"", "reserved [5]", "settled for [4]", "domain=\"default\""],
        ),
        (
            "/v1/reset",
            ADA.to_owned(),
            ["verb=\"reset\"", "per-user: 3 of 5", "per-user: 5 of 5", "descriptors=1"],
        ),
    ] {
        admin.post_as(path, &body, "Bearer second").await.succeeded();
        let parts = [&["who=127.0.0.1:", "token 2, role change"], &expected[..]].concat();
        let line = server.logs_with("limiters were changed by an operator", &parts);
        assert!(!line.contains("s3cret"), "{line}");
        assert_eq!(line.contains("units="), path == "/v1/refund", "{line}");
    }
    let misspelt = ADA.replace("user", "usr").replace("ada-s3cret", "ada");
    admin.post_as("/v1/refund", &misspelt, "Bearer first").await.succeeded();
    server.logs_with("a change of an operator matched no limiter", &["verb=\"refund\"", "token 1"]);
    // More than other events are logged in a minute.
    for _ in 0..30 {
        admin.post_as("/v1/reset", ADA, "Bearer first").await.succeeded();
    }
    for _ in 0..30 {
        let _ = server.logs("limiters were changed by an operator");
    }
}

#[tokio::test]
async fn a_refund_and_a_reset_of_a_client_are_lines_that_name_its_token() {
    let files = Certificates::folder();
    let tokens = files.with("tokens", "first\nsecond verbs=refund,reset\n");
    let mut server = Server::with_rules_and(RULES, &["--token-file", &tokens]);
    let client = server.client();
    let spend = json!({"descriptor": {"user": "ada-s3cret"}, "cost": 3}).to_string();
    client.post_as("/v1/check", &spend, "Bearer first").await.succeeded();
    assert_eq!(client.post_as("/v1/refund", &spend, "Bearer first").await.status, 403);
    for (path, parts) in [
        ("/v1/refund", ["verb=\"refund\"", "units=3"]),
        ("/v1/reset", ["verb=\"reset\"", "limiters=1"]),
    ] {
        let body = if path == "/v1/reset" { ADA } else { &spend };
        client.post_as(path, body, "Bearer second").await.succeeded();
        let who = ["tidegate::audit", "listener=\"http\"", "who=127.0.0.1:", ", token 2 "];
        let parts = [&who[..], &parts].concat();
        let line = server.logs_with("limiters were changed by a client", &parts);
        assert!(!line.contains("s3cret") && !line.contains("second"), "{line}");
    }
    let url = format!("redis://:second@{}/", server.resp);
    let mut redis = redis::Client::open(url).unwrap().get_connection().unwrap();
    for (command, verb) in [("TG.REFUND", "verb=\"refund\""), ("TG.RESET", "verb=\"reset\"")] {
        let _: redis::Value =
            redis::cmd(command).arg(&["default", "user", "ada-s3cret"]).query(&mut redis).unwrap();
        let parts = ["listener=\"resp\"", ", token 2 ", verb];
        server.logs_with("limiters were changed by a client", &parts);
    }
}

#[test]
fn only_a_certificate_that_is_named_so_changes_anything() {
    let files = Certificates::new();
    let ca = files.path("ca.pem");
    let more = ["--tls-client-ca", &ca, "--admin-changers", "server,ann,dns:eve"];
    let more = [&files.tls("server")[..], &more, &["--admin-readers", "client"]].concat();
    // Each of these has passed for `ann`, or for no name that is known, and so for a changer.
    let forged =
        [&b"/O=ab\x06\x03\x55\x04\x03\x0c\x03ann/CN=eve"[..], b"/CN=eve/CN=ann", b"/O=none"];
    for (number, subject) in forged.into_iter().enumerate() {
        files.client_named(&format!("forged-{number}"), subject, "DNS:ann", "default");
    }
    files.client_named("one-dns", b"/O=none", "DNS:eve", "default");
    files.client_named("two-dns", b"/O=none", "DNS:eve,DNS:no!name", "default");
    files.client_named("wide", b"/CN=eve", "DNS:ann", "MASK:0x800");
    files.client_named("wide-ann", b"/CN=ann", "DNS:eve", "MASK:0x800");
    let mut server = Server::with_rules_and(RULES, &more);
    let at = server.admin;
    let curl = |path: &str, name: &str, more: &[&str]| {
        files.curl(name, &format!("https://{at}{path}"), &[&["-w", "%{http_code}"], more].concat())
    };
    let reset = ["-H", "content-type: application/json", "-d", ADA];
    assert!(curl("/v1/rules", "client", &[]).ends_with("200"));
    let refused = curl("/v1/reset", "client", &reset);
    assert!(refused.ends_with("403") && refused.contains("--admin-readers"), "{refused}");
    for name in ["forged-0", "forged-1", "forged-2", "wide", "two-dns"] {
        assert!(curl("/v1/rules", name, &[]).ends_with("200"));
        let refused = curl("/v1/reset", name, &reset);
        assert!(refused.ends_with("403") && refused.contains("--admin-changers"), "{refused}");
    }
    for (file, name) in [("server", "server"), ("wide-ann", "ann"), ("one-dns", "dns:eve")] {
        let reset = curl("/v1/reset", file, &reset);
        assert!(reset.ends_with("200"), "{reset}");
        server.logs_with(
            "limiters were changed by an operator",
            &[&format!("certificate of {name}, role change")],
        );
    }
}

#[test]
fn beyond_loopback_operators_are_asked_for_a_token() {
    let files = Certificates::folder();
    let token = files.with("token", &"a".repeat(32));
    for flag in ["--token-file", "--admin-token-file", "--admin-read-token-file"] {
        let more = ["--admin", "0.0.0.0:0", flag, &*token];
        drop(Server::with_arguments(&more));
    }
}

#[test]
fn tokens_that_a_network_sees_are_a_warning() {
    let files = Certificates::folder();
    let token = files.with("token", &"a".repeat(32));
    let more = ["--http", "0.0.0.0:0", "--token-file", &token];
    let warned = Server::with_arguments(&more).logs("its tokens travel unencrypted");
    assert!(warned.contains("--http is not on loopback"), "{warned}");
}

#[test]
fn a_token_of_two_roles_is_refused_at_the_start_and_when_files_are_read_again() {
    let files = Certificates::folder();
    let (one, two) = ("1".repeat(32), "2".repeat(32));
    let change = files.with("change", &format!("{one}\n{two}"));
    let read = files.with("read", &two);
    let flags = ["--token-file", "--admin-token-file", "--admin-read-token-file"];
    for (first, second) in [(1, 2), (0, 1), (0, 2)] {
        let said = not_started(&[flags[first], &change, flags[second], &read]);
        assert!(said.contains("token 2 of ") && said.contains("is also token 1 of "), "{said}");
        assert!(said.contains(flags[first]) && said.contains(flags[second]), "{said}");
        assert!(!said.contains(&two), "{said}");
    }
    let said = not_started_in(&[("TIDEGATE_ADMIN_READ_TOKEN", &two)], &[flags[1], &change]);
    assert!(said.contains("TIDEGATE_ADMIN_READ_TOKEN"), "{said}");
    files.with("read", &"3".repeat(32));
    let mut server = Server::with_arguments(&[flags[1], &change, flags[2], &read]);
    files.with("read", &one);
    let line = server.reload("tokens cannot be used");
    assert!(line.contains("is also token 1 of --admin-token-file"), "{line}");
}

#[test]
fn a_file_of_tokens_or_limiters_that_others_may_write_is_refused_and_one_they_read_is_reported() {
    let files = Certificates::folder();
    let token = files.with("token", &"a".repeat(32));
    let snapshot = files.with("snapshot", "");
    files.allow("token", 0o602);
    for flag in ["--token-file", "--admin-token-file", "--admin-read-token-file"] {
        let said = not_started(&[flag, &token]);
        assert!(said.contains(flag) && said.contains("may write it (mode 0602)"), "{said}");
    }
    files.allow("token", 0o604);
    files.allow("snapshot", 0o622);
    let said = not_started(&["--snapshot", &snapshot]);
    assert!(said.contains("--snapshot") && said.contains("may write it (mode 0622)"), "{said}");
    files.allow("snapshot", 0o644);
    let mut server = Server::with_arguments(&["--snapshot", &snapshot, "--token-file", &token]);
    for flag in ["--token-file", "--snapshot"] {
        server.logs_with("every user of this machine may read it", &[flag]);
    }
}

#[test]
fn a_server_that_nobody_changes_is_reported() {
    let files = Certificates::new();
    let ca = files.path("ca.pem");
    let tls = [&files.tls("server")[..], &["--tls-client-ca", &ca]].concat();
    let line = Server::with_arguments(&tls).logs("no operator may change anything");
    assert!(line.contains("--admin-changers"), "{line}");
}

#[tokio::test]
async fn readers_of_streams_take_neither_the_last_stream_nor_the_last_connection() {
    let files = Certificates::folder();
    let tokens = files.operators();
    let server = Server::with_rules_and(RULES, &tokens);
    let mut open: Vec<_> =
        (0..32).map_while(|_| raw::decisions(server.admin, "for-read")).collect();
    assert_eq!(open.len(), 24);
    open.extend((0..32).map_while(|_| raw::decisions(server.admin, "for-change")));
    assert_eq!(open.len(), 32);
    let few = Server::with_rules_and(RULES, &[&tokens[..], &["--max-connections", "5"]].concat());
    let open: Vec<_> = (0..5).map_while(|_| raw::decisions(few.admin, "for-read")).collect();
    assert!((1..4).contains(&open.len()), "{}", open.len());
    let reset = few.operator().post_as("/v1/reset", ADA, "Bearer for-change").await;
    assert_eq!(reset.status, 200);
}
