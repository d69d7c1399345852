//! Replies of a connection that are not written yet, bounded for each connection and in all. `connection.rs` appends
//! them, [`Wire`](super::wire::Wire) writes them, and above [`Output::most`] no more commands are answered.

use super::bounds::{AUTHENTICATED, InputBounds};
use crate::listener::{FREE, KeptBytes};

/// The replies; the first `written` bytes have left.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) bytes: Vec<u8>,
    written: usize,
    pub(super) bounds: &'static InputBounds,
    /// The claim of these bytes on the budget.
    kept: KeptBytes,
}

impl Output {
    /// No replies yet; later ones are counted in `kept`.
    pub(super) const fn new(kept: KeptBytes) -> Self {
        Self { bytes: Vec::new(), written: 0, bounds: &AUTHENTICATED, kept }
    }

    pub(super) fn unwritten(&self) -> &[u8] {
        self.bytes.get(self.written..).unwrap_or_default()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.written == self.bytes.len()
    }

    /// Bytes that may wait before commands are no longer answered.
    pub(super) fn most(&self) -> usize {
        // A client that has not authenticated has a bound of its own, however empty the budget is.
        self.kept.most().min(self.bounds.unread_bytes)
    }

    /// Returns whether `most` bytes wait.
    pub(super) const fn has(&self, most: usize) -> bool {
        self.bytes.len() - self.written >= most
    }

    /// Notes that `bytes` bytes were written.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.written += bytes;
        if self.is_empty() {
            self.written = 0;
            self.bytes.clear();
            // Frees the memory of a deep pipeline before its connection ends.
            if self.bytes.capacity() > 2 * FREE {
                self.bytes = Vec::new();
            }
        } else if self.written >= self.unwritten().len() {
            self.close_up();
        }
        self.count();
    }

    /// Drops written bytes. It moves at most as many bytes as were written since the last time, so that a reader that
    /// lags slightly is cheap.
    #[cold]
    fn close_up(&mut self) {
        self.bytes.drain(..self.written);
        self.written = 0;
        let needed = self.bytes.len().max(FREE);
        if self.bytes.capacity() > 4 * needed {
            self.bytes.shrink_to(2 * needed);
        }
    }

    /// Updates the claim in the budget.
    pub(super) fn count(&mut self) {
        self.kept.set(self.bytes.len() - self.written);
    }

    /// Frees memory that an idle connection does not need.
    pub(super) fn shrink(&mut self) {
        if self.is_empty() {
            self.bytes = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::ByteBudget;
    use std::sync::Arc;

    fn output(budget: &Arc<ByteBudget>) -> Output {
        Output::new(budget.open().none())
    }

    #[test]
    fn connections_share_what_may_be_left_unread() {
        let budget = Arc::new(ByteBudget::of(4 * FREE, FREE));
        let (mut one, other) = (output(&budget), output(&budget));
        one.bytes.resize(2 * FREE, 0);
        one.count();
        assert_eq!((one.most(), other.most()), (4 * FREE, FREE));
        one.wrote(FREE);
        assert_eq!(other.most(), 4 * FREE);
        one.bytes.resize(9 * FREE, 0);
        one.count();
        assert_eq!(other.most(), FREE);
        drop(one);
        assert_eq!((other.most(), budget.taken()), (4 * FREE, 0));
    }

    #[test]
    fn one_that_never_quite_catches_up_makes_nobody_keep_what_it_has_read() {
        let mut output = output(&Arc::default());
        let (mut sent, mut read) = (0_u32, Vec::new());
        let mut add = |output: &mut Output, numbers: u32| {
            output.bytes.extend((sent..sent + numbers).flat_map(u32::to_le_bytes));
            sent += numbers;
        };
        add(&mut output, 4 * FREE as u32);
        for _ in 0..2_000 {
            let written = 1_001.min(output.unwritten().len() - 1);
            read.extend_from_slice(&output.unwritten()[..written]);
            output.wrote(written);
            add(&mut output, 250);
            assert!(output.bytes.capacity() <= 40 * FREE && !output.is_empty());
        }
        while output.unwritten().len() > 1 {
            let written = 1_000.min(output.unwritten().len() - 1);
            read.extend_from_slice(&output.unwritten()[..written]);
            output.wrote(written);
        }
        assert!(output.bytes.capacity() <= 4 * FREE, "{}", output.bytes.capacity());
        let numbers =
            read.chunks_exact(4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap()));
        assert!(numbers.eq(0..sent - 1));
    }
}
