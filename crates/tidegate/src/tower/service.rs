//! The service of a layer, guarded by a gate, and the future of one request: the gate's ruling, then the service's
//! response or a refusal.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::request::Parts;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::body::ResponseBody;
use super::decider::{Later, Ruling};
use super::fields::LimitFields;
use super::layer_state::{After, LayerState, Passage};

pin_project! {
    /// The response of a layer: the response of the service, or a refusal.
    ///
    /// If it is dropped while the request waits, the request leaves the queue and takes nothing. If
    /// it is dropped while an admitted request is held for its delay, the request keeps its slot.
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        stage: Stage<S, S::Future, S::Response, B>,
        // Of an admitted request; taken when the response is ready.
        passage: Option<Passage>,
    }
}

pin_project! {
    #[project = StageProjected]
    enum Stage<S, F, R, B> {
        // Asks the gate when it is polled first; `behind` is taken when the ruling is ready.
        Asking {
            behind: Option<Behind<S, B>>,
            ruling: Option<Later<Ruling>>,
            after: Option<Box<After>>,
        },
        // Calls the service.
        Answering { #[pin] answer: F },
        // Gives units back to a store before the response is passed on.
        Releasing { fields: Later<LimitFields>, response: Option<R> },
    }
}

/// A request, and the service inside the layer.
pub(super) struct Behind<S, B> {
    pub(super) service: S,
    pub(super) parts: Parts,
    pub(super) body: B,
    pub(super) plan: Arc<LayerState>,
}

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    pub(super) const fn new(behind: Behind<S, B>) -> Self {
        let stage = Stage::Asking { behind: Some(behind), ruling: None, after: None };
        Self { stage, passage: None }
    }
}

/// The future stays pending after it has returned the response.
impl<S, B, R> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Output = Result<Response<ResponseBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let StageProjected::Asking { behind, ruling, after } = this.stage.as_mut().project() {
            // Nothing is asked twice: `behind` is gone once there was a ruling.
            let Some(asking) = behind else { return Poll::Pending };
            let ruled = match ruling {
                Some(later) => later.as_mut().poll(cx),
                None => asking.plan.ask(&asking.parts, after).poll_or_keep(ruling, cx),
            };
            let ruled = ready!(ruled);
            let after = after.take();
            let Some(Behind { mut service, parts, body, plan }) = behind.take() else {
                return Poll::Pending;
            };
            match ruled {
                Ruling::Refused(refusal) => {
                    return Poll::Ready(Ok(plan.refuse(*refusal, &parts).map(ResponseBody::text)));
                }
                Ruling::Admitted(admission) => {
                    // Before the call, so that the recorder's time includes it.
                    *this.passage = Some(Passage::admitted(&plan, after, admission));
                    let answer = service.call(Request::from_parts(parts, body));
                    this.stage.set(Stage::Answering { answer });
                }
            }
        }
        // The stages below follow one another in one poll where nothing has to be waited for.
        let Some(passage) = this.passage else { return Poll::Pending };
        let mut response = None;
        if let StageProjected::Answering { answer } = this.stage.as_mut().project() {
            match passage.answered(ready!(answer.poll(cx))) {
                Err(error) => {
                    // An error has no body that could hold the permits any longer.
                    *this.passage = None;
                    return Poll::Ready(Err(error));
                }
                Ok((answered, None)) => response = Some(answered),
                Ok((answered, Some(fields))) => {
                    this.stage.set(Stage::Releasing { fields, response: Some(answered) });
                }
            }
        }
        if let StageProjected::Releasing { fields, response: kept } = this.stage.project() {
            passage.released(ready!(fields.as_mut().poll(cx)));
            response = kept.take();
        }
        let Some(response) = response else { return Poll::Pending };
        let Some(passage) = this.passage.take() else { return Poll::Pending };
        Poll::Ready(Ok(passage.passed_on(response)))
    }
}

impl<S, B> fmt::Debug for ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseFuture")
    }
}

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
