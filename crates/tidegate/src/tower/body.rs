//! The body of a response: the service's own, or the text of a refusal.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::request_guards::RequestGuards;

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
