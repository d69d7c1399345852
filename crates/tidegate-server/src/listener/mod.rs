//! Listeners for any protocol: a bounded number of connections, TLS, a token, bounds for each
//! connection and for all, and a drain that waits for requests under way.
//!
//! A protocol is a [`Handler`]: it serves one connection, a [`Stream`] that is already decrypted,
//! within a [`Shell`] until it ends. All bounds are in [`Bounds`], a [`ByteBudget`] counts the bytes
//! that clients make the server keep, and [`ConnectionPatience`] decides when to stop waiting for a client.
//! [`serve`] does the rest. Each protocol has its own way to carry a token, so it asks a [`ListenerSecret`]
//! itself.

mod access;
mod activity;
mod body;
mod bounds;
mod budget;
mod certificate_name;
mod clients;
mod heads;
mod listen;
mod patience;
mod peer;
mod reload;
mod remainder;
mod secret;
mod shell;
mod socket;
pub(crate) mod source;
mod stream;
mod threads;
mod tls;
mod watched;

use std::sync::Arc;

use crate::counts::ListenerCounts;
pub(crate) use access::{OperatorAccess, Role, Who};
pub(crate) use activity::{Activity, RequestUnderWay};
pub(crate) use body::{BadBody, read_body};
pub(crate) use bounds::{Bounds, FREE, WINDOW_BYTES, WINDOW_OF_ALL_BYTES};
pub(crate) use budget::{Account, ByteBudget, KeptBytes, TOO_MUCH};
pub(crate) use clients::{CertificateVerb, Clients};
pub(crate) use heads::Heads;
pub(crate) use listen::serve;
pub(crate) use patience::{ConnectionCheck, ConnectionPatience};
pub(crate) use peer::Peer;
pub(crate) use reload::{Again, on_hangup};
pub(crate) use remainder::{Arrives, Remainder};
pub(crate) use secret::{Given, ListenerSecret, Regrant, bearer};
pub(crate) use shell::Shell;
pub(crate) use stream::{ReachedAddress, Stream};
pub(crate) use threads::Threads;
pub(crate) use tls::{Tls, TlsFiles};
pub(crate) use watched::{WatchedStream, WatchedTasks, answer_begins};

/// Accepting the connections of a listener.
#[derive(Clone, Debug, Default)]
pub(crate) struct AcceptOptions {
    pub(crate) bounds: Bounds,
    /// If absent, connections are in clear text.
    pub(crate) tls: Option<Tls>,
    /// The secret of the clients, which the protocol checks.
    pub(crate) secret: Option<ListenerSecret>,
    pub(crate) threads: Threads,
    pub(crate) counts: Arc<ListenerCounts>,
    /// True if the socket stays open after this process: waiting connections are left to the next process.
    pub(crate) is_passed: bool,
}

impl AcceptOptions {
    /// Returns whether a client has to present a certificate or a token.
    pub(crate) fn knows_its_clients(&self) -> bool {
        self.secret.is_some() || self.tls.as_ref().is_some_and(Tls::asks_for_certificates)
    }
}

/// The protocol of a listener; a copy of it for each connection.
pub(crate) trait Handler: Clone + Send + 'static {
    /// The names of the protocol for TLS (ALPN), the preferred first; none if clients do not name
    /// any.
    const PROTOCOLS: &'static [&'static [u8]] = &[];

    /// The answer to a client that speaks the protocol without TLS at a listener with TLS; none if it is empty.
    const NEEDS_TLS: &'static [u8] = b"";

    /// Serves one connection until its client leaves, until it is cut as unused, or, when the
    /// process drains, until requests under way are answered. A panic ends only this connection.
    fn serve(self, stream: Stream, shell: Shell) -> impl Future<Output = ()> + Send;
}

#[cfg(test)]
pub(crate) mod testing;
