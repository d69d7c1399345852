//! Decisions for Redis clients, over RESP2 and RESP3.
//!
//! A command passes [`connection`] (reads it) -> [`parse`] (the ranges of its words) ->
//! [`dispatch`] (finds it in [`table`], and checks that the client may use it) -> [`check`] or
//! [`throttle`] -> the gate -> [`reply`]. All commands of a read are answered before anything is
//! written, and a command that has to wait is returned to the connection as [`pending_reply`].

mod args;
mod bounds;
mod call_limits;
mod check;
mod cluster;
mod connection;
mod dispatch;
mod handshake;
mod inline;
mod input;
mod introspection;
mod line;
mod output;
mod parse;
mod pending_reply;
mod question;
mod reply;
mod reserve;
mod session;
mod state;
mod table;
mod throttle;
mod throttle_call;
mod tracking;
mod transaction;
mod undo;
mod usage;
mod wire;

use std::sync::Arc;

use tidegate::RuleErrors;

use crate::limiters::Limiters;
use crate::listener::{Clients, Handler, Shell, Stream};
use session::Session;
pub(crate) use state::ListenerAddress;
use state::ListenerState;

/// Limiters that are served to Redis clients.
#[derive(Clone)]
pub(crate) struct RespService {
    state: Arc<ListenerState>,
}

impl RespService {
    /// Serves `limiters`, which other listeners may share. Clients in cluster mode are told the address `announced`, or
    /// without it the address that they have reached.
    ///
    /// # Errors
    /// No error is known; see [`call_limits::Throttle`].
    pub(crate) fn new(
        limiters: Arc<Limiters>,
        clients: Clients,
        announced: Option<ListenerAddress>,
    ) -> Result<Self, RuleErrors> {
        let mut state = ListenerState::new(limiters, clients)?;
        state.announced = announced;
        Ok(Self { state: Arc::new(state) })
    }
}

impl Handler for RespService {
    const NEEDS_TLS: &'static [u8] =
        b"-ERR this listener speaks TLS: expected a rediss:// address, or --tls of redis-cli\r\n";

    async fn serve(self, stream: Stream, shell: Shell) {
        // Kept for the audit: only where names in certificates grant verbs is a certificate read.
        let mut peer = None;
        let granted = self
            .state
            .clients
            .of_connection(|| peer.insert(Box::new(stream.peer())).as_ref().clone());
        let mut session = Session::begin(self.state, granted, stream.reached());
        session.peer = peer;
        connection::serve(stream, session, shell).await;
    }
}

#[cfg(test)]
mod invariants;

#[cfg(test)]
mod testing;

#[cfg(test)]
mod tests;
