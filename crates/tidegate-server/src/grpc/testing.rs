//! A client of the service in the test's own process, over a real socket.

use std::convert::Infallible;
use std::sync::Arc;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::Request;
use hyper::body::{Bytes, Frame};
use hyper::client::conn::http2::SendRequest;
use prost::Message;
use tidegate::Policy;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;

use super::connection::Connections;
use super::messages::{EntryMessage, RateLimitDescriptor, RateLimitRequest};
use super::routes::Routes;
use super::{BadRequest, Bounds, Choices};
use crate::limiters::Limiters;
use crate::listener::testing::Server;
use crate::listener::{AcceptOptions, ByteBudget, Clients, ListenerSecret};

/// The path of decisions.
pub(super) const DECIDES: &str =
    "http://a/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// Space for every reply.
pub(super) const WINDOW: u32 = 1 << 16;

type SentBody = BoxBody<Bytes, Infallible>;

/// A connection and the server that it uses.
pub(super) struct TestConnection {
    pub(super) send: SendRequest<SentBody>,
    /// The client's side of the connection.
    pub(super) connection: JoinHandle<hyper::Result<()>>,
    _server: Server,
}

impl TestConnection {
    /// The status of a call, in the head or after the message.
    pub(super) async fn status(&mut self, call: Request<SentBody>) -> String {
        let response = self.send.send_request(call).await.unwrap();
        let status = match response.headers().get("grpc-status").cloned() {
            Some(status) => status,
            None => {
                let body = response.into_body().collect().await.unwrap();
                body.trailers().unwrap()["grpc-status"].clone()
            }
        };
        status.to_str().unwrap().to_owned()
    }
}

/// A message of this domain with one descriptor: the user ada.
pub(super) fn ada(domain: &str) -> Bytes {
    let entry = EntryMessage { key: "user".into(), value: "ada".into() };
    let descriptor = RateLimitDescriptor { entries: vec![entry], ..Default::default() };
    let domain = domain.to_owned().into();
    let message = RateLimitRequest { domain, descriptors: vec![descriptor], hits_addend: 0 };
    let message = message.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0], &length[..], &message].concat().into()
}

pub(super) fn call(uri: &str, body: Bytes) -> Request<SentBody> {
    posted(uri, Full::new(body).boxed())
}

/// A call that sends these bytes and then nothing, without an end.
pub(super) fn endless(uri: &str, begins: Bytes) -> Request<SentBody> {
    let begins = tokio_stream::once(Ok(Frame::data(begins)));
    posted(uri, StreamBody::new(begins.chain(tokio_stream::pending())).boxed())
}

fn posted(uri: &str, body: SentBody) -> Request<SentBody> {
    Request::post(uri).header("content-type", "application/grpc").body(body).unwrap()
}

pub(super) fn routes(bounds: Bounds, secret: Option<ListenerSecret>) -> Routes {
    routes_to(Limiters::of(Policy::default()).unwrap(), bounds, secret)
}

pub(super) fn routes_to(
    limiters: Limiters,
    bounds: Bounds,
    secret: Option<ListenerSecret>,
) -> Routes {
    // Errors tell the causes apart.
    let choices = Choices { bad_request: BadRequest::Error, ..Choices::default() };
    let clients = Clients { secret, ..Clients::default() };
    Routes::new(Arc::new(limiters), choices, clients, bounds)
}

/// Routes that refuse requests that they do not understand, as by default.
pub(super) fn refusing_routes(bounds: Bounds) -> Routes {
    let limiters = Limiters::of(Policy::default()).unwrap();
    Routes::new(Arc::new(limiters), Choices::default(), Clients::default(), bounds)
}

/// Serves these routes, with a budget of bytes.
pub(super) async fn served(routes: Routes, bounds: Bounds, budget: Arc<ByteBudget>) -> Server {
    let options = AcceptOptions { bounds, ..AcceptOptions::default() };
    Server::of(Connections(Arc::new(routes)), options, budget).await
}

/// A connection of a client whose window has space for `window` bytes of each reply.
pub(super) async fn connected(routes: Routes, bounds: Bounds, window: u32) -> TestConnection {
    connected_within(routes, bounds, Arc::default(), window).await
}

/// Like [`connected`], with a budget of bytes for the server.
pub(super) async fn connected_within(
    routes: Routes,
    bounds: Bounds,
    budget: Arc<ByteBudget>,
    window: u32,
) -> TestConnection {
    let server = served(routes, bounds, budget).await;
    let (send, connection) = server.connect_by_http_2(window).await;
    TestConnection { send, connection, _server: server }
}
