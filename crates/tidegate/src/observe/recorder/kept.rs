//! The lines of a recorder, in bounded memory and for a bounded time.
//!
//! The recorder adds each line under its lock, and hands out whole blocks to its reader. Old lines go with their
//! block: first when they are too old, and earlier when the memory is full.

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_core::{Micros, Timestamp};

/// Lines are kept in blocks that are dropped as a whole. At least so many blocks fit the memory, and the time.
const BLOCKS: usize = 64;
const BLOCKS_IN_TIME: u64 = 32;
/// The largest block, in bytes, unless one line is longer.
pub(super) const BLOCK_BYTES: usize = 64 << 10;

/// Lines that are dropped together.
#[derive(Debug)]
struct LineBlock<L> {
    began: Timestamp,
    records: u64,
    lines: L,
}

/// The blocks, the oldest first.
#[derive(Debug)]
pub(super) struct KeptLines {
    keep: Micros,
    most_bytes: usize,
    whole: VecDeque<LineBlock<Arc<Vec<u8>>>>,
    /// The block that is being filled.
    last: Option<LineBlock<Vec<u8>>>,
    /// The capacity of all blocks.
    bytes: usize,
    no_space: u64,
}

impl KeptLines {
    /// Keeps each line for at most this time, and all lines in at most this many bytes.
    pub(super) const fn within(keep: Micros, most_bytes: usize) -> Self {
        Self { keep, most_bytes, whole: VecDeque::new(), last: None, bytes: 0, no_space: 0 }
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Records that were dropped before their time.
    pub(super) const fn no_space(&self) -> u64 {
        self.no_space
    }

    /// Adds a line of at most an eighth of the bytes.
    pub(super) fn add(&mut self, line: &[u8], now: Timestamp) {
        // A block ends when it is full, and after a part of the time, because only whole blocks are dropped.
        let longest = self.keep.as_micros() / BLOCKS_IN_TIME;
        if let Some(block) = &mut self.last
            && block.lines.len() + line.len() <= block.lines.capacity()
            && age(block.began, now) <= longest
        {
            block.lines.extend_from_slice(line);
            block.records += 1;
            return;
        }
        self.drop_old(now);
        if let Some(LineBlock { began, records, lines }) = self.last.take() {
            self.whole.push_back(LineBlock { began, records, lines: Arc::new(lines) });
        }
        // Space is made before the block is allocated, so that the bound holds at any moment.
        let capacity = (self.most_bytes / BLOCKS).min(BLOCK_BYTES).max(line.len());
        while self.bytes + capacity > self.most_bytes
            && let Some(oldest) = self.whole.pop_front()
        {
            self.bytes -= oldest.lines.capacity();
            self.no_space += oldest.records;
        }
        let mut lines = Vec::with_capacity(capacity);
        lines.extend_from_slice(line);
        self.bytes += lines.capacity();
        self.last = Some(LineBlock { began: now, records: 1, lines });
    }

    /// The lines that are not too old.
    pub(super) fn lines(&mut self, now: Timestamp) -> Vec<Arc<Vec<u8>>> {
        self.drop_old(now);
        let mut all: Vec<_> = self.whole.iter().map(|block| Arc::clone(&block.lines)).collect();
        // The block that is being filled stays with the recorder.
        all.extend(self.last.as_ref().map(|block| Arc::new(block.lines.clone())));
        all
    }

    /// Drops each block whose first line is too old, so that no line is too old.
    fn drop_old(&mut self, now: Timestamp) {
        let keep = self.keep.as_micros();
        while let Some(oldest) = self.whole.pop_front_if(|block| age(block.began, now) > keep) {
            self.bytes -= oldest.lines.capacity();
        }
        if let Some(last) = self.last.take_if(|block| age(block.began, now) > keep) {
            self.bytes -= last.lines.capacity();
        }
    }
}

/// Microseconds since then; 0 after the clock stepped back.
const fn age(began: Timestamp, now: Timestamp) -> u64 {
    now.as_micros().saturating_sub(began.as_micros())
}
