//! The service of a layer: the inner service, guarded by a gate.

use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use super::body::ResponseBody;
use super::future::{Behind, ResponseFuture};
use super::layer_state::LayerState;

/// A service guarded by a [`Gate`](crate::Gate); made by [`RateLimitLayer`](super::RateLimitLayer).
///
/// Clones share the gate.
#[derive(Clone, Debug)]
pub struct RateLimit<S> {
    inner: S,
    plan: Arc<LayerState>,
}

impl<S> RateLimit<S> {
    pub(super) const fn new(inner: S, plan: Arc<LayerState>) -> Self {
        Self { inner, plan }
    }

    /// The inner service.
    #[must_use]
    pub const fn inner(&self) -> &S {
        &self.inner
    }
}

impl<S, B, R> Service<Request<B>> for RateLimit<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
{
    type Response = Response<ResponseBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    /// Calls the inner service that was polled ready, and keeps its clone. Nothing happens before the first poll of
    /// the future, so a request that is dropped before costs nothing.
    fn call(&mut self, request: Request<B>) -> Self::Future {
        let spare = self.inner.clone();
        let service = std::mem::replace(&mut self.inner, spare);
        let (parts, body) = request.into_parts();
        ResponseFuture::new(Behind { service, parts, body, plan: Arc::clone(&self.plan) })
    }
}
