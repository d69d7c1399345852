//! The pieces of a body, put together.

use hyper::body::Bytes;

/// The pieces of a body; most come in one, which is not copied.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    first: Bytes,
    /// All, the first included, once there are several.
    all: Vec<u8>,
}

impl Pieces {
    /// Bytes that have come.
    pub(crate) fn len(&self) -> usize {
        self.first.len().max(self.all.len())
    }

    pub(crate) fn add(&mut self, next: Bytes) {
        if self.first.is_empty() {
            self.first = next;
            return;
        }
        if self.all.is_empty() {
            self.all.extend_from_slice(&self.first);
        }
        self.all.extend_from_slice(&next);
    }

    pub(crate) fn whole(self) -> Bytes {
        if self.all.is_empty() { self.first } else { self.all.into() }
    }
}
