//! No spans, in a program without the feature `otlp`: the same names as in `spans.rs`, so that callers need no
//! feature.

use hyper::HeaderMap;
use tidegate::Answer;

use super::CollectorAddress;
use crate::failure::Failure;

/// A span that there never is.
#[derive(Debug)]
pub(crate) enum Span {}

/// An exporter that there never is.
#[derive(Debug)]
pub(crate) enum Exporter {}

/// Returns whether spans are sent.
pub(crate) const fn is_on() -> bool {
    false
}

impl Span {
    pub(crate) const fn begin(_: &'static str, _: &HeaderMap) -> Option<Self> {
        None
    }

    pub(crate) fn end(&mut self, _: &str, _: &Answer<'_>) {}
}

impl Exporter {
    /// # Errors
    /// Returns an error if an endpoint is given, because this program cannot send spans.
    pub(crate) fn begin(endpoint: Option<&CollectorAddress>) -> Result<Option<Self>, Failure> {
        match endpoint {
            None => Ok(None),
            Some(CollectorAddress(url)) => Err(Failure::usage(format!(
                "spans cannot be sent to {url} (--otlp): this program is built without the feature `otlp`; \
                 expected one of `cargo install --features otlp`, or no collector"
            ))),
        }
    }

    pub(crate) fn end(self) {}
}
