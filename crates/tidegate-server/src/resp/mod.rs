//! Decisions for Redis clients, over RESP2 and RESP3.
//!
//! A command goes [`connection`] (read) -> [`parse`] (where its words lie) -> [`dispatch`] (which command of
//! [`table`] it is, and may it be asked) -> [`check`] or [`throttle`] -> the gate -> [`reply`]. All that a
//! read brought is answered before anything is written, and what has to wait is handed back to the
//! connection as [`later`].

#[cfg(test)]
mod allocations;
mod args;
mod call;
mod check;
mod connection;
#[cfg(test)]
mod conversations;
mod dispatch;
mod handshake;
mod inline;
mod input;
mod introspection;
#[cfg(test)]
mod invariants;
mod later;
mod limits;
mod output;
mod parse;
mod plans;
mod question;
mod reply;
mod session;
mod shared;
mod table;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod throttle;
mod usage;
mod wire;

use std::sync::Arc;

use tidegate::RuleErrors;
use tokio::net::TcpListener;

use crate::limiters::Limiters;
use crate::listener::{self, Options, Shell, Stream};
use crate::stop::Stop;
use shared::Shared;

/// Limiters, served to Redis clients.
#[derive(Clone)]
pub(crate) struct Service {
    shared: Arc<Shared>,
}

impl Service {
    /// Serves `limiters`, whoever else holds them; `throttles` where CL.THROTTLE is answered.
    ///
    /// # Errors
    /// None: see [`plans::Throttle::beside`].
    pub(crate) fn new(
        limiters: Arc<Limiters>,
        options: &Options,
        throttles: bool,
    ) -> Result<Self, RuleErrors> {
        let shared = Shared::new(limiters, options.secret.clone(), throttles)?;
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Answers until `stop`; answers how many connections had to be cut in the end.
    pub(crate) async fn serve(self, listener: TcpListener, options: Options, stop: Stop) -> usize {
        listener::serve(listener, options, self, stop).await
    }
}

impl listener::Handler for Service {
    async fn serve(self, stream: Stream, shell: Shell) {
        connection::serve(stream, self.shared, shell).await;
    }
}
