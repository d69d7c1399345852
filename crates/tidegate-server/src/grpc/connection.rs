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
            called.store(true, Ordering::Relaxed);
            let routes = Arc::clone(&self.routes);
            async move { Ok::<_, Infallible>(routes.answer(request).await) }
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
