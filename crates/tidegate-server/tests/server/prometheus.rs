//! A real Prometheus that scrapes real servers: each alert fires, and each panel of the board has data.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use testkit::store::Server as Redis;
use tokio::time::sleep;

use crate::client::Client;
use crate::process::Server;

const ALERTS: &str = include_str!("../../../../packaging/prometheus/alerts.yml");
const BOARD: &str = include_str!("../../../../packaging/grafana/tidegate.json");

/// The span of the rates of alerts and panels here.
const RATE: &str = "[3s]";

const RULES: &str = r#"
[[rule]]
name = "per-user"
key = ["user"]
algorithm = "fixed_window"
rate = "1/1d"
max_keys = 1
on_full = "share"
near = 0.5
"#;

/// It ends with its test.
struct Prometheus {
    child: Child,
    at: SocketAddr,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    fn scraping(targets: &[SocketAddr], folder: &Path) -> Self {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = free.local_addr().unwrap();
        drop(free);
        let targets: Vec<_> = targets.iter().map(|at| format!("'{at}'")).collect();
        let config = format!(
            "global: {{scrape_interval: 500ms, evaluation_interval: 500ms}}\nrule_files: [alerts.yml]\nscrape_configs:\n  \
             - job_name: tidegate\n    static_configs: [{{targets: [{}]}}]\n",
            targets.join(", ")
        );
        fs::write(folder.join("prometheus.yml"), config).unwrap();
        fs::write(folder.join("alerts.yml"), impatient(ALERTS)).unwrap();
        let log = fs::File::create(folder.join("log")).unwrap();
        let mut command = Command::new("prometheus");
        let command = command
            .arg("--config.file=prometheus.yml")
            .arg("--storage.tsdb.path=data")
            .arg(format!("--web.listen-address={at}"))
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(log);
        let child = command.spawn().unwrap_or_else(|error| {
            panic!("prometheus: {error}; `cargo xtask test --only tests` installs it")
        });
        Self { child, at }
    }

    /// The answer to a GET; none while it starts.
    async fn get(&self, path: &str) -> Option<Value> {
        std::net::TcpStream::connect(self.at).ok()?;
        serde_json::from_str(&Client::new(self.at).get(path).await.text).ok()
    }

    /// The names of the alerts that fire.
    async fn firing(&self) -> Vec<String> {
        let answer = self.get("/api/v1/alerts").await.unwrap_or_default();
        let alerts = answer["data"]["alerts"].as_array().cloned().unwrap_or_default();
        let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
        firing.map(|alert| alert["labels"]["alertname"].as_str().unwrap().to_owned()).collect()
    }
}

/// The alerts with the same expressions, over a shorter time.
fn impatient(alerts: &str) -> String {
    let mut text = String::new();
    for line in alerts.lines() {
        let line = match line.trim_start().starts_with("for: ") {
            true => "        for: 0s",
            false => line,
        };
        let line = line.replace("[5m]", RATE).replace("[10m]", RATE);
        let line = line.replace("> 600", "> 1").replace("> 0.025", "> 0.0000001");
        writeln!(text, "{line}").unwrap();
    }
    text
}

fn names() -> Vec<&'static str> {
    ALERTS.lines().filter_map(|line| line.trim_start().strip_prefix("- alert: ")).collect()
}

/// Clients that go on until they are dropped: refused, without room, and with errors.
async fn load(client: Client, number: usize) {
    loop {
        let user = format!(r#"{{"descriptor": {{"user": "u{number}"}}}}"#);
        client.check(&user).await;
        client.check("{").await;
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_alert_fires_and_each_panel_has_data() {
    let folder = tempfile::tempdir().unwrap();
    let (redis, file) = (Redis::start(&[], &[]), folder.path().join("rules.toml"));
    fs::write(&file, RULES).unwrap();
    let snapshots = folder.path().join("snapshots");
    fs::create_dir(&snapshots).unwrap();
    let snapshot = snapshots.join("limiters");
    let arguments = ["--config", file.to_str().unwrap(), "--snapshot", snapshot.to_str().unwrap()];
    let well = Server::with_arguments(
        &[&arguments[..], &["--snapshot-every", "100ms", "--public-verbs", "check,reserve"]]
            .concat(),
    );
    // More load than one limiter at a time, and a store that is not there.
    let store = |url: &str| format!("[store]\nurl = \"{url}\"\nmax_in_flight = 1\n{RULES}");
    let overloaded = Server::with_rules(
        &store(&redis.url()).replace("max_keys = 1\n", "").replace("on_full = \"share\"\n", ""),
    );
    let away = Server::with_rules(
        &store("redis://127.0.0.1:9")
            .replace("max_keys = 1\n", "")
            .replace("on_full = \"share\"\n", ""),
    );
    let nobody = SocketAddr::from(([127, 0, 0, 1], 9));
    let targets = [well.admin, overloaded.admin, away.admin, nobody];
    let prometheus = Prometheus::scraping(&targets, folder.path());

    let mut clients = tokio::task::JoinSet::new();
    for number in 0..2 {
        clients.spawn(load(well.client(), number));
        clients.spawn(load(away.client(), number));
    }
    for number in 0..64 {
        let client = overloaded.client();
        clients.spawn(async move {
            let batch = format!(
                "[{}]",
                vec![format!(r#"{{"descriptor": {{"user": "{number}"}}}}"#); 100].join(",")
            );
            loop {
                client.check(&batch).await;
            }
        });
    }
    let reserve = r#"{"descriptor": {"other": "ada"}}"#;
    well.client().post("/v1/reserve", reserve).await;
    let mut looks = 0;
    let mut missing = names();
    let mut is_broken = false;
    while !missing.is_empty() {
        looks += 1;
        assert!(looks < 400, "never fired: {missing:?}");
        let firing = prometheus.firing().await;
        missing.retain(|name| !firing.iter().any(|one| one == name));
        // After the first scrapes, so that the panels have seen a server that is well.
        if !is_broken && !firing.is_empty() {
            fs::write(&file, RULES.replace("fixed", "broken")).unwrap();
            // The server may write a file at the same time.
            while snapshots.exists() {
                let _ = fs::remove_dir_all(&snapshots);
            }
            is_broken = true;
        }
        sleep(Duration::from_millis(200)).await;
    }

    let board: Value = serde_json::from_str(BOARD).unwrap();
    for panel in board["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            let asked = expression.replace("[$__rate_interval]", RATE);
            let asked = asked.replace("$instance", ".*").replace("$rule", ".*");
            let query: String = form_urlencoded::byte_serialize(asked.as_bytes()).collect();
            let answer = prometheus.get(&format!("/api/v1/query?query={query}")).await.unwrap();
            let found = answer["data"]["result"].as_array().map(Vec::len);
            assert!(found > Some(0), "{}: {asked}: {answer}", panel["title"]);
        }
    }
}
