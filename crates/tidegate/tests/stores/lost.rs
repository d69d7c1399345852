//! Replies that are lost after the store has decided: which requests are asked again, and which are not.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tidegate::{
    AlgorithmKind, Descriptor, Layout, OnStoreError, Request, RuleSpec, SharedGate, Spec,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::server::{Events, Server, gate_with, rule, settings};

/// The fate of replies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replies {
    Pass,
    /// They are held back until the proxy passes replies again.
    Hold,
    /// The next reply is lost, with its connection.
    Lose,
}

/// A proxy between a gate and its server. Its clones are the same proxy.
#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) port: u16,
    /// The number of scripts that were sent to the server.
    scripts: Arc<AtomicUsize>,
    /// Commands wait once so many scripts were sent.
    pub(crate) most: Arc<watch::Sender<usize>>,
    pub(crate) replies: Arc<watch::Sender<Replies>>,
}

impl Proxy {
    pub(crate) async fn before(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let scripts = Arc::new(AtomicUsize::new(0));
        let replies = Arc::new(watch::Sender::new(Replies::Pass));
        let most = Arc::new(watch::Sender::new(usize::MAX));
        let proxy = Self { port, scripts, most, replies };
        let (to, own) = (server.port, proxy.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                tokio::spawn(between(client, server, own.clone()));
            }
        });
        proxy
    }

    pub(crate) fn scripts(&self) -> usize {
        self.scripts.load(SeqCst)
    }
}

async fn between(client: TcpStream, server: TcpStream, proxy: Proxy) {
    let Proxy { scripts, most, replies, .. } = proxy;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let asking = tokio::spawn(async move {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(read @ 1..) = from_client.read(&mut bytes).await {
            let sent = &bytes[..read];
            // The check of the store is a script too, over a key of its own.
            let text = String::from_utf8_lossy(sent);
            let scripts_in_it = text.split("EVAL").skip(1);
            let found = scripts_in_it.filter(|script| !script.contains("tidegate:?")).count();
            let _ = most.subscribe().wait_for(|most| scripts.load(SeqCst) < *most).await;
            to_server.write_all(sent).await.unwrap();
            scripts.fetch_add(found, SeqCst);
        }
    });
    let mut bytes = vec![0; 1 << 16];
    while let Ok(read @ 1..) = from_server.read(&mut bytes).await {
        let how = *replies.borrow();
        if how == Replies::Lose {
            replies.send_replace(Replies::Pass);
            break;
        }
        let _ = replies.subscribe().wait_for(|how| *how != Replies::Hold).await;
        if to_client.write_all(&bytes[..read]).await.is_err() {
            break;
        }
    }
    asking.abort();
}

/// Makes a gate behind a proxy, after the first check of its store has ended and its scripts are known.
pub(crate) async fn behind(
    proxy: &Proxy,
    timeout: Duration,
    rules: Vec<RuleSpec>,
) -> (SharedGate, Events) {
    let mut settings = settings(&format!("redis://127.0.0.1:{}", proxy.port));
    settings.timeout = timeout;
    let (gate, events) = gate_with(settings, rules).await;
    while events.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    let descriptors = [Descriptor::new(&[("user", "nobody")])];
    let request = Request::new("default", &descriptors);
    assert!(!gate.check(&request.with_id("first").unwrap()).await.is_degraded());
    assert!(!gate.check(&request).await.is_degraded());
    (gate, events)
}

/// Starts a server that has a finding to report, which marks the end of the check.
fn server() -> Server {
    server_in(&[])
}

/// Starts such a server with these variables in its environment.
pub(crate) fn server_in(environment: &[(String, String)]) -> Server {
    let arguments = ["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"];
    Server::start_in(environment, &arguments)
}

fn remembering(algorithm: AlgorithmKind) -> RuleSpec {
    rule(algorithm, 10).dedupe(Duration::from_secs(600))
}

pub(crate) async fn used(gate: &SharedGate, request: &Request<'_>) -> Vec<u64> {
    gate.recovered().await;
    let plain = Request::new(request.domain(), request.descriptors());
    let answer = gate.peek(&plain).await;
    assert!(!answer.is_degraded());
    let decisions = answer.matched().into_iter().map(|matched| *matched.decision());
    decisions.map(|decision| decision.limit - decision.remaining).collect()
}

#[tokio::test]
async fn a_reply_lost_after_commit_is_asked_for_again_and_nothing_is_taken_twice() {
    let server = server();
    for algorithm in AlgorithmKind::ALL {
        let proxy = Proxy::before(&server).await;
        let (gate, _) =
            behind(&proxy, Duration::from_secs(30), vec![remembering(*algorithm)]).await;
        let entries = [("user", algorithm.name())];
        let descriptors = [Descriptor::new(&entries)];
        let request = Request::new("default", &descriptors).with_id("a").unwrap();
        let before = proxy.scripts();
        proxy.replies.send_replace(Replies::Lose);
        let answer = gate.check(&request).await;
        assert!(answer.is_allowed() && answer.is_repeated() && !answer.is_degraded());
        assert_eq!(proxy.scripts() - before, 2, "{algorithm}: asked twice");
        assert_eq!(used(&gate, &request).await, [1], "{algorithm}: taken once");
    }
}

#[tokio::test]
async fn a_timed_out_script_retried_counted_twice_so_only_what_all_rules_remember_is() {
    let server = server();
    let log = Spec::new(AlgorithmKind::SlidingLog, 10, Duration::from_secs(86_400));
    let other = |name: &str| RuleSpec::new(name, log).key(["user"]);
    let brief = other("brief").dedupe(Duration::from_millis(1));
    let cases = [
        (vec![remembering(AlgorithmKind::TokenBucket)], false),
        (vec![remembering(AlgorithmKind::TokenBucket), other("forgetful")], true),
        (vec![remembering(AlgorithmKind::TokenBucket), brief], true),
        (vec![rule(AlgorithmKind::TokenBucket, 10)], true),
    ];
    for (number, (rules, with_id)) in cases.into_iter().enumerate() {
        let proxy = Proxy::before(&server).await;
        let (gate, _) = behind(&proxy, Duration::from_secs(30), rules).await;
        let user = number.to_string();
        let entries = [("user", user.as_str())];
        let descriptors = [Descriptor::new(&entries)];
        let mut request = Request::new("default", &descriptors);
        if with_id {
            request = request.with_id("a").unwrap();
        }
        let before = proxy.scripts();
        proxy.replies.send_replace(Replies::Lose);
        assert!(gate.check(&request).await.is_degraded(), "case {number}");
        assert_eq!(proxy.scripts() - before, 1, "case {number}");
        assert!(used(&gate, &request).await.iter().all(|used| *used == 1), "case {number}");
    }
}

#[tokio::test]
async fn what_half_of_the_deadline_brings_no_answer_to_is_asked_once_more() {
    let server = server();
    let proxy = Proxy::before(&server).await;
    let rules = vec![remembering(AlgorithmKind::TokenBucket)];
    let (gate, _) = behind(&proxy, Duration::from_secs(6), rules).await;
    let descriptors = [Descriptor::new(&[("user", "ada")])];
    let request = Request::new("default", &descriptors).with_id("a").unwrap();
    let before = proxy.scripts();
    proxy.replies.send_replace(Replies::Hold);
    let asked = async {
        while proxy.scripts() < before + 2 {
            tokio::task::yield_now().await;
        }
        proxy.replies.send_replace(Replies::Pass);
    };
    let (answer, ()) = tokio::join!(gate.check(&request), asked);
    assert!(answer.is_allowed() && !answer.is_degraded());
    assert_eq!(used(&gate, &request).await, [1]);
    assert_eq!(proxy.scripts() - before, 3, "twice, and the look");
}

/// An undo under a layout or a window that had changed gave nothing back to the other rules either. A changed limit alone
/// is no reason to give nothing back.
#[tokio::test]
async fn a_late_reply_is_undone_at_the_rules_whose_values_mean_what_they_did() {
    let server = server();
    let log = |name: &str, limit| {
        let spec = Spec::new(AlgorithmKind::SlidingLog, limit, Duration::from_secs(86_400));
        RuleSpec::new(name, spec).key(["user"]).on_store_error(OnStoreError::Closed)
    };
    let both = |name: &str, limit| vec![log(name, limit), log("kept", 10)];
    let mut other_layout = both("layout", 10);
    other_layout[0].spec.layout = Some(Layout::SortedSet);
    let mut other_window = log("alone-in-window", 10);
    other_window.spec.window = Some(Duration::from_secs(2 * 86_400));
    let cases = [
        (both("same", 10), both("same", 10), vec![1, 1], 1),
        (both("changed", 10), both("changed", 20), vec![1, 1], 1),
        (both("layout", 10), other_layout, vec![2, 1], 1),
        (vec![log("alone", 10)], vec![log("alone", 20)], vec![1], 1),
        (vec![log("alone-in-window", 10)], vec![other_window], vec![2], 0),
    ];
    for (rules, later, left, undone) in cases {
        let user = rules[0].name.clone();
        let proxy = Proxy::before(&server).await;
        let (gate, _) = behind(&proxy, Duration::from_secs(2), rules).await;
        let (other, _) = gate_with(settings(&server.url()), later).await;
        let entries = [("user", user.as_str())];
        let descriptors = [Descriptor::new(&entries)];
        let request = Request::new("default", &descriptors);
        let before = proxy.scripts();
        proxy.replies.send_replace(Replies::Hold);
        assert!(gate.check(&request).await.is_unavailable());
        assert!(other.check(&request).await.is_allowed());
        proxy.replies.send_replace(Replies::Pass);
        while proxy.scripts() < before + 2 || gate.counts().undone < undone {
            tokio::task::yield_now().await;
        }
        assert_eq!(used(&gate, &request).await, left);
        assert_eq!((gate.counts().late, gate.counts().undone), (1, undone));
    }
}
