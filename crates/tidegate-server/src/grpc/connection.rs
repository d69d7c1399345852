//! One connection: HTTP/2, kept for as long as its client is there.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::time::sleep;

use super::Limits;
use super::inline::Inline;
use super::routes::Routes;
use crate::door::{Handler, Stream};
use crate::stop::Stop;

/// Serves every connection by the same routes.
#[derive(Clone)]
pub(super) struct Connections {
    routes: Arc<Routes>,
    limits: Limits,
}

impl Connections {
    pub(super) const fn new(routes: Arc<Routes>, limits: Limits) -> Self {
        Self { routes, limits }
    }

    fn builder(&self) -> Builder<Inline> {
        let mut builder = Builder::new(Inline);
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.limits.streams)
            .max_header_list_size(self.limits.head_bytes)
            .keep_alive_interval(self.limits.ping)
            .keep_alive_timeout(self.limits.pong);
        builder
    }
}

impl Handler for Connections {
    async fn serve(self, stream: Stream, mut stop: Stop) {
        let called = Arc::new(AtomicBool::new(false));
        let service = service_fn(|request: Request<Incoming>| {
            let (routes, called) = (Arc::clone(&self.routes), Arc::clone(&called));
            async move {
                let let_in = || called.store(true, Ordering::Relaxed);
                Ok::<_, Infallible>(routes.answer(request, let_in).await)
            }
        });
        let mut connection = pin!(self.builder().serve_connection(TokioIo::new(stream), service));
        let mut first = pin!(sleep(self.limits.first_call));
        let (mut draining, mut looked) = (false, false);
        let ended = loop {
            tokio::select! {
                ended = connection.as_mut() => break ended,
                () = stop.draining(), if !draining => {
                    draining = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = first.as_mut(), if !looked => {
                    looked = true;
                    if !called.load(Ordering::Relaxed) {
                        return;
                    }
                }
            }
        };
        if let Err(error) = ended {
            // It concerns nobody but its client.
            tracing::debug!(%error, "a gRPC connection broke off");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::{self, Door, Secret};
    use crate::grpc::Choices;
    use crate::limiters::Limiters;
    use http_body_util::Empty;
    use hyper::body::Bytes;
    use hyper::client::conn::http2::handshake;
    use hyper_util::rt::TokioExecutor;
    use std::time::Duration;
    use tidegate::Policy;
    use tokio::net::{TcpListener, TcpStream};

    #[tokio::test]
    async fn a_stranger_s_calls_do_not_keep_its_connection() {
        let limits = Limits { first_call: Duration::from_millis(100), ..Limits::default() };
        let limiters = Arc::new(Limiters::of(Policy::default()).unwrap());
        let secret = Secret::parse("sesame").ok();
        let routes = Routes::new(limiters, Choices::default(), secret, limits);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let (_stop, stopping) = Stop::by_hand();
        let connections = Connections::new(Arc::new(routes), limits);
        tokio::spawn(door::serve(listener, Door::default(), connections, stopping));
        let stream = TokioIo::new(TcpStream::connect(at).await.unwrap());
        let (mut send, connection) = handshake(TokioExecutor::new(), stream).await.unwrap();
        let connection = tokio::spawn(connection);
        let uri =
            format!("http://{at}/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit");
        let call = Request::post(uri).header("content-type", "application/grpc");
        let told = send.send_request(call.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
        assert_eq!(told.headers()["grpc-status"], "16", "unauthenticated");
        // Ends because the server ends it: `send` is still there.
        let _ = connection.await.unwrap();
        assert!(send.is_closed());
    }
}
