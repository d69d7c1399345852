//! The log's entries: a queue in chunks, so that it grows without copying anything large.
//!
//! The state of a sliding log gives the entries running totals, and searches them by time or by the number of a unit.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::time::Timestamp;

/// The units of one tick: when they stop counting, and the total of all units ever taken up to and
/// including them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogEntry {
    pub(super) leaves: Timestamp,
    pub(super) total: u64,
}

/// Entries in time order, in chunks. Every chunk but the last is full; the first `skipped` entries
/// were dropped, and chunks whose entries were all dropped are freed a few at a time.
#[derive(Clone, Debug)]
pub(super) struct LogRing {
    chunks: VecDeque<Vec<LogEntry>>,
    skipped: usize,
    /// Chunks hold 2^`bits` entries.
    bits: u32,
}

impl LogRing {
    pub(super) const BYTES_PER_ENTRY: u64 = size_of::<LogEntry>() as u64;
    /// The maximum number of chunks that [`LogRing::free_some`] frees in one call.
    pub(super) const FREED_AT_ONCE: usize = 2;
    const LONGEST_CHUNK: u64 = 1024;
    const SHORTEST_CHUNK: u64 = 4;

    /// A ring for at most `most` entries at a time: chunks of a quarter of that, within a minimum
    /// and a maximum.
    pub(super) fn for_entries(most: u64) -> Self {
        let chunk = (most / 4).clamp(Self::SHORTEST_CHUNK, Self::LONGEST_CHUNK);
        Self { chunks: VecDeque::new(), skipped: 0, bits: chunk.ilog2() }
    }

    const fn chunk_len(&self) -> usize {
        1 << self.bits
    }

    pub(super) fn len(&self) -> usize {
        let last = self.chunks.back().map_or(0, Vec::len);
        (self.chunks.len().saturating_sub(1) * self.chunk_len() + last).saturating_sub(self.skipped)
    }

    /// Bytes of all chunks; those between the first and the last are full.
    pub(super) fn heap_bytes(&self) -> u64 {
        let first = self.chunks.front().map_or(0, Vec::capacity);
        let entries = first + self.chunks.len().saturating_sub(1) * self.chunk_len();
        entries as u64 * Self::BYTES_PER_ENTRY
    }

    pub(super) fn front(&self) -> Option<&LogEntry> {
        self.get(0)
    }

    pub(super) fn back(&self) -> Option<&LogEntry> {
        let newest = self.chunks.back()?.last();
        newest.filter(|_| self.len() > 0)
    }

    pub(super) fn get(&self, index: usize) -> Option<&LogEntry> {
        looked();
        let position = self.skipped + index;
        self.chunks.get(position >> self.bits)?.get(position & (self.chunk_len() - 1))
    }

    /// The first of the oldest `among` entries for which `holds` is true, and its index. `holds`
    /// must stay true from there on. This is a binary search over at most log2(`among`) + 1
    /// entries.
    pub(super) fn first(
        &self,
        among: usize,
        holds: impl Fn(&LogEntry) -> bool,
    ) -> Option<(usize, &LogEntry)> {
        let mut low = 0;
        let mut high = among.min(self.len());
        let mut found = None;
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle) {
                Some(entry) if holds(entry) => {
                    found = Some((middle, entry));
                    high = middle;
                }
                _ => low = middle + 1,
            }
        }
        found
    }

    /// Adds an entry, or replaces the newest entry if both are of the same tick, or if the new entry would hold no
    /// units because the total stopped at its largest value.
    pub(super) fn record(&mut self, entry: LogEntry) {
        if self
            .back()
            .is_some_and(|newest| newest.leaves == entry.leaves || newest.total == entry.total)
        {
            if let Some(newest) = self.chunks.back_mut().and_then(|chunk| chunk.last_mut()) {
                *newest = entry;
            }
            return;
        }
        let full = self.chunk_len();
        match self.chunks.back_mut() {
            Some(chunk) if chunk.len() < full => chunk.push(entry),
            // The first chunk grows as it is filled: most logs have few entries.
            None => self.chunks.push_back(Vec::from([entry])),
            Some(_) => {
                let mut chunk = Vec::with_capacity(full);
                chunk.push(entry);
                self.chunks.push_back(chunk);
            }
        }
    }

    /// Returns whether there is memory for one more entry.
    pub(super) fn has_place(&self) -> bool {
        let full = self.chunk_len();
        self.chunks.back().is_some_and(|chunk| chunk.len() < chunk.capacity().min(full))
    }

    /// Overwrites the newest entry, or the first slot where there is none.
    pub(super) fn replace_newest(&mut self, entry: LogEntry) {
        // The last slot may hold an entry that was dropped, which is not the newest entry.
        let there_is_one = self.len() > 0;
        match self.chunks.back_mut().and_then(|chunk| chunk.last_mut()) {
            Some(newest) if there_is_one => *newest = entry,
            _ => self.record(entry),
        }
    }

    /// Moves the front past the oldest `entries`, in constant time; their chunks are freed later.
    pub(super) fn skip(&mut self, entries: usize) {
        self.skipped += entries.min(self.len());
    }

    /// Frees a few of the chunks whose entries were all dropped. The last chunk is kept for the
    /// next entries.
    pub(super) fn free_some(&mut self) {
        for _ in 0..Self::FREED_AT_ONCE {
            if self.chunks.len() > 1 && self.skipped >= self.chunk_len() {
                self.chunks.pop_front();
                self.skipped -= self.chunk_len();
            }
        }
        // Nothing is left: the last chunk begins again at its first slot, also while dropped chunks are before it.
        if self.len() == 0
            && let Some(last) = self.chunks.back_mut()
        {
            self.skipped -= last.len();
            last.clear();
        }
    }

    /// The entries, oldest first.
    pub(super) fn entries(&self) -> impl Iterator<Item = &LogEntry> {
        self.chunks.iter().flatten().skip(self.skipped)
    }

    /// The entries, oldest first, mutable.
    pub(super) fn entries_mut(&mut self) -> impl Iterator<Item = &mut LogEntry> {
        self.chunks.iter_mut().flatten().skip(self.skipped)
    }

    /// Moves the entry at `from`, changed by `change`, to the slot `to`.
    pub(super) fn put_over(
        &mut self,
        from: usize,
        to: usize,
        change: impl FnOnce(LogEntry) -> LogEntry,
    ) {
        let position = self.skipped + to;
        let (chunk, within) = (position >> self.bits, position & (self.chunk_len() - 1));
        if let Some(entry) = self.get(from).copied().map(change)
            && let Some(there) = self.chunks.get_mut(chunk).and_then(|chunk| chunk.get_mut(within))
        {
            *there = entry;
        }
    }
}

impl PartialEq for LogRing {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && (0..self.len()).all(|index| self.get(index) == other.get(index))
    }
}

impl Eq for LogRing {}

/// Counts an entry that is read, for tests.
fn looked() {
    #[cfg(test)]
    super::looks::count();
}

#[cfg(test)]
impl LogRing {
    /// Chunks allocated, including those whose entries were all dropped.
    pub(super) fn chunks(&self) -> usize {
        self.chunks.len()
    }
}
