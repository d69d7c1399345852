//! Decisions over HTTP/1.1 and HTTP/2 in clear text, on one port; and an admin port beside it.
//!
//! A request goes [`listen`] -> [`connection`] -> [`routes`] -> [`check`] or [`admin`] -> [`body`] and
//! [`question`] (read it) -> the gate -> [`answer`]. What can not be answered is a [`problem`]; what is
//! not even HTTP is [`withhold`] -> [`refused`].

mod admin;
mod answer;
mod body;
mod check;
mod connection;
mod head;
mod health;
mod limits;
mod listen;
mod problem;
mod question;
mod refused;
mod routes;
mod rules;
#[cfg(test)]
mod testing;
mod uses;
mod withhold;

use std::sync::Arc;

use tokio::net::TcpListener;

use crate::limiters::Limiters;
use crate::sample::Sample;
use crate::stop::Stop;
use health::Probe;
pub(crate) use limits::Limits;

/// What every handler stands on.
#[derive(Clone)]
struct App {
    limiters: Arc<Limiters>,
    probe: Arc<Probe>,
    limits: Limits,
}

/// Limiters, served.
pub(crate) struct Service(App);

impl Service {
    /// Serves `limiters`, whoever else holds them.
    pub(crate) fn new(limiters: Arc<Limiters>, limits: Limits) -> Self {
        let probe = Probe::new(Sample::of(limiters.policy()));
        Self(App { limiters, probe: Arc::new(probe), limits })
    }

    /// Answers checks until `stop`; answers how many connections had to be cut in the end.
    pub(crate) async fn serve_public(&self, listener: TcpListener, stop: Stop) -> usize {
        let router = routes::public(self.0.clone());
        listen::serve(listener, router, self.0.limits, stop).await
    }

    /// Answers operators until `stop`; answers how many connections had to be cut in the end.
    pub(crate) async fn serve_admin(&self, listener: TcpListener, stop: Stop) -> usize {
        let router = routes::admin(self.0.clone());
        listen::serve(listener, router, self.0.limits, stop).await
    }
}
