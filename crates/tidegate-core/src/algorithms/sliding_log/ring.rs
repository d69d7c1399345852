//! The log's entries: a queue in chunks, so that it grows without copying anything large.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::time::Timestamp;

/// All units of one tick: when they count no more, and how many there ever were up to and including them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) leaves: Timestamp,
    pub(super) total: u64,
}

/// Entries in time order, in chunks. Every chunk but the last is full; the first `skipped` entries of the first
/// chunk are gone.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    chunks: VecDeque<Vec<Entry>>,
    skipped: usize,
    /// Chunks hold 2^`bits` entries.
    bits: u32,
}

impl Ring {
    pub(super) const BYTES_PER_ENTRY: u64 = size_of::<Entry>() as u64;
    const LONGEST_CHUNK: u64 = 1024;
    const SHORTEST_CHUNK: u64 = 4;

    /// A ring for at most `most` entries at a time: chunks of a quarter of that, within reason.
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

    /// Bytes of all chunks: all but the first and the last of several are full.
    pub(super) fn heap_bytes(&self) -> u64 {
        let of = |chunk: Option<&Vec<Entry>>| chunk.map_or(0, Vec::capacity);
        let entries = match self.chunks.len() {
            0 | 1 => of(self.chunks.front()),
            chunks => of(self.chunks.front()) + (chunks - 1) * self.chunk_len(),
        };
        entries as u64 * Self::BYTES_PER_ENTRY
    }

    pub(super) fn front(&self) -> Option<&Entry> {
        self.chunks.front()?.get(self.skipped)
    }

    pub(super) fn back(&self) -> Option<&Entry> {
        let newest = self.chunks.back()?.last();
        newest.filter(|_| self.len() > 0)
    }

    pub(super) fn get(&self, index: usize) -> Option<&Entry> {
        let place = self.skipped + index;
        self.chunks.get(place >> self.bits)?.get(place & (self.chunk_len() - 1))
    }

    /// The index of the first entry for which `holds` is true, given that it stays true from there on;
    /// the length when there is none.
    pub(super) fn first(&self, holds: impl Fn(&Entry) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(middle).is_some_and(&holds) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// Adds an entry, or raises the newest one if it is of the same tick.
    pub(super) fn record(&mut self, entry: Entry) {
        if self.back().is_some_and(|newest| newest.leaves == entry.leaves) {
            if let Some(newest) = self.chunks.back_mut().and_then(|chunk| chunk.last_mut()) {
                *newest = entry;
            }
            return;
        }
        let full = self.chunk_len();
        match self.chunks.back_mut() {
            Some(chunk) if chunk.len() < full => chunk.push(entry),
            None => self.chunks.push_back(Vec::from([entry])),
            Some(_) => {
                let mut chunk = Vec::with_capacity(full);
                chunk.push(entry);
                self.chunks.push_back(chunk);
            }
        }
    }

    /// Takes the oldest entry out. A chunk that is used up is freed, or kept for the next entries
    /// when it is the only one.
    pub(super) fn pop_front(&mut self) -> Option<Entry> {
        let entry = *self.front()?;
        self.skipped += 1;
        if self.len() == 0 {
            self.chunks.truncate(1);
            self.chunks.iter_mut().for_each(Vec::clear);
            self.skipped = 0;
        } else if self.skipped == self.chunk_len() {
            self.chunks.pop_front();
            self.skipped = 0;
        }
        Some(entry)
    }

    /// Takes the newest entry out.
    pub(super) fn pop_back(&mut self) {
        if self.len() > 0 {
            let newest = self.chunks.back_mut().map_or(0, |chunk| {
                chunk.pop();
                chunk.len()
            });
            if newest == 0 && self.chunks.len() > 1 {
                self.chunks.pop_back();
            }
        }
    }

    /// The entries, oldest first, to be changed in place.
    pub(super) fn entries_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.chunks.iter_mut().flatten().skip(self.skipped)
    }
}

impl PartialEq for Ring {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && (0..self.len()).all(|index| self.get(index) == other.get(index))
    }
}

impl Eq for Ring {}
