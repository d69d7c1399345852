//! A listener in the test's own process, over a pipe instead of a socket.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tidegate::config;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;

use super::connection;
use super::session::Session;
use super::state::ListenerState;
use crate::limiters::Limiters;
use crate::listener::{Bounds, ByteBudget, Clients, ListenerSecret, ReachedAddress, Shell};
use crate::stop::{Stop, Trigger};
use crate::verbs::PublicVerbs;

/// Keys that are counted at a time, as in a server.
const TOP_KEYS: usize = 256;

/// One rule with a single limiter, two that let requests wait, and one that hardly refills.
const RULES: &str = r#"
rule = [
    { name = "per-user", key = ["user"], algorithm = "fixed_window", rate = "3/365d" },
    { name = "shaped", domain = "waits", key = ["user"], algorithm = "token_bucket", rate = "1/50ms", on_excess = { wait = "10s", max_waiters = 100 } },
    { name = "shaped-too", domain = "panics", key = ["user"], algorithm = "token_bucket", rate = "1/50ms", on_excess = { wait = "10s", max_waiters = 100 } },
    { name = "once", domain = "once", key = ["user"], algorithm = "fixed_window", rate = "3/365d", dedupe = "1d" },
    { name = "hopeless", domain = "stands", algorithm = "token_bucket", rate = "1/365d", on_excess = { wait = "365d", max_waiters = 100 } },
]
"#;

/// The shared state of connections, without a secret.
pub(super) fn open() -> Arc<ListenerState> {
    state(None)
}

/// The shared state of connections. A request of the domain `panics` panics.
pub(super) fn state(secret: Option<ListenerSecret>) -> Arc<ListenerState> {
    let limiters = Limiters::that_panic(config::parse("test", RULES).unwrap());
    let limiters = Arc::new(limiters.with_top_keys(TOP_KEYS));
    let clients = Clients { secret, verbs: PublicVerbs::usual(), ..Clients::default() };
    Arc::new(ListenerState::new(limiters, clients).unwrap())
}

/// A session of a client without a certificate.
pub(super) fn session(state: Arc<ListenerState>) -> Session {
    let verbs = state.clients.verbs;
    let address = Some(SocketAddr::from(([127, 0, 0, 1], 6380)));
    Session::begin(state, verbs, ReachedAddress { address, is_encrypted: false })
}

/// One served connection, and the client's end of it.
pub(super) struct Served {
    pub(super) client: DuplexStream,
    pub(super) stop: Trigger,
    pub(super) done: JoinHandle<()>,
    pub(super) has_ended: Arc<AtomicBool>,
}

/// The shell of a single connection, with bounds as short as the test needs.
pub(super) fn shell(bounds: Bounds) -> (Shell, Trigger) {
    let (trigger, stop) = Stop::by_hand();
    let Bounds { kept_bytes, kept_bytes_of_all, .. } = bounds;
    let budget = Arc::new(ByteBudget::of(kept_bytes, kept_bytes_of_all));
    (Shell { bounds, account: budget.open(), stop }, trigger)
}

/// Serves one connection; the pipe holds `pipe` bytes each way.
pub(super) fn serve(state: Arc<ListenerState>, pipe: usize) -> Served {
    serve_within(Bounds::default(), state, pipe)
}

/// Serves one connection within these bounds.
pub(super) fn serve_within(bounds: Bounds, state: Arc<ListenerState>, pipe: usize) -> Served {
    let (client, server) = duplex(pipe);
    let (shell, stop) = shell(bounds);
    let has_ended = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&has_ended);
    let done = tokio::spawn(async move {
        connection::serve(server, session(state), shell).await;
        ended.store(true, Relaxed);
    });
    Served { client, stop, done, has_ended }
}

/// All replies to these bytes, after which the client closes its side.
pub(super) async fn exchange(state: Arc<ListenerState>, sent: &[u8]) -> Vec<u8> {
    let Served { mut client, done, stop: _stop, .. } = serve(state, 1 << 20);
    client.write_all(sent).await.unwrap();
    client.shutdown().await.unwrap();
    let mut came = Vec::new();
    client.read_to_end(&mut came).await.unwrap();
    done.await.unwrap();
    came
}

/// The replies to a text, under the usual bounds.
pub(super) async fn replies_to(sent: &str) -> String {
    let came = exchange(open(), sent.as_bytes()).await;
    String::from_utf8(came).unwrap()
}
