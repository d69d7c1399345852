//! Several sorted parts of a trace read as one.
//!
//! The sorter merges runs with it, and the last merge returns the whole trace.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::io;

use super::buffer::Buffer;
use super::run::RunReader;

/// Records in order of time, one after another.
#[derive(Debug)]
pub(super) enum SortedPart {
    Run(RunReader),
    /// The number is how many records were returned.
    Memory(Buffer, usize),
}

impl SortedPart {
    /// Moves to the next record and returns its time; `None` at the end, where memory is freed.
    fn advance(&mut self) -> io::Result<Option<u64>> {
        match self {
            Self::Run(run) => run.advance(),
            Self::Memory(buffer, returned) => {
                let time = buffer.get(*returned).map(|(at_us, _)| at_us);
                *returned += 1;
                if time.is_none() {
                    *buffer = Buffer::default();
                }
                Ok(time)
            }
        }
    }

    /// The record [`Self::advance`] moved to.
    fn record(&self) -> &[u8] {
        match self {
            Self::Run(run) => run.record(),
            Self::Memory(buffer, returned) => {
                // Before the first record the place wraps to one that no buffer has.
                buffer.get(returned.wrapping_sub(1)).map_or(&[], |(_, record)| record)
            }
        }
    }
}

/// Merges parts in order of the input; equal times stay in that order.
#[derive(Debug)]
pub(super) struct Merge {
    parts: Vec<SortedPart>,
    /// The time of each part's next record, and the part's number: the earlier part goes first
    /// among equals.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    /// True if the record of the top head has been returned.
    returned: bool,
}

impl Merge {
    pub(super) fn new(mut parts: Vec<SortedPart>) -> io::Result<Self> {
        let mut heads = BinaryHeap::with_capacity(parts.len());
        for (number, part) in parts.iter_mut().enumerate() {
            heads.extend(part.advance()?.map(|at_us| Reverse((at_us, number))));
        }
        Ok(Self { parts, heads, returned: false })
    }

    /// The next record and its time; `None` when all parts are at their end.
    pub(super) fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        // The record that was returned is borrowed from its part, which goes on only now.
        if self.returned {
            self.advance_top()?;
        }
        self.returned = true;
        let Some(&Reverse((at_us, number))) = self.heads.peek() else {
            return Ok(None);
        };
        Ok(Some((at_us, self.parts[number].record())))
    }

    fn advance_top(&mut self) -> io::Result<()> {
        let Some(mut top) = self.heads.peek_mut() else {
            return Ok(());
        };
        let Reverse((_, number)) = *top;
        match self.parts[number].advance()? {
            // The heap is put in order once, when `top` is dropped; a pop and a push would do so twice.
            Some(at_us) => *top = Reverse((at_us, number)),
            None => drop(PeekMut::pop(top)),
        }
        Ok(())
    }
}
