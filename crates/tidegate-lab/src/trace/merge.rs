//! Several sorted runs read as one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::io;

use super::run::{Run, RunReader};

/// Merges runs in order of the input; equal times stay in that order.
#[derive(Debug)]
pub(super) struct Merge {
    runs: Vec<RunReader>,
    /// The time of each run's next record, and the run's number: the earlier run goes first among
    /// equals.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    /// Whether the record of the top head has been returned.
    given: bool,
}

impl Merge {
    pub(super) fn new(runs: Vec<Run>) -> io::Result<Self> {
        let mut runs: Vec<RunReader> = runs.into_iter().map(Run::into_reader).collect();
        let mut heads = BinaryHeap::with_capacity(runs.len());
        for (number, run) in runs.iter_mut().enumerate() {
            heads.extend(run.advance()?.map(|at_us| Reverse((at_us, number))));
        }
        Ok(Self { runs, heads, given: false })
    }

    /// The next record and its time; `None` when all runs are at their end.
    pub(super) fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        if self.given {
            self.advance_top()?;
        }
        self.given = true;
        let Some(&Reverse((at_us, number))) = self.heads.peek() else {
            return Ok(None);
        };
        Ok(Some((at_us, self.runs[number].record())))
    }

    fn advance_top(&mut self) -> io::Result<()> {
        let Some(mut top) = self.heads.peek_mut() else {
            return Ok(());
        };
        let Reverse((_, number)) = *top;
        match self.runs[number].advance()? {
            Some(at_us) => *top = Reverse((at_us, number)),
            None => drop(PeekMut::pop(top)),
        }
        Ok(())
    }
}
