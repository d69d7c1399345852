//! Decisions over HTTP/1.1 and HTTP/2, on one port; and an admin port beside it.
//!
//! A request goes [`listener`](crate::listener) -> [`connection`] -> [`routes`] -> [`check`] or [`admin`] ->
//! [`body`] and [`question`] (read it) -> the gate -> [`answer`]. What can not be answered is a [`problem`];
//! what is not even HTTP is [`hyper_io`] -> [`bad_request`].

mod admin;
mod answer;
mod authorize;
mod bad_request;
mod body;
mod browser;
mod check;
mod connection;
mod fast_path;
mod head;
mod health;
mod held;
mod hyper_io;
#[cfg(test)]
mod invariants;
mod media_type;
mod paths;
mod problem;
mod question;
mod routes;
mod rules;
#[cfg(test)]
mod testing;
mod unread;

use std::sync::Arc;

use http_body_util::Full;
use hyper::body::Bytes;
use tokio::net::TcpListener;

use crate::limiters::Limiters;
use crate::listener::{self, Limits, Options};
use crate::probe::Probe;
use crate::sample_request::SampleRequest;
use crate::stop::Stop;
use connection::{Http, Site};

type Request = hyper::Request<hyper::body::Incoming>;
type Response = hyper::Response<Full<Bytes>>;

/// What every answer stands on.
struct App {
    limiters: Arc<Limiters>,
    probe: Probe,
    limits: Limits,
}

/// Limiters, served.
pub(crate) struct Service(Arc<App>);

impl Service {
    /// Serves `limiters`, whoever else holds them.
    pub(crate) fn new(limiters: Arc<Limiters>, limits: Limits) -> Self {
        let probe = Probe::new(SampleRequest::of(limiters.policy()));
        Self(Arc::new(App { limiters, probe, limits }))
    }

    /// Answers checks until `stop`; answers how many connections had to be cut in the end.
    pub(crate) async fn serve_public(
        &self,
        listener: TcpListener,
        options: Options,
        stop: Stop,
    ) -> usize {
        let site = routes::Public(Arc::clone(&self.0), options.secret.clone());
        self.serve(listener, options, site, stop).await
    }

    /// Answers operators until `stop`; answers how many connections had to be cut in the end.
    pub(crate) async fn serve_admin(
        &self,
        listener: TcpListener,
        options: Options,
        stop: Stop,
    ) -> usize {
        let site = routes::Admin(Arc::clone(&self.0), options.secret.clone());
        self.serve(listener, options, site, stop).await
    }

    async fn serve(
        &self,
        listener: TcpListener,
        options: Options,
        site: impl Site,
        stop: Stop,
    ) -> usize {
        let options = options.speaking(&[b"h2", b"http/1.1"]);
        listener::serve(listener, options, Http(site), stop).await
    }
}
