//! Stores that identify their clients: TLS, client certificates, and passwords of Sentinel and of the servers.

use std::path::Path;
use std::process::Command;

use crate::server::{Folder, Server, gate_with, path, remaining, rule, settings, unconnected};
use tidegate::{AlgorithmKind, Policy, Secret, SharedGate, StoreError, StoreSettings};

/// Asserts that a node with these settings decides over the store.
async fn decides(settings: StoreSettings) {
    let (gate, _) = gate_with(settings, vec![rule(AlgorithmKind::TokenBucket, 10)]).await;
    assert_eq!(remaining(&gate).await, 9);
}

/// Returns why a node with these settings does not reach the store.
async fn refused(settings: StoreSettings) -> StoreError {
    let gate = unconnected(settings, vec![rule(AlgorithmKind::TokenBucket, 10)]);
    gate.store().connected().await.unwrap_err()
}

/// Makes a self-signed certificate for 127.0.0.1, and its key.
fn certificate(folder: &Path) -> (String, String) {
    let (certificate, key) = (path(&folder.join("cert.pem")), path(&folder.join("key.pem")));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-days", "2", "-subj", "/CN=localhost", "-addext"])
        .args(["subjectAltName=IP:127.0.0.1,DNS:localhost", "-addext"])
        .args(["basicConstraints=critical,CA:FALSE", "-keyout", &key, "-out", &certificate])
        .output()
        .expect("openssl cannot be run: install the package `openssl`");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (certificate, key)
}

/// Returns a port that is free, and whose bus of a cluster is a port as well.
fn free_port() -> String {
    loop {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        if port < 50_000 {
            return port.to_string();
        }
    }
}

/// The arguments of a server with a listener for TLS.
fn with_tls<'a>(port: &'a str, certificate: &'a str, key: &'a str) -> Vec<&'a str> {
    let files = ["--tls-cert-file", certificate, "--tls-key-file", key];
    [&["--tls-port", port][..], &files, &["--tls-ca-cert-file", certificate]].concat()
}

/// A server without TLS waits for the rest of what it takes for a command.
#[tokio::test]
async fn a_server_that_speaks_no_tls_is_reported_from_a_slow_one() {
    let server = Server::start(&[]);
    let error = refused(settings(&format!("rediss://127.0.0.1:{}", server.port))).await;
    assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
    assert!(error.to_string().contains("without TLS its URL is redis://"), "{error}");
}

#[tokio::test]
async fn tls_goes_only_to_who_has_a_certificate_that_is_trusted() {
    let folder = Folder::new();
    let (certificate, key) = certificate(&folder.0);
    let port = free_port();
    let asks_no_client = ["--tls-auth-clients", "no"];
    let _server =
        Server::start(&[with_tls(&port, &certificate, &key), asks_no_client.into()].concat());
    let url = format!("rediss://127.0.0.1:{port}");
    let mut trusting = settings(&url);
    trusting.tls_roots = Some(certificate.into());
    decides(trusting).await;
    let answer = refused(settings(&url)).await;
    assert!(matches!(&answer, StoreError::Unreachable(_)), "{answer:?}");
}

/// Asserts that a store at `url` decides for a client with its certificate, and for no other.
async fn asks_for_a_certificate(url: &str, (certificate, key): (&str, &str)) {
    let mut nameless = settings(url);
    nameless.tls_roots = Some(certificate.into());
    let mut named = nameless.clone();
    (named.tls_cert, named.tls_key) = (Some(certificate.into()), Some(key.into()));
    decides(named.clone()).await;
    let answer = refused(nameless).await;
    assert!(matches!(&answer, StoreError::Unreachable(_)), "{url}: {answer:?}");
    // A file that is no key is reported before anything is sent.
    named.tls_key = Some(certificate.into());
    let policy = Policy::new(vec![rule(AlgorithmKind::TokenBucket, 10)]).unwrap();
    let message = SharedGate::new(policy, named, |_| {}).unwrap_err().to_string();
    assert!(message.contains("`tls_key` holds no private key"), "{message}");
}

#[tokio::test]
async fn a_server_a_sentinel_and_a_cluster_that_ask_for_a_client_certificate_are_shown_it() {
    let folder = Folder::new();
    let (certificate, key) = certificate(&folder.0);
    let files = (certificate.as_str(), key.as_str());
    let port = free_port();
    let _primary = Server::start(&with_tls(&port, &certificate, &key));
    asks_for_a_certificate(&format!("rediss://127.0.0.1:{port}"), files).await;

    let sentinel_port = free_port();
    let file = folder.0.join("sentinel.conf");
    let words = with_tls(&sentinel_port, &certificate, &key);
    let lines = words.chunks(2).map(|pair| pair.join(" ").replacen("--", "", 1) + "\n");
    let monitored = format!("tls-replication yes\nsentinel monitor main 127.0.0.1 {port} 1\n");
    std::fs::write(&file, lines.collect::<String>() + &monitored).unwrap();
    let sentinel = Server::start_sentinel(&file);
    until_watched(&mut sentinel.connect());
    // Another database has limiters of its own.
    let url = format!("rediss+sentinel://127.0.0.1:{sentinel_port}/main/1");
    asks_for_a_certificate(&url, files).await;

    let port = free_port();
    let is_cluster = ["--cluster-enabled", "yes", "--tls-cluster", "yes"];
    let node = Server::start(&[with_tls(&port, &certificate, &key), is_cluster.into()].concat());
    node.run::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    crate::server::nodes::until(&node, &["CLUSTER", "INFO"], |message| {
        message.contains("state:ok")
    });
    asks_for_a_certificate(&format!("rediss+cluster://127.0.0.1:{port}"), files).await;
}

/// Waits until a Sentinel has reached the primary that it watches.
fn until_watched(sentinel: &mut redis::Connection) {
    loop {
        let messages: Vec<String> =
            redis::cmd("SENTINEL").arg(&["MASTER", "main"]).query(sentinel).unwrap();
        let flags = messages.iter().position(|word| word == "flags").unwrap();
        let runs = messages.iter().position(|word| word == "runid").unwrap();
        if messages[flags + 1] == "master" && !messages[runs + 1].is_empty() {
            return;
        }
        std::thread::yield_now();
    }
}

/// A primary and its Sentinel, each with a password if one is named.
struct Guarded {
    _primary: Server,
    sentinel: Server,
    _folder: Folder,
}

impl Guarded {
    fn start(
        primary_password: Option<&str>,
        sentinel_lines: &str,
        user: Option<(&str, &str)>,
    ) -> Self {
        let words = primary_password.map_or(Vec::new(), |word| vec!["--requirepass", word]);
        let primary = Server::start(&words);
        let folder = Folder::new();
        let file = folder.0.join("sentinel.conf");
        let mut lines = format!("sentinel monitor main 127.0.0.1 {} 1\n", primary.port);
        if let Some(word) = primary_password {
            lines += &format!("sentinel auth-pass main {word}\n");
        }
        std::fs::write(&file, lines + sentinel_lines).unwrap();
        let sentinel = Server::start_sentinel(&file);
        let user = user.map_or(String::new(), |(name, word)| format!("{name}:{word}@"));
        let url = format!("redis://{user}127.0.0.1:{}", sentinel.port);
        until_watched(&mut redis::Client::open(url).unwrap().get_connection().unwrap());
        Self { _primary: primary, sentinel, _folder: folder }
    }

    fn settings(&self) -> StoreSettings {
        settings(&format!("redis+sentinel://127.0.0.1:{}/main", self.sentinel.port))
    }
}

fn secret(text: &str) -> Option<Secret> {
    Some(Secret::Text(text.to_owned()))
}

#[tokio::test]
async fn sentinel_is_given_its_own_password_and_never_the_one_of_the_primary() {
    // The primary alone has a password.
    let watched = Guarded::start(Some("right"), "", None);
    let mut given = watched.settings();
    given.password = secret("right");
    decides(given).await;

    // Sentinel alone has a password.
    let watched = Guarded::start(None, "requirepass sesame\n", Some(("", "sesame")));
    let mut given = watched.settings();
    given.sentinel_password = secret("sesame");
    decides(given.clone()).await;
    let answer = refused(watched.settings()).await;
    let is_reported = |answer: &StoreError| matches!(answer, StoreError::Denied(text) if text.contains("`sentinel_password_file`"));
    assert!(is_reported(&answer), "{answer}");
    given.sentinel_password = secret("wrong");
    let answer = refused(given).await;
    assert!(is_reported(&answer), "{answer}");

    // Both have a password, and Sentinel a user as well.
    let user = "requirepass other\nuser ann on >sesame &* ~* +@all\n";
    let watched = Guarded::start(Some("right"), user, Some(("ann", "sesame")));
    let mut given = watched.settings();
    given.password = secret("right");
    given.sentinel_username = Some("ann".to_owned());
    given.sentinel_password = secret("sesame");
    decides(given.clone()).await;
    given.sentinel_username = None;
    let answer = refused(given).await;
    assert!(is_reported(&answer), "{answer}");

    // Both have the same password: it is named twice.
    let watched = Guarded::start(Some("right"), "requirepass right\n", Some(("", "right")));
    let mut given = watched.settings();
    given.password = secret("right");
    given.sentinel_password = secret("right");
    decides(given).await;
}
