//! The state that all connections of the RESP listener share: limiters, clients and counts. Each session holds it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use tidegate::RuleErrors;
use tokio::time::Instant;

use super::call_limits::Throttle;
use crate::decide::RequestDecider;
use crate::limiters::Limiters;
use crate::listener::Clients;

/// The address of the listener as clients write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenerAddress {
    /// An IP address without brackets, or a name.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl From<SocketAddr> for ListenerAddress {
    fn from(at: SocketAddr) -> Self {
        // A socket for both families shows 127.0.0.1 as `::ffff:127.0.0.1`.
        Self { host: at.ip().to_canonical().to_string(), port: at.port() }
    }
}

/// The shared state of a listener.
#[derive(Debug)]
pub(super) struct ListenerState {
    pub(super) decider: RequestDecider,
    pub(super) throttle: Throttle,
    pub(super) clients: Clients,
    /// The address that clients in cluster mode are told, if it is not the address that they have reached.
    pub(super) announced: Option<ListenerAddress>,
    /// When the listener started.
    pub(super) since: Instant,
    /// Connections so far.
    begun: AtomicU64,
    /// Connections that are open.
    open: AtomicUsize,
}

impl ListenerState {
    pub(super) fn new(limiters: Arc<Limiters>, clients: Clients) -> Result<Self, RuleErrors> {
        Ok(Self {
            throttle: Throttle::beside(&limiters)?,
            decider: RequestDecider::new(limiters, |counts| &counts.resp),
            clients,
            announced: None,
            since: Instant::now(),
            begun: AtomicU64::new(0),
            open: AtomicUsize::new(0),
        })
    }

    /// Counts a connection; returns its number, from 1.
    pub(super) fn begin(&self) -> u64 {
        self.open.fetch_add(1, Relaxed);
        self.begun.fetch_add(1, Relaxed) + 1
    }

    /// Counts it as ended.
    pub(super) fn end(&self) {
        self.open.fetch_sub(1, Relaxed);
    }

    /// The number of connections so far.
    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Relaxed)
    }

    /// The number of connections that are open.
    pub(super) fn open(&self) -> usize {
        self.open.load(Relaxed)
    }
}
