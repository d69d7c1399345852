//! The events of one piece of the input as records, in order of time.
//!
//! `PieceParser` fills it line by line, and the sorter merges the sorted buffers.

use super::event::LineEvent;
use super::record::RecordNames;

/// The records one after another, and the time and place of each.
#[derive(Debug, Clone, Default)]
pub(super) struct Buffer {
    records: Vec<u8>,
    positions: Vec<RecordPosition>,
}

/// A record's time and bounds. The derived order is by time, then by position, which is the order
/// of the input: so even an unstable sort keeps the order of equal times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RecordPosition {
    at_us: u64,
    start: u32,
    end: u32,
}

impl Buffer {
    /// Adds an event. The lines of one piece never fill the four GiB that a position can name.
    pub(super) fn push(&mut self, event: &LineEvent<'_>, names: &RecordNames) {
        let start = self.records.len() as u32;
        names.encode(event, &mut self.records);
        let end = self.records.len() as u32;
        self.positions.push(RecordPosition { at_us: event.at_us, start, end });
    }

    /// Moves the events out, in order of time and in no more memory than they need.
    pub(super) fn take_sorted(&mut self) -> Self {
        // Logs are nearly in order, which speeds up this sort.
        self.positions.sort_unstable();
        // The copy has no spare capacity, and the buffer keeps its own for the next piece.
        let sorted = self.clone();
        self.records.clear();
        self.positions.clear();
        sorted
    }

    /// Bytes held, as far as they depend on the events.
    pub(super) fn bytes(&self) -> usize {
        self.records.len() + self.positions.len() * size_of::<RecordPosition>()
    }

    /// The `index`-th record and its time, in the current order.
    pub(super) fn get(&self, index: usize) -> Option<(u64, &[u8])> {
        let position = self.positions.get(index)?;
        Some((position.at_us, &self.records[position.start as usize..position.end as usize]))
    }
}
