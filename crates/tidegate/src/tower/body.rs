//! The body of a response: the service's own, or the text of a refusal; and the guards that a request holds until it is
//! over: its entry in the statistics, its permit, and the permits of a gate.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::clock::Clock;
use crate::stats::{Entry, Statistics};
use crate::wait::Permit;
use http::{HeaderMap, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of a response that came through the layer.
    ///
    /// The request's permit and its entry in the statistics end when the body has ended or is
    /// dropped.
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        kind: Kind<B>,
        held: RequestGuards,
    }
}

pin_project! {
    #[project = KindProjected]
    #[derive(Debug)]
    enum Kind<B> {
        Inner { #[pin] body: B },
        Text { text: Vec<u8> },
    }
}

impl<B> ResponseBody<B> {
    /// The service's own body, with the guards that end with it.
    pub(super) const fn inner(body: B, held: RequestGuards) -> Self {
        Self { kind: Kind::Inner { body }, held }
    }

    pub(super) fn text(text: Vec<u8>) -> Self {
        Self { kind: Kind::Text { text }, held: RequestGuards::default() }
    }
}

impl<B> Body for ResponseBody<B>
where
    B: Body,
    B::Data: From<Vec<u8>>,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.project();
        match this.kind.project() {
            KindProjected::Inner { body } => {
                let frame = ready!(body.poll_frame(cx));
                this.held.saw(frame.as_ref());
                Poll::Ready(frame)
            }
            // The text is a single frame; after it the body is empty.
            KindProjected::Text { text } if text.is_empty() => Poll::Ready(None),
            KindProjected::Text { text } => {
                Poll::Ready(Some(Ok(Frame::data(std::mem::take(text).into()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Inner { body } => body.is_end_stream(),
            Kind::Text { text } => text.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Inner { body } => body.size_hint(),
            Kind::Text { text } => SizeHint::with_exact(text.len() as u64),
        }
    }
}

/// Statistics of any clock.
pub(super) trait Recorder: Send + Sync {
    /// Counts a request that begins.
    fn begin(self: Arc<Self>) -> Box<dyn Ending>;
    fn block(&self);
}

/// A request that has begun, and ends when this is dropped.
pub(super) trait Ending: Send + Sync {
    /// Counts the request as an exception.
    fn fail(&mut self);
}

impl<C: Clock + 'static> Recorder for Statistics<C> {
    fn begin(self: Arc<Self>) -> Box<dyn Ending> {
        Box::new(self.entry_owned())
    }

    fn block(&self) {
        Self::block(self, 1);
    }
}

impl<C: Clock> Ending for Entry<Arc<Statistics<C>>, C> {
    fn fail(&mut self) {
        Self::fail(self);
    }
}

/// The guards of a request, which end when this is dropped, at whatever stage the request is. Most requests have none.
#[derive(Debug, Default)]
pub(super) struct RequestGuards(Option<Box<Guards>>);

/// The guards of a request that has some.
#[derive(Default)]
struct Guards {
    entry: Option<Box<dyn Ending>>,
    permit: Option<Permit>,
    permits: Option<HeldPermits>,
}

/// Permits of a gate, which are returned when this is dropped.
pub(super) type HeldPermits = Box<dyn Send + Sync>;

impl RequestGuards {
    /// Holds the permits of a gate, if there are any.
    pub(super) fn of(permits: Option<HeldPermits>) -> Self {
        Self(
            permits.map(|permits| Box::new(Guards { permits: Some(permits), ..Guards::default() })),
        )
    }

    /// Holds a permit to be in flight as well.
    pub(super) fn keep(&mut self, permit: Permit) {
        self.0.get_or_insert_default().permit = Some(permit);
    }

    /// Counts the beginning of the request.
    pub(super) fn begin(&mut self, recorder: &Arc<dyn Recorder>) {
        self.0.get_or_insert_default().entry = Some(Arc::clone(recorder).begin());
    }

    /// Notes that the service returned an error instead of a response, or broke off.
    pub(super) fn fail(&mut self) {
        if let Some(entry) = self.0.as_mut().and_then(|guards| guards.entry.as_mut()) {
            entry.fail();
        }
    }

    /// Notes that a response has begun.
    pub(super) fn answered<B>(&mut self, response: &Response<B>) {
        if self.0.is_some()
            && (response.status().is_server_error() || is_grpc_fault(response.headers()))
        {
            self.fail();
        }
    }

    /// Notes a frame of the body, an error, or its end.
    pub(super) fn saw<D, E>(&mut self, frame: Option<&Result<Frame<D>, E>>) {
        if self.0.is_none() {
            return;
        }
        match frame {
            Some(Ok(frame)) if frame.trailers_ref().is_none_or(|t| !is_grpc_fault(t)) => {}
            // An error of the body, or trailers with the status of a fault.
            Some(_) => self.fail(),
            // The body has ended: the request is counted and its permits come back now, however long the body is kept.
            None => *self = Self::default(),
        }
    }
}

/// Returns whether a gRPC status corresponds to an HTTP status of 500 and above.
fn is_grpc_fault(fields: &HeaderMap) -> bool {
    /// Unknown, deadline exceeded, unimplemented, internal, unavailable, data loss.
    const FAULTS: [&[u8]; 6] = [b"2", b"4", b"12", b"13", b"14", b"15"];
    fields.get("grpc-status").is_some_and(|status| FAULTS.contains(&status.as_bytes()))
}

impl fmt::Debug for Guards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Guards");
        debug.field("entry", &self.entry.is_some()).field("permit", &self.permit);
        debug.field("permits", &self.permits.is_some()).finish()
    }
}
