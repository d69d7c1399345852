//! The input of a connection that is not yet parsed. [`Wire`](super::wire::Wire) reads into its space, and
//! `connection.rs` consumes each command that was answered.

use super::bounds::{AUTHENTICATED, InputBounds};

/// Bytes per read from a connection that sends much.
const LARGE: usize = 64 << 10;

/// A buffer that is filled at its end and emptied at its beginning.
#[derive(Debug)]
pub(super) struct Input {
    bytes: Vec<u8>,
    pub(super) bounds: &'static InputBounds,
    start: usize,
    end: usize,
    /// True if the last read filled the space, so that more bytes are likely to follow.
    was_filled: bool,
}

impl Input {
    pub(super) fn new() -> Self {
        Self { bytes: Vec::new(), bounds: &AUTHENTICATED, start: 0, end: 0, was_filled: false }
    }

    /// The bytes that are not yet parsed.
    pub(super) fn unread(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// Notes that `bytes` bytes are parsed.
    pub(super) fn consume(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Puts bytes before those that are not yet parsed.
    pub(super) fn put_before(&mut self, bytes: &[u8]) {
        self.bytes = [bytes, self.unread()].concat();
        self.start = 0;
        self.end = self.bytes.len();
    }

    /// The space to read into; empty only if far too many bytes are there.
    pub(super) fn space(&mut self) -> &mut [u8] {
        // A client that fills the space sends much: fewer and larger reads cost less.
        let wants_more = self.was_filled && self.bytes.len() < LARGE;
        if self.end == self.bytes.len() && self.start > 0 {
            // Moved only when the end is reached, and not for each command.
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if wants_more || self.end == self.bytes.len() {
            let larger = (2 * self.bytes.len()).max(self.bounds.first_bytes);
            // A connection that has to authenticate again may exceed its new bounds.
            let larger = larger.min(self.bounds.input_bytes).max(self.bytes.len());
            self.bytes.resize(larger, 0);
        }
        self.bytes.get_mut(self.end..).unwrap_or_default()
    }

    /// Returns whether some bytes must be parsed before more can be read.
    pub(super) fn is_full(&self) -> bool {
        self.unread().len() >= self.bounds.input_bytes
    }

    /// Notes that `bytes` bytes were read into the space.
    pub(super) fn filled(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.bytes.len());
        self.was_filled = self.end == self.bytes.len();
    }

    /// Frees memory that an idle connection does not need.
    pub(super) fn shrink(&mut self) {
        if self.start == self.end && self.bytes.len() > self.bounds.first_bytes {
            *self = Self { bounds: self.bounds, ..Self::new() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::bounds::UNAUTHENTICATED;

    fn fill(input: &mut Input, bytes: &[u8]) -> usize {
        let space = input.space();
        let taken = bytes.len().min(space.len());
        space[..taken].copy_from_slice(&bytes[..taken]);
        input.filled(taken);
        taken
    }

    #[test]
    fn what_goes_in_comes_out_in_order_however_it_is_cut() {
        let sent: Vec<u8> = (0..100_000_u32).map(|number| (number % 251) as u8).collect();
        let (mut input, mut came, mut at) = (Input::new(), Vec::new(), 0);
        for step in [1, 4_095, 7, 9_000].into_iter().cycle() {
            at += fill(&mut input, &sent[at..sent.len().min(at + step)]);
            let take = input.unread().len().min(step / 2 + 1);
            came.extend_from_slice(&input.unread()[..take]);
            input.consume(take);
            if came.len() == sent.len() {
                break;
            }
        }
        assert_eq!(came, sent);
    }

    #[test]
    fn what_is_put_before_the_rest_comes_first_and_more_can_be_read() {
        let mut input = Input::new();
        fill(&mut input, b"abc");
        input.consume(1);
        input.put_before(b"12");
        assert_eq!(input.unread(), b"12bc");
        assert_eq!(fill(&mut input, b"d"), 1);
        assert_eq!(input.unread(), b"12bcd");
        input.consume(5);
        input.put_before(b"3");
        assert_eq!(input.unread(), b"3");
    }

    #[test]
    fn it_grows_to_its_bound_and_shrinks_at_rest() {
        for bounds in [&AUTHENTICATED, &UNAUTHENTICATED] {
            let (mut input, most) = (Input { bounds, ..Input::new() }, bounds.input_bytes);
            assert_eq!(input.space().len(), bounds.first_bytes);
            while fill(&mut input, &[1; 10_000]) > 0 {}
            assert_eq!((input.unread().len(), input.bytes.len()), (most, most));
            input.shrink();
            assert_eq!(input.bytes.len(), most, "it is not at rest");
            input.consume(most);
            input.shrink();
            assert_eq!((input.bytes.len(), input.space().len()), (0, bounds.first_bytes));
        }
    }

    #[test]
    fn one_that_becomes_a_stranger_loses_nothing() {
        let mut input = Input::new();
        while input.unread().len() < 100_000 {
            fill(&mut input, &[7; 10_000]);
        }
        let came = input.unread().len();
        input.bounds = &UNAUTHENTICATED;
        while fill(&mut input, &[7; 10_000]) > 0 {}
        assert!(input.unread().len() >= came && input.unread().iter().all(|byte| *byte == 7));
    }
}
