//! The source of a request, for stores that do not decide every request in time.

use super::Request;
#[cfg(feature = "redis")]
use super::id::RequestIdentity;

impl<'a> Request<'a> {
    /// Identifies the source of the request by a number of the caller's choice, such as the number of a connection. If
    /// more requests wait for a shared store than it decides in time, sources take turns, so that a quiet source is
    /// decided next to a busy one. 0, the default, is no source in particular.
    ///
    /// ```
    /// use tidegate::{Descriptor, Request};
    ///
    /// let entries = [("user", "ada")];
    /// let descriptors = [Descriptor::new(&entries)];
    /// let request = Request::new("default", &descriptors).from_source(17);
    /// # let _ = request;
    /// ```
    #[must_use]
    pub const fn from_source(mut self, source: u64) -> Self {
        self.source = source;
        self
    }

    /// The identity and the source.
    #[cfg(feature = "redis")]
    pub(crate) const fn origin(&self) -> Origin<'a> {
        Origin { id: self.identity(), source: self.source }
    }
}

/// The identity of a request with an id, and its source.
#[cfg(feature = "redis")]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Origin<'a> {
    pub(crate) id: Option<RequestIdentity<'a>>,
    pub(crate) source: u64,
}
