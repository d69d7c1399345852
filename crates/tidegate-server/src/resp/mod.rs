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

use crate::limiters::Limiters;
use crate::listener::{Handler, Secret, Shell, Stream};
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
        secret: Option<Secret>,
        throttles: bool,
    ) -> Result<Self, RuleErrors> {
        let shared = Shared::new(limiters, secret, throttles)?;
        Ok(Self { shared: Arc::new(shared) })
    }
}

impl Handler for Service {
    async fn serve(self, stream: Stream, shell: Shell) {
        connection::serve(stream, self.shared, shell).await;
    }
}
