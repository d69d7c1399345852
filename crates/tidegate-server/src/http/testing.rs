//! A listener in the test's own process, with bounds as short as the test wants them.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use tidegate::{Gate, Policy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::connection::Http;
use super::{App, Limits, Service};
use crate::door::{self, Door};
use crate::limiters::Limiters;
use crate::stop::{Stop, Trigger};

/// A server that runs until it is drained.
pub(super) struct Server {
    pub(super) at: SocketAddr,
    pub(super) stop: Trigger,
    pub(super) done: JoinHandle<usize>,
}

/// Serves `routes` over a gate without rules.
pub(super) async fn serve(routes: Router<App>, limits: Limits) -> Server {
    let limiters = Arc::new(Limiters::Here(Gate::new(Policy::default())));
    let Service(app) = Service::new(limiters, limits);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let (stop, stopping) = Stop::by_hand();
    let router = routes.with_state(app);
    let done =
        tokio::spawn(door::serve(listener, Door::default(), Http { router, limits }, stopping));
    Server { at, stop, done }
}

impl Server {
    pub(super) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.at).await.unwrap()
    }

    /// All that comes back, until the server closes, for these bytes.
    pub(super) async fn exchange(&self, sent: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(sent.as_bytes()).await.unwrap();
        until_closed(&mut stream).await
    }
}

/// All that comes until the server closes the connection.
pub(super) async fn until_closed(stream: &mut TcpStream) -> String {
    let mut came = Vec::new();
    // A reset is a close as well.
    let _ = stream.read_to_end(&mut came).await;
    String::from_utf8_lossy(&came).into_owned()
}
