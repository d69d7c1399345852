//! The same with a real Envoy: header fields of any bytes and of any length that it takes, and ordered descriptors.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{RULES, values};
use crate::client::Client;
use crate::envoy::proxy::{Envoy, FailureMode};
use crate::process::Server;

/// The action of the first route, which the tests replace.
const ACTION: &str = "- request_headers: { header_name: x-user, descriptor_key: user }";

/// The statuses of ten requests with this value of `x-user`; 0 where the proxy ends the connection.
async fn ten(envoy: &Envoy, user: &[u8]) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..10 {
        let head = b"GET /user HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx-user: ";
        let mut stream = TcpStream::connect(envoy.at).await.unwrap();
        stream.write_all(&[head, user, b"\r\n\r\n"].concat()).await.unwrap();
        let mut came = Vec::new();
        let _ = stream.read_to_end(&mut came).await;
        let status = came.get(9..12).map(|status| String::from_utf8_lossy(status).into_owned());
        statuses.push(status.and_then(|status| status.parse().ok()).unwrap_or(0));
    }
    statuses
}

/// Three pass, if the proxy takes such a field at all.
fn judge(user: &[u8], statuses: &[u16]) {
    let shown = &user[..user.len().min(40)];
    if statuses.iter().any(|status| ![200, 429].contains(status)) {
        // A field that HTTP forbids never reaches the server.
        assert!(
            statuses.iter().all(|status| [400, 431].contains(status)),
            "{shown:?} {statuses:?}"
        );
        return;
    }
    let passed = statuses.iter().filter(|status| **status == 200).count();
    assert_eq!(passed, 3, "{} of {} bytes: {statuses:?}", shown.escape_ascii(), user.len());
}

#[tokio::test]
async fn no_value_of_a_header_field_passes_more_often_than_its_limit() {
    let server = Server::with_rules(RULES);
    let envoy = Envoy::before(&server, FailureMode::Allow).await;
    for user in values() {
        // Spaces at the ends belong to no field, and an empty one is the same as none here.
        if user.trim_ascii() == user && !user.is_empty() {
            judge(&user, &ten(&envoy, &user).await);
        }
    }
}

#[tokio::test]
async fn values_that_together_pass_the_bytes_of_a_message_are_decided() {
    let server = Server::with_rules(RULES);
    let more = vec![ACTION; 20]
        .join("\n                              - actions:\n                                  ");
    let envoy = Envoy::before_and(&server, FailureMode::Allow, &[(ACTION, &more)]).await;
    let long = vec![b'a'; 58 << 10];
    assert_eq!(ten(&envoy, &long).await, [429; 10], "twenty of three");
}

#[tokio::test]
async fn what_is_not_understood_is_refused_whatever_the_proxy_does_with_errors() {
    // 65 entries of one descriptor.
    let many = vec![ACTION; 65].join("\n                                  ");
    for (more, mode, status) in [
        (&[][..], FailureMode::Allow, 429),
        (&[], FailureMode::Deny, 429),
        (&["--on-bad-request", "error"], FailureMode::Allow, 200),
        (&["--on-bad-request", "error"], FailureMode::Deny, 500),
    ] {
        let server = Server::with_rules_and(RULES, more);
        let envoy = Envoy::before_and(&server, mode, &[(ACTION, &many)]).await;
        assert_eq!(ten(&envoy, b"ada").await, [status; 10], "{more:?} {mode:?}");
    }
}

#[tokio::test]
async fn what_no_rule_matches_is_refused_where_that_is_chosen() {
    let misspelt = "- request_headers: { header_name: x-user, descriptor_key: usr }";
    for (on_no_rule, status) in [
        ("\"admit\"", 200),
        ("\"refuse\"", 429),
        ("{ edge = \"refuse\" }", 429),
        ("{ edge = \"admit\", \"*\" = \"refuse\" }", 200),
    ] {
        let server = Server::with_rules(&format!("on_no_rule = {on_no_rule}\n{RULES}"));
        let envoy = Envoy::before_and(&server, FailureMode::Allow, &[(ACTION, misspelt)]).await;
        assert_eq!(ten(&envoy, b"ada").await, [status; 10], "{on_no_rule}");
    }
}

/// A rule that admits one request an hour, and lets the next requests wait.
const PATIENT: &str = r#"
[[rule]]
name = "patient"
domain = "edge"
key = ["user"]
algorithm = "token_bucket"
limit = 1
window = "1h"
on_excess = { wait = "2h", max_waiters = 100 }
"#;

#[tokio::test]
async fn a_wait_that_is_longer_than_the_patience_of_the_proxy_is_no_decision() {
    for (mode, status) in [(FailureMode::Allow, 200), (FailureMode::Deny, 500)] {
        let server = Server::with_rules(PATIENT);
        let envoy = Envoy::before_and(&server, mode, &[("timeout: 30s", "timeout: 0.02s")]).await;
        // The first request might be late on a busy machine, and waits for nothing.
        let statuses = ten(&envoy, b"ada").await;
        assert_eq!(statuses[1..], [status; 9], "{mode:?}");
    }
}

#[tokio::test]
async fn a_caller_that_leaves_while_it_waits_runs_nothing() {
    let server = Server::with_rules(PATIENT);
    let envoy = Envoy::before(&server, FailureMode::Allow).await;
    let ask = async || {
        let mut stream = TcpStream::connect(envoy.at).await.unwrap();
        stream.write_all(b"GET /user HTTP/1.1\r\nhost: a\r\nx-user: ada\r\n\r\n").await.unwrap();
        stream
    };
    let mut admitted = ask().await;
    admitted.read_exact(&mut [0; 12]).await.unwrap();
    // The calls of the proxy that are under way.
    let calls = async |expected: u64| {
        let proxy = Client::new(envoy.admin);
        let stat = format!("cluster.tidegate.upstream_rq_active: {expected}\n");
        while !proxy.get("/stats?filter=upstream_rq_active").await.text.contains(&stat) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let waiting = ask().await;
    calls(1).await;
    drop(waiting);
    calls(0).await;
    assert_eq!(envoy.upstream.served(), 1);
}

#[tokio::test]
async fn two_generic_keys_are_two_entries_that_rules_name_by_value_or_by_place() {
    const RULES: &str = r#"
[[rule]]
name = "by-value"
domain = "edge"
when = { generic_key = "checkout" }
key = ["user"]
algorithm = "sliding_log"
limit = 3
window = "1d"

[[rule]]
name = "by-place"
domain = "edge"
when = { "generic_key#1" = "shop", "generic_key#2" = "checkout" }
key = ["generic_key#2"]
algorithm = "sliding_log"
limit = 5
window = "1d"

[[rule]]
name = "elsewhere"
domain = "edge"
when = { "generic_key#1" = "checkout" }
algorithm = "sliding_log"
limit = 0
"#;
    let server = Server::with_rules(RULES);
    let more = format!(
        "- generic_key: {{ descriptor_value: shop }}\n                                  \
         - generic_key: {{ descriptor_value: checkout }}\n                                  {ACTION}"
    );
    let envoy = Envoy::before_and(&server, FailureMode::Allow, &[(ACTION, &more)]).await;
    judge(b"ada", &ten(&envoy, b"ada").await);
    let of_bob = ten(&envoy, b"bob").await;
    assert_eq!(of_bob.iter().filter(|status| **status == 200).count(), 2, "{of_bob:?}");
}
