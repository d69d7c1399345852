//! Where a request comes from, for stores that do not decide every request in time.

use super::Request;

impl<'a> Request<'a> {
    /// Names the source that the request comes from by a number of the caller's own: a connection, say. Where
    /// more requests wait for a shared store than it decides in time, sources take turns, so that one which
    /// asks little is decided beside one which asks much. 0, the default, stands for no source in particular.
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

    /// Its id and its source.
    #[cfg(feature = "redis")]
    pub(crate) const fn origin(&self) -> Origin<'a> {
        Origin { id: self.id, source: self.source }
    }
}

/// The id of a request and the source it comes from.
#[cfg(feature = "redis")]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Origin<'a> {
    pub(crate) id: Option<&'a str>,
    pub(crate) source: u64,
}
