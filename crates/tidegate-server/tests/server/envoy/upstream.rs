//! A service upstream of the proxy that counts requests and answers all of them alike; at `/tokens/N` it gives the
//! answer of a language model that used N tokens.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::http::{HeaderValue, Request, Response};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpListener;

/// Runs for as long as the test's runtime.
pub(crate) struct Upstream {
    pub(crate) at: SocketAddr,
    served: Arc<AtomicU32>,
}

impl Upstream {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let served = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&served);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let counter = Arc::clone(&counter);
                let service = service_fn(move |request: Request<Incoming>| {
                    counter.fetch_add(1, Ordering::Relaxed);
                    std::future::ready(Ok::<_, Infallible>(answer(request.uri().path())))
                });
                tokio::spawn(async move {
                    let _ = stream.set_nodelay(true);
                    let builder = Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { at, served }
    }

    /// Requests so far.
    pub(crate) fn served(&self) -> u32 {
        self.served.load(Ordering::Relaxed)
    }
}

fn answer(path: &str) -> Response<Full<Bytes>> {
    let Some(tokens) = path.strip_prefix("/tokens/") else {
        return Response::new(Full::new(Bytes::from_static(b"upstream")));
    };
    let body = format!(r#"{{"choices": [], "usage": {{"total_tokens": {tokens}}}}}"#);
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert("content-type", json);
    answer
}
