//! Events in memory as records, until there are too many or the input ends.

use super::event::LineEvent;
use super::record;

/// The records one after another, and the start of each.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    records: Vec<u8>,
    positions: Vec<Position>,
}

/// A record's time and bounds. The derived order is by time, then by position, which is the order
/// of the input: so even an unstable sort keeps the order of equal times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    at_us: u64,
    start: usize,
    end: usize,
}

impl Buffer {
    pub(super) fn push(&mut self, event: &LineEvent<'_>) {
        let start = self.records.len();
        record::encode(event, &mut self.records);
        self.positions.push(Position { at_us: event.at_us, start, end: self.records.len() });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Bytes held, as far as they depend on the events.
    pub(super) fn bytes(&self) -> usize {
        self.records.len() + self.positions.len() * size_of::<Position>()
    }

    /// Drops the events and keeps the memory for the next ones.
    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.positions.clear();
    }

    pub(super) fn sort(&mut self) {
        // Logs are nearly in order, which speeds up this sort.
        self.positions.sort_unstable();
    }

    /// Times and records in their current order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.positions.iter().map(|p| (p.at_us, &self.records[p.start..p.end]))
    }

    /// The `index`-th of [`Self::iter`].
    pub(super) fn get(&self, index: usize) -> Option<(u64, &[u8])> {
        self.positions.get(index).map(|p| (p.at_us, &self.records[p.start..p.end]))
    }
}
