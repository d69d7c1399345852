//! The endpoints for an orchestrator and an operator: probes, metrics by the shipped manifest, a certificate by the
//! book.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::client::Client;
use crate::packaging;
use crate::process::{Ended, Server, run};

const PAGE: &str = include_str!("../../../../docs/how-to/operate.md");

/// The address of the listener for probes.
fn probe(server: &Server) -> SocketAddr {
    let line = server.printed.lines().find(|line| line.starts_with("  probe ")).unwrap();
    line.split("://").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap()
}

/// Asserts that a kubelet, without TLS and a token, hears both words and nothing else.
async fn is_alive_and_ready_and_says_no_more(server: &Server) {
    let kubelet = Client::new(probe(server));
    for path in ["/livez", "/readyz"] {
        let answer = kubelet.get(path).await;
        assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, "ok\n"), "{path}");
    }
    for path in ["/healthz", "/metrics", "/v1/rules", "/v1/check", "/"] {
        assert_eq!(kubelet.get(path).await.status, 404, "{path}");
    }
    assert_eq!(kubelet.post("/readyz", "{}").await.status, 405);
}

#[tokio::test]
async fn a_kubelet_without_a_certificate_reaches_the_probes_of_a_server_that_asks_for_one() {
    let certificates = Certificates::new();
    let (ca, tokens) = (certificates.path("ca.pem"), certificates.with("tokens", "open-sesame\n"));
    let more = ["--tls-client-ca", &ca, "--token-file", &tokens, "--probe", "127.0.0.1:0"];
    let more = [&certificates.tls("server")[..], &more].concat();
    let server = Server::with_arguments(&more);
    is_alive_and_ready_and_says_no_more(&server).await;
}

#[test]
fn there_are_no_probes_unless_they_are_asked_for() {
    assert!(!Server::with_example().printed.contains("probe"));
}

/// The values of lines such as `- { name: http, containerPort: 8080 }`.
fn pairs<'t>(text: &'t str, second: &str) -> BTreeMap<&'t str, &'t str> {
    let pair = |line: &'t str| {
        let inside = line.trim().strip_prefix("- { name: ")?.strip_suffix(" }")?;
        let (name, value) = inside.split_once(&format!(", {second}: "))?;
        Some((name, value.trim_matches('"')))
    };
    text.lines().filter_map(pair).collect()
}

#[tokio::test]
async fn the_manifest_opens_metrics_to_a_reader_and_its_probes_to_everybody() {
    let manifest = packaging::text("kubernetes.yaml");
    let (variables, ports) = (pairs(&manifest, "value"), pairs(&manifest, "containerPort"));
    for (variable, port) in [("TIDEGATE_ADMIN", "admin"), ("TIDEGATE_PROBE", "probe")] {
        assert_eq!(variables[variable], format!("0.0.0.0:{}", ports[port]), "{variable}");
    }
    let probes: Vec<_> = manifest.lines().filter(|line| line.contains("httpGet:")).collect();
    assert_eq!(probes.len(), 3);
    for line in probes {
        assert!(line.contains("port: probe") && line.contains("z, "), "{line}");
    }
    // Each file of tokens that the manifest names, in a folder of the test.
    let folder = TempDir::new().unwrap();
    let mut arguments = Vec::new();
    for flag in manifest.lines().filter_map(|line| line.trim().strip_prefix("- --")) {
        let (name, value) = flag.split_once('=').unwrap();
        let value = match Path::new(value).file_name().filter(|_| value.starts_with('/')) {
            Some(file) => {
                let path = folder.path().join(file);
                std::fs::write(&path, format!("token-of-{}\n", file.to_str().unwrap())).unwrap();
                path.display().to_string()
            }
            None => value.to_owned(),
        };
        arguments.push(format!("--{name}={value}"));
    }
    assert_eq!(arguments.len(), 4, "{arguments:?}");
    arguments.extend(["--probe".to_owned(), "127.0.0.1:0".to_owned()]);
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let server = Server::with_rules_and(&packaging::rules_of_kubernetes(), &arguments);
    is_alive_and_ready_and_says_no_more(&server).await;
    let operators = server.operator();
    let authorized = |file: &str| format!("Bearer token-of-{file}");
    for (file, metrics) in [("read", 200), ("admin", 200), ("tokens", 401), ("nothing", 401)] {
        let answer = operators.get_as("/metrics", &authorized(file)).await;
        assert_eq!(answer.status, metrics, "{file}");
    }
    let change = operators.post_as("/v1/reset", "{}", &authorized("read")).await;
    assert_eq!(change.status, 403);
}

#[tokio::test]
async fn metrics_follow_what_a_collector_accepts() {
    let server = Server::with_example();
    let collector = server.operator();
    for (accepted, media_type) in [
        ("text/plain;version=0.0.4;q=1,*/*;q=0.1", "text/plain; version=0.0.4"),
        (
            "application/openmetrics-text;version=1.0.0,text/plain;q=0.5",
            "application/openmetrics-text",
        ),
        ("*/*", "application/openmetrics-text"),
    ] {
        let answer = collector.get_with("/metrics", &[("accept", accepted)]).await;
        let message = answer.header("content-type").unwrap();
        assert!(message.starts_with(media_type), "{accepted}: {message}");
        assert_eq!(answer.text.contains("# EOF"), media_type.contains("openmetrics"), "{accepted}");
        assert!(answer.text.contains("\ntidegate_requests_total{"), "{accepted}");
    }
}

#[test]
fn the_certificate_that_the_book_makes_is_accepted_by_operators() {
    let folder = TempDir::new().unwrap();
    let line = PAGE.lines().find(|line| line.starts_with("openssl req -x509")).unwrap();
    Ended::of(Command::new("sh").args(["-c", line]).current_dir(folder.path())).printed();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key) = (file("cert.pem"), file("key.pem"));
    let server = Server::with_arguments(&["--tls-cert", &certificate, "--tls-key", &key]);
    for host in ["localhost", "127.0.0.1"] {
        let url = format!("https://{host}:{}", server.admin.port());
        let asked = ["rules", "--admin", &url, "--tls-roots", &certificate];
        run(&asked).printed();
    }
}
