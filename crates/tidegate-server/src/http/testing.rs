//! A listener in the test's own process, with bounds as short as the test needs.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::connection::{Http, Site};
use super::{Bounds, Request, Response};
pub(super) use crate::listener::testing::Server;
use crate::listener::{Budget, Options};

/// A site that is a function.
#[derive(Clone)]
pub(super) struct Of<F>(F);

impl<F, Answer> Site for Of<F>
where
    F: Fn(Request) -> Answer + Clone + Send + Sync + 'static,
    Answer: Future<Output = Response> + Send,
{
    async fn answer(self, request: Request) -> Response {
        (self.0)(request).await
    }
}

/// A site that answers by `answer`.
pub(super) fn site<F, Answer>(answer: F) -> Of<F>
where
    F: Fn(Request) -> Answer + Clone + Send + Sync + 'static,
    Answer: Future<Output = Response> + Send,
{
    Of(answer)
}

/// A site without content.
pub(super) fn nowhere() -> impl Site {
    site(async |_| Response::default())
}

pub(super) async fn serve(site: impl Site, bounds: Bounds) -> Server {
    serve_within(site, bounds, Arc::default()).await
}

/// Like [`Self::serve`], keeping no more bytes than the budget allows.
pub(super) async fn serve_within(site: impl Site, bounds: Bounds, budget: Arc<Budget>) -> Server {
    let options = Options { bounds, ..Options::default() };
    Server::of(Http(site), options, budget).await
}

impl Server {
    /// All bytes that the server answers to these, until it closes.
    pub(super) async fn exchange(&self, sent: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(sent.as_bytes()).await.unwrap();
        until_closed(&mut stream).await
    }
}

/// All bytes until the server closes the connection.
pub(super) async fn until_closed(stream: &mut TcpStream) -> String {
    let mut came = Vec::new();
    // A reset is a close as well.
    let _ = stream.read_to_end(&mut came).await;
    String::from_utf8_lossy(&came).into_owned()
}
