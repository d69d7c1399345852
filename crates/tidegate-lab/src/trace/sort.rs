//! Puts any number of events in order of time within a budget of memory.
//!
//! Events gather in a buffer. When it is full it is sorted and written out as a run of level 0.
//! When the newest 64 runs are of one level they are merged into one of the next level, so that few
//! are open at a time: at most 63 of each level between merges, and the levels grow with the
//! logarithm of the input. At the end the remaining runs are merged, the newest 64 at a time, until
//! one merge can read the rest.
//!
//! Runs stay in order of the input: only neighbours are merged, and among equal times a merge takes
//! the earlier run first. So the whole sort is stable.

use std::io;
use std::path::PathBuf;

use super::buffer::Buffer;
use super::event::LineEvent;
use super::merge::Merge;
use super::run::{Run, RunWriter};

/// The number of runs that one merge reads.
pub(super) const FAN_IN: usize = 64;

/// Accepts events in any order.
pub(super) struct Sorter {
    budget_bytes: usize,
    fan_in: usize,
    dir: PathBuf,
    buffer: Buffer,
    runs: Vec<Run>,
}

/// All events in order of time.
#[derive(Debug)]
pub(super) enum InOrder {
    /// The events fitted in memory; the number is how many were returned.
    Memory(Buffer, usize),
    /// The events are in files.
    Files(Merge),
}

impl Sorter {
    /// `fan_in` is at least 2; runs go to `dir`.
    pub(super) fn new(budget_bytes: usize, fan_in: usize, dir: PathBuf) -> Self {
        let fan_in = fan_in.max(2);
        Self { budget_bytes, fan_in, dir, buffer: Buffer::default(), runs: Vec::new() }
    }

    pub(super) fn push(&mut self, event: &LineEvent<'_>) -> io::Result<()> {
        self.buffer.push(event);
        if self.buffer.bytes() > self.budget_bytes { self.spill() } else { Ok(()) }
    }

    pub(super) fn finish(mut self) -> io::Result<InOrder> {
        if self.runs.is_empty() {
            self.buffer.sort();
            return Ok(InOrder::Memory(self.buffer, 0));
        }
        if !self.buffer.is_empty() {
            self.spill()?;
        }
        self.buffer = Buffer::default(); // the memory is better used by the merge
        while self.runs.len() > self.fan_in {
            self.merge_newest()?;
        }
        Merge::new(self.runs).map(InOrder::Files)
    }

    /// Writes the buffer as a run, and merges while a level is full.
    fn spill(&mut self) -> io::Result<()> {
        self.buffer.sort();
        let mut run = RunWriter::new(&self.dir)?;
        for (at_us, record) in self.buffer.iter() {
            run.write(at_us, record)?;
        }
        self.runs.push(run.finish(0)?);
        self.buffer.clear();
        while self.newest_level_is_full() {
            self.merge_newest()?;
        }
        Ok(())
    }

    fn newest_level_is_full(&self) -> bool {
        let Some(start) = self.runs.len().checked_sub(self.fan_in) else {
            return false;
        };
        let newest = &self.runs[start..];
        newest.iter().all(|run| run.level == newest[0].level)
    }

    /// Replaces the newest runs, as many as one merge reads, by one.
    fn merge_newest(&mut self) -> io::Result<()> {
        let newest = self.runs.split_off(self.runs.len().saturating_sub(self.fan_in));
        let level = newest.first().map_or(0, |run| run.level + 1);
        let mut merge = Merge::new(newest)?;
        let mut merged = RunWriter::new(&self.dir)?;
        while let Some((at_us, record)) = merge.next()? {
            merged.write(at_us, record)?;
        }
        self.runs.push(merged.finish(level)?);
        Ok(())
    }
}

impl InOrder {
    /// The next record and its time.
    pub(super) fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        match self {
            Self::Memory(buffer, given) => {
                *given += 1;
                Ok(buffer.get(*given - 1))
            }
            Self::Files(merge) => merge.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use crate::trace::record;

    /// Sorts the times with their positions in the input, and returns both.
    fn sorted(times: &[u64], budget_bytes: usize, fan_in: usize) -> (Vec<(u64, usize)>, usize) {
        let mut sorter = Sorter::new(budget_bytes, fan_in, std::env::temp_dir());
        let mut open_max = 0;
        for (index, at_us) in times.iter().enumerate() {
            let descriptor = vec![("place".into(), index.to_string().into())];
            let event = LineEvent {
                at_us: *at_us,
                domain: "d".into(),
                descriptor,
                cost: 1,
                request_id: None,
            };
            sorter.push(&event).unwrap();
            open_max = open_max.max(sorter.runs.len());
        }
        let mut in_order = sorter.finish().unwrap();
        let mut found = Vec::new();
        while let Some((at_us, bytes)) = in_order.next().unwrap() {
            let event = record::decode(at_us, bytes).unwrap();
            found.push((at_us, event.descriptor[0].1.parse().unwrap()));
        }
        (found, open_max)
    }

    fn stable(times: &[u64]) -> Vec<(u64, usize)> {
        let mut all: Vec<(u64, usize)> = times.iter().copied().zip(0..).collect();
        all.sort_by_key(|(at_us, _)| *at_us);
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn equals_a_stable_sort_through_any_number_of_merges(
            times in proptest::collection::vec(0_u64..50, 0..300),
            budget_bytes in 0_usize..400,
            fan_in in 2_usize..6,
        ) {
            prop_assert_eq!(sorted(&times, budget_bytes, fan_in).0, stable(&times));
        }
    }

    #[test]
    fn open_runs_are_bounded() {
        let times: Vec<u64> = (0..1_000).map(|i| i * 7 % 100).collect();
        let (found, open_max) = sorted(&times, 0, 4);
        assert_eq!(found, stable(&times));
        // 1,000 runs are five digits to the base of four, each at most 3.
        assert!((4..=15).contains(&open_max), "{open_max} runs");
    }

    #[test]
    fn within_the_budget_no_file_is_written() {
        let nowhere = PathBuf::from("/nowhere/at/all");
        let mut sorter = Sorter::new(1 << 20, FAN_IN, nowhere.clone());
        let event = || LineEvent {
            at_us: 1,
            domain: "d".into(),
            descriptor: Vec::new(),
            cost: 1,
            request_id: None,
        };
        sorter.push(&event()).unwrap();
        assert!(matches!(sorter.finish().unwrap(), InOrder::Memory(..)));
        assert!(Sorter::new(0, FAN_IN, nowhere).push(&event()).is_err());
    }
}
