//! Listeners, whatever protocol they serve: so many connections at once, TLS, a token, and an end that waits for
//! what is under way.
//!
//! A protocol is a [`Handler`]: it is handed one connection as a [`Stream`], already decrypted, and serves
//! it until it ends. [`serve`] does the rest. The token is a matter of the protocol, for each has its own
//! way to carry it: it asks a [`Secret`].

mod activity;
mod budget;
mod idle;
mod limits;
mod listen;
mod reload;
mod secret;
mod socket;
pub(crate) mod source;
mod stream;
mod threads;
mod tls;
mod watched;

pub(crate) use activity::{Activity, UnderWay};
pub(crate) use budget::{Account, Budget, Kept};
pub(crate) use idle::{Idle, looks};
pub(crate) use limits::{HEAD, IDLE, Limits, STALLED};
pub(crate) use listen::serve;
pub(crate) use reload::on_hangup;
pub(crate) use secret::{Secret, bearer};
pub(crate) use stream::{Arrives, Stream};
pub(crate) use threads::Threads;
pub(crate) use tls::{Tls, TlsFiles};
pub(crate) use watched::{Watched, WatchedTasks, answer_begins};

use crate::stop::Stop;

/// How one listener takes connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) limits: Limits,
    /// Clear text without it.
    pub(crate) tls: Option<Tls>,
    /// What a client must know. [`serve`] does not ask for it: the protocol does.
    pub(crate) secret: Option<Secret>,
    pub(crate) threads: Threads,
}

impl Options {
    /// The same, where TLS agrees on one of these protocols (ALPN), the preferred first.
    pub(crate) fn speaking(self, protocols: &[&[u8]]) -> Self {
        Self { tls: self.tls.map(|tls| tls.speaking(protocols)), ..self }
    }

    /// Whether a client has to show a certificate or a token.
    pub(crate) fn knows_its_clients(&self) -> bool {
        self.secret.is_some() || self.tls.as_ref().is_some_and(Tls::asks_for_certificates)
    }
}

/// The protocol of a listener; a copy of it for each connection.
pub(crate) trait Handler: Clone + Send + 'static {
    /// Serves one connection until its client leaves, until it is of no use, or, once `stop` drains, until
    /// what is under way is answered. A panic ends this connection and no other.
    fn serve(self, stream: Stream, stop: Stop) -> impl Future<Output = ()> + Send;
}
