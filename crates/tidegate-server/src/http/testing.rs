//! A listener in the test's own process, with bounds as short as the test needs.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::connection::{Endpoint, Http};
use super::message::{HttpRequest, HttpResponse};
use crate::listener::Bounds;
pub(super) use crate::listener::testing::Server;
use crate::listener::{AcceptOptions, ByteBudget};

/// An endpoint that is a function.
#[derive(Clone)]
pub(super) struct FnEndpoint<F>(F);

impl<F, Answer> Endpoint for FnEndpoint<F>
where
    F: Fn(HttpRequest) -> Answer + Clone + Send + Sync + 'static,
    Answer: Future<Output = HttpResponse> + Send,
{
    async fn answer(self, request: HttpRequest) -> HttpResponse {
        (self.0)(request).await
    }
}

/// An endpoint that answers with `answer`.
pub(super) fn endpoint<F, Answer>(answer: F) -> FnEndpoint<F>
where
    F: Fn(HttpRequest) -> Answer + Clone + Send + Sync + 'static,
    Answer: Future<Output = HttpResponse> + Send,
{
    FnEndpoint(answer)
}

/// An endpoint without content.
pub(super) fn nowhere() -> impl Endpoint {
    endpoint(async |_| HttpResponse::default())
}

pub(super) async fn serve(endpoint: impl Endpoint, bounds: Bounds) -> Server {
    serve_within(endpoint, bounds, Arc::default()).await
}

/// Like [`serve`], with a budget of bytes.
pub(super) async fn serve_within(
    endpoint: impl Endpoint,
    bounds: Bounds,
    budget: Arc<ByteBudget>,
) -> Server {
    let options = AcceptOptions { bounds, ..AcceptOptions::default() };
    Server::of(Http(endpoint), options, budget).await
}

impl Server {
    /// All bytes that the server sends in answer, until it closes.
    pub(super) async fn exchange(&self, sent: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(sent.as_bytes()).await.unwrap();
        until_closed(&mut stream).await
    }
}

/// All bytes until the server closes the connection.
pub(super) async fn until_closed(stream: &mut TcpStream) -> String {
    let mut came = Vec::new();
    // A reset also ends the connection.
    let _ = stream.read_to_end(&mut came).await;
    String::from_utf8_lossy(&came).into_owned()
}
