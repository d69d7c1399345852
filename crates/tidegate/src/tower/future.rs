//! The future of one request: the gate's ruling, then the service's response or a refusal.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::request::Parts;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::body::ResponseBody;
use super::decider::{Asked, Later, Ruling};
use super::fields::Fields;
use super::plan::Passage;

pin_project! {
    /// The response to a request behind the layer: that of the service, or a refusal.
    ///
    /// If it is dropped while the request waits, the request leaves the queue and takes nothing. If
    /// it is dropped while an admitted request is held for its delay, the request keeps its slot.
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        // Taken when the response is ready.
        passage: Option<Passage>,
        #[pin]
        stage: Stage<S, S::Future, S::Response, B>,
    }
}

pin_project! {
    #[project = StageProjected]
    enum Stage<S, F, R, B> {
        // Asks the gate; the rest is taken when the ruling is ready.
        Asking { asked: Asked, behind: Option<(S, Parts, B)> },
        // Calls the service.
        Answering { #[pin] answer: F },
        // Gives units back to a store before the response is passed on.
        Releasing { fields: Later<Fields>, response: Option<R> },
    }
}

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    pub(super) fn new(service: S, parts: Parts, body: B, ask: (Asked, Passage)) -> Self {
        let (asked, passage) = ask;
        let stage = Stage::Asking { asked, behind: Some((service, parts, body)) };
        Self { passage: Some(passage), stage }
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
        if let StageProjected::Asking { asked, behind } = this.stage.as_mut().project() {
            if behind.is_none() {
                return Poll::Pending;
            }
            let ruling = ready!(Pin::new(asked).poll(cx));
            let Some((mut service, parts, body)) = behind.take() else { return Poll::Pending };
            match ruling {
                Ruling::Refused(refusal) => {
                    let Some(passage) = this.passage.take() else { return Poll::Pending };
                    return Poll::Ready(Ok(passage.refused(*refusal, &parts)));
                }
                Ruling::Admitted(admission) => {
                    if let Some(passage) = this.passage {
                        passage.admitted(admission);
                    }
                    let answer = service.call(Request::from_parts(parts, body));
                    this.stage.set(Stage::Answering { answer });
                }
            }
        }
        let Some(passage) = this.passage else { return Poll::Pending };
        let mut response = None;
        if let StageProjected::Answering { answer } = this.stage.as_mut().project() {
            match passage.answered(ready!(answer.poll(cx))) {
                Err(error) => {
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
        let both = this.passage.take().zip(response);
        both.map_or(Poll::Pending, |(passage, response)| {
            Poll::Ready(Ok(passage.passed_on(response)))
        })
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
