//! A trace in order of time.
//!
//! `read_all` returns it once all sources are read.

use std::path::PathBuf;
use std::sync::Arc;

use super::bad_lines::BadLines;
use super::batch::Batch;
use super::error::TraceError;
use super::merge::Merge;
use super::record::RecordNames;

/// The events of a trace in order of time; events of one time in order of the input.
#[derive(Debug)]
pub struct Sorted {
    pub(super) in_order: Merge,
    pub(super) names: Arc<RecordNames>,
    /// The summary of all sources, and of each.
    pub(super) summary: Summary,
    pub(super) sources: Vec<SourceSummary>,
    pub(super) dir: PathBuf,
    pub(super) failed: bool,
}

/// The summary of a trace that has been read, or of a piece of it.
#[derive(Debug, Default)]
pub(super) struct Summary {
    pub(super) lines: u64,
    pub(super) events: u64,
    pub(super) first_at_us: Option<u64>,
    pub(super) last_at_us: Option<u64>,
    pub(super) bad_lines: BadLines,
    pub(super) is_cut: bool,
    /// Events whose client is a trusted proxy.
    pub(super) of_proxies: u64,
}

/// The summary of one source of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSummary {
    /// The file, or the name of another source.
    pub name: String,
    /// The number of its events.
    pub events: u64,
    /// The lines that could not be read.
    pub bad_lines: BadLines,
    /// True if compressed data was cut short or damaged, so that only the beginning was read; the last of the bad
    /// lines reports where it ends.
    pub is_cut: bool,
    /// Events whose client is a trusted proxy, because their lines name no other caller.
    pub of_proxies: u64,
}

impl Summary {
    pub(super) fn add(&mut self, at_us: u64, of_proxy: bool) {
        self.events += 1;
        self.of_proxies += u64::from(of_proxy);
        self.first_at_us = Some(self.first_at_us.map_or(at_us, |first| first.min(at_us)));
        self.last_at_us = self.last_at_us.max(Some(at_us));
    }

    /// Appends the summary of the next piece, whose lines are counted from its start.
    pub(super) fn append(&mut self, piece: Self) {
        self.bad_lines.append(piece.bad_lines, self.lines);
        self.lines += piece.lines;
        self.is_cut |= piece.is_cut;
        self.of_proxies += piece.of_proxies;
        self.events += piece.events;
        // `None` is below every time, which suits the last time and not the first.
        self.first_at_us = [self.first_at_us, piece.first_at_us].into_iter().flatten().min();
        self.last_at_us = self.last_at_us.max(piece.last_at_us);
    }
}

impl Sorted {
    /// The number of events of the trace, including events that were returned already.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.summary.events
    }

    /// The time of the first event, in microseconds; `None` if the trace has none.
    #[must_use]
    pub fn first_at_us(&self) -> Option<u64> {
        self.summary.first_at_us
    }

    /// The time of the last event, in microseconds; `None` if the trace has none.
    #[must_use]
    pub fn last_at_us(&self) -> Option<u64> {
        self.summary.last_at_us
    }

    /// The sources of the trace, in their order.
    #[must_use]
    pub fn sources(&self) -> &[SourceSummary] {
        &self.sources
    }

    /// The lines that could not be read, of all sources. Lines are counted through all of them; see
    /// [`sources`](Self::sources).
    #[must_use]
    pub fn bad_lines(&self) -> &BadLines {
        &self.summary.bad_lines
    }

    /// Returns whether compressed data of a source was cut short or damaged, so that only its beginning was read.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.summary.is_cut
    }

    /// The next events, at most 1,024; `None` at the end.
    ///
    /// # Errors
    /// [`TraceError::Spill`] if temporary files fail; the trace then ends.
    pub fn next_batch(&mut self) -> Result<Option<Batch>, TraceError> {
        if self.failed {
            return Ok(None);
        }
        let next = Batch::next(&mut self.in_order, Arc::clone(&self.names), self.dir.clone());
        self.failed = next.is_err();
        match next {
            Ok(batch) => Ok(Some(batch).filter(|batch| !batch.is_empty())),
            Err(source) => Err(TraceError::Spill { dir: self.dir.clone(), source }),
        }
    }
}
