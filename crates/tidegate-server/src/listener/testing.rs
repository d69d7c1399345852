//! A listener in the test's own process.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::{Body, Bytes};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::listen::serve_within;
use super::{AcceptOptions, ByteBudget, Handler};
use crate::stop::{Stop, Trigger};

/// A server that runs until it is drained.
pub(crate) struct Server {
    pub(crate) at: SocketAddr,
    pub(crate) stop: Trigger,
    /// The number of connections that were cut, once it has ended.
    pub(crate) done: JoinHandle<usize>,
}

impl Server {
    /// Serves `handler` on a free port; its connections keep no more than `budget` allows.
    pub(crate) async fn of(
        handler: impl Handler,
        options: AcceptOptions,
        budget: Arc<ByteBudget>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let (stop, stopping) = Stop::by_hand();
        let served = serve_within(listener, options, handler, budget, stopping);
        Self { at, stop, done: tokio::spawn(served) }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.at).await.unwrap()
    }

    /// A client over HTTP/2 that takes `window` bytes of each answer before it accepts more, and its side of the
    /// connection.
    pub(crate) async fn connect_by_http_2<B>(
        &self,
        window: u32,
    ) -> (SendRequest<B>, JoinHandle<hyper::Result<()>>)
    where
        B: Body<Data = Bytes, Error: Error + Send + Sync> + Send + Unpin + 'static,
    {
        let mut client = Builder::new(TokioExecutor::new());
        client.initial_stream_window_size(window);
        let stream = TokioIo::new(self.connect().await);
        let (send, connection) = client.handshake(stream).await.unwrap();
        (send, tokio::spawn(connection))
    }
}
