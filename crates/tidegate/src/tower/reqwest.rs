//! The layer as a middleware of a reqwest client.
//!
//! The layer reads a head that is made for it, and the request itself is sent as it is.

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Extensions, Request, Response};
use reqwest::{Body, ResponseBuilderExt, Url};
use reqwest_middleware::{Error, Middleware, Next, Result};
use tower_service::Service;

use super::layer::RateLimitLayer;
use super::service::{Behind, ResponseFuture};

/// Paces a client of [reqwest](https://docs.rs/reqwest) by a layer that
/// [`RateLimitLayer::outgoing`] made (feature `reqwest`).
///
/// A refusal is a response with status 429, and with the [`Refusal`](super::Refusal) among its
/// extensions. Redirects are followed below the middleware: together they are one request, of the
/// first host. If it is written before a middleware that repeats requests, all repetitions are one request; if it is
/// written after, each repetition is paced.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::tower::{Pacing, RateLimitLayer};
/// use tidegate::{Gate, Policy, RuleSpec};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pace = RuleSpec::new("pace", "50/s").key(["host"]);
/// let gate = Arc::new(Gate::new(Policy::new(vec![pace])?));
/// let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new())
///     .with(RateLimitLayer::outgoing(gate, Pacing::new()))
///     .build();
/// // client.get("http://example.com/").send().await?
/// # let _ = client;
/// # Ok(())
/// # }
/// ```
#[cfg_attr(docsrs, doc(cfg(feature = "reqwest")))]
#[async_trait::async_trait]
impl Middleware for RateLimitLayer {
    async fn handle(
        &self,
        request: reqwest::Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<reqwest::Response> {
        let url = request.url().clone();
        // The layer reads a copy of the head. The request itself is sent, with everything that a head does not hold.
        let mut head = Request::new(());
        *head.method_mut() = request.method().clone();
        *head.uri_mut() = url.as_str().parse().map_err(Error::middleware)?;
        *head.headers_mut() = request.headers().clone();
        let (parts, ()) = head.into_parts();

        // Taken by the single call that the future makes, because `next` can only be moved.
        let service = Sending(Some((next, extensions)));
        let plan = Arc::clone(self.plan());
        let behind = Behind { service, parts, body: request, plan };
        let mut response = ResponseFuture::new(behind).await?.map(Body::wrap);
        response.extensions_mut().extend(extension_of(url)?);
        Ok(response.into())
    }
}

/// The extension that holds the URL of a response made of parts.
fn extension_of(url: Url) -> Result<Extensions> {
    let response = Response::builder().url(url).body(()).map_err(Error::middleware)?;
    Ok(response.into_parts().0.extensions)
}

/// The rest of a client's middleware, for one request.
struct Sending<'a>(Option<(Next<'a>, &'a mut Extensions)>);

impl<'a> Service<Request<reqwest::Request>> for Sending<'a> {
    type Response = Response<Body>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>>> + Send + 'a>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<reqwest::Request>) -> Self::Future {
        let Some((next, extensions)) = self.0.take() else {
            let sent = std::io::Error::other("the layer sends a request once");
            return Box::pin(ready(Err(Error::middleware(sent))));
        };
        Box::pin(async move { next.run(request.into_body(), extensions).await.map(Response::from) })
    }
}
