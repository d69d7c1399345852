//! Decisions over HTTP/1.1 and HTTP/2, on one port; and an admin port beside it.
//!
//! A request goes [`door`](crate::door) -> [`connection`] -> [`routes`] -> [`check`] or [`admin`] -> [`body`] and
//! [`question`] (read it) -> the gate -> [`answer`]. What can not be answered is a [`problem`]; what is
//! not even HTTP is [`withhold`] -> [`refused`].

mod admin;
mod answer;
mod authorize;
mod body;
mod check;
mod connection;
mod head;
mod health;
mod limits;
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

use axum::Router;
use tokio::net::TcpListener;

use crate::door::{self, Door};
use crate::limiters::Limiters;
use crate::sample::Sample;
use crate::stop::Stop;
use connection::Http;
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
    pub(crate) async fn serve_public(
        &self,
        listener: TcpListener,
        door: Door,
        stop: Stop,
    ) -> usize {
        let router = routes::public(self.0.clone(), door.secret.clone());
        self.serve(listener, door, router, stop).await
    }

    /// Answers operators until `stop`; answers how many connections had to be cut in the end.
    pub(crate) async fn serve_admin(&self, listener: TcpListener, door: Door, stop: Stop) -> usize {
        let router = routes::admin(self.0.clone(), door.secret.clone());
        self.serve(listener, door, router, stop).await
    }

    async fn serve(&self, listener: TcpListener, door: Door, router: Router, stop: Stop) -> usize {
        door::serve(listener, door, Http { router, limits: self.0.limits }, stop).await
    }
}
