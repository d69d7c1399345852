//! Decisions over HTTP/1.1 and HTTP/2, on one port, and an admin port next to it.
//!
//! A request passes [`listener`](crate::listener) -> [`connection`] -> [`routes`] -> [`check`] or
//! [`admin`] -> [`body`] and [`question`] (which read it) -> the gate -> [`answer`]. A request that
//! cannot be answered gets a [`problem`]; a head that is no HTTP gets hyper's bare answer.

mod admin;
mod answer;
mod app;
mod authorize;
mod body;
mod browser;
mod check;
mod connection;
mod decisions;
mod events;
mod fast_path;
mod head;
mod health;
mod hyper_io;
mod latest;
mod media_type;
mod message;
mod metrics;
mod openapi;
mod probes;
mod problem;
mod put_rules;
mod query;
mod question;
mod recorded;
mod report;
mod request_claims;
mod reservations;
mod reserve;
mod routes;
mod rules;
mod stats;
mod table;
mod top;
mod unread;

use std::sync::Arc;

use crate::configuration::Configuration;
use crate::limiters::Limiters;
use crate::listener::{Bounds, Clients, Handler, OperatorAccess};
use app::App;
use connection::Http;
use routes::{Access, HttpRoutes};

/// The HTTP service of some limiters.
pub(crate) struct HttpService(Arc<App>);

impl HttpService {
    /// Serves `limiters`, which other listeners may share; `of_operators` is the number of connections of the listener
    /// for operators.
    pub(crate) fn new(limiters: Arc<Limiters>, bounds: Bounds, of_operators: u32) -> Self {
        Self(Arc::new(App::new(limiters, bounds, of_operators)))
    }

    /// The endpoint for clients that ask for decisions.
    pub(crate) fn public(&self, clients: Clients) -> impl Handler {
        self.routes(Access::Public(clients))
    }

    /// The endpoint for probes.
    pub(crate) fn probe(&self) -> impl Handler {
        Http(probes::Probes(Arc::clone(&self.0)))
    }

    /// The endpoint for operators.
    pub(crate) fn admin(
        &self,
        access: OperatorAccess,
        configuration: Arc<Configuration>,
    ) -> impl Handler {
        self.routes(Access::Admin(access, configuration))
    }

    fn routes(&self, access: Access) -> impl Handler {
        Http(HttpRoutes { app: Arc::clone(&self.0), access })
    }
}

#[cfg(test)]
mod invariants;

#[cfg(test)]
mod testing;

#[cfg(test)]
pub(crate) use rules::json_of;
