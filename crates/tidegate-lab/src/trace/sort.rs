//! Puts any number of events in order of time within a budget of memory.
//!
//! Pieces of the input come sorted. When they fill the budget they are merged into a run of level
//! 0, a file. When the newest 64 runs are of one level they are merged into one of the next level,
//! so that few are open at a time: at most 63 of each level between merges, and the levels grow
//! with the logarithm of the input. At the end the newest runs are merged, 64 at a time, until one
//! merge can read the rest, with the pieces that are still in memory.
//!
//! Runs and pieces stay in order of the input: only neighbours are merged, and among equal times a
//! merge takes the earlier part first. So the whole sort is stable.

use std::io;
use std::mem;
use std::path::PathBuf;

use super::buffer::Buffer;
use super::merge::{Merge, SortedPart};
use super::run::{Run, RunWriter};

/// The number of runs that a merge reads.
pub(super) const FAN_IN: usize = 64;

/// Accepts sorted pieces in order of the input.
pub(super) struct Sorter {
    budget_bytes: usize,
    fan_in: usize,
    dir: PathBuf,
    pieces: Vec<Buffer>,
    pieces_bytes: usize,
    runs: Vec<Run>,
}

impl Sorter {
    /// `fan_in` is at least 2; runs go to `dir`.
    pub(super) fn new(budget_bytes: usize, fan_in: usize, dir: PathBuf) -> Self {
        Self {
            budget_bytes,
            fan_in: fan_in.max(2),
            dir,
            pieces: Vec::new(),
            pieces_bytes: 0,
            runs: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, sorted: Buffer) -> io::Result<()> {
        self.pieces_bytes += sorted.bytes();
        self.pieces.push(sorted);
        if self.pieces_bytes > self.budget_bytes { self.spill() } else { Ok(()) }
    }

    /// All events in order of time.
    pub(super) fn finish(mut self) -> io::Result<Merge> {
        while self.runs.len() > self.fan_in {
            self.merge_newest()?;
        }
        let runs = self.runs.into_iter().map(|run| SortedPart::Run(run.into_reader()));
        let pieces = self.pieces.into_iter().map(|piece| SortedPart::Memory(piece, 0));
        // Pieces last, because they are later in the input than all runs.
        Merge::new(runs.chain(pieces).collect())
    }

    /// Writes the events in memory as a run, and merges while a level is full.
    fn spill(&mut self) -> io::Result<()> {
        let pieces = mem::take(&mut self.pieces).into_iter();
        self.write_run(pieces.map(|piece| SortedPart::Memory(piece, 0)).collect(), 0)?;
        self.pieces_bytes = 0;
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
        // Older runs have been merged as often or more often, so the first has the highest level.
        let level = newest.first().map_or(0, |run| run.level + 1);
        self.write_run(
            newest.into_iter().map(|run| SortedPart::Run(run.into_reader())).collect(),
            level,
        )
    }

    fn write_run(&mut self, parts: Vec<SortedPart>, level: u32) -> io::Result<()> {
        let mut merge = Merge::new(parts)?;
        let mut run = RunWriter::new(&self.dir)?;
        while let Some((at_us, record)) = merge.next()? {
            run.write(at_us, record)?;
        }
        self.runs.push(run.finish(level)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use crate::trace::event::{LineEntries, LineEvent};
    use crate::trace::record::RecordNames;

    /// A piece of events at these times, each with its place in the input.
    fn piece(times: &[u64], first: usize) -> Buffer {
        let mut piece = Buffer::default();
        for (place, at_us) in (first..).zip(times) {
            let entry = ("place".into(), place.to_string().into());
            let descriptor = LineEntries::Listed(vec![entry]);
            let event = LineEvent::of_one(*at_us, "d".into(), descriptor, 1);
            piece.push(&event, &RecordNames::default());
        }
        piece.take_sorted()
    }

    /// Sorts the times, in pieces, with their places in the input, and returns both.
    fn sorted(
        times: &[u64],
        piece_events: usize,
        budget_bytes: usize,
        fan_in: usize,
    ) -> (Vec<(u64, usize)>, usize) {
        let mut sorter = Sorter::new(budget_bytes, fan_in, std::env::temp_dir());
        let mut open_max = 0;
        for (number, events) in times.chunks(piece_events).enumerate() {
            sorter.push(piece(events, number * piece_events)).unwrap();
            open_max = open_max.max(sorter.runs.len());
        }
        let mut in_order = sorter.finish().unwrap();
        let (names, mut found) = (RecordNames::default(), Vec::new());
        while let Some((at_us, bytes)) = in_order.next().unwrap() {
            let event = names.decode(at_us, std::str::from_utf8(bytes).unwrap()).unwrap();
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
            piece_events in 1_usize..20,
            budget_bytes in 0_usize..400,
            fan_in in 2_usize..6,
        ) {
            let (found, _) = sorted(&times, piece_events, budget_bytes, fan_in);
            prop_assert_eq!(found, stable(&times));
        }
    }

    #[test]
    fn open_runs_are_bounded() {
        let times: Vec<u64> = (0..1_000).map(|i| i * 7 % 100).collect();
        let (found, open_max) = sorted(&times, 1, 0, 4);
        assert_eq!(found, stable(&times));
        // 1,000 runs are five digits to the base of four, each at most 3.
        assert!((4..=15).contains(&open_max), "{open_max} runs");
    }

    #[test]
    fn within_the_budget_no_file_is_written() {
        let nowhere = PathBuf::from("/nowhere/at/all");
        let mut sorter = Sorter::new(1 << 20, FAN_IN, nowhere.clone());
        sorter.push(piece(&[1], 0)).unwrap();
        assert!(sorter.finish().unwrap().next().unwrap().is_some());
        assert!(Sorter::new(0, FAN_IN, nowhere).push(piece(&[1], 0)).is_err());
    }
}
