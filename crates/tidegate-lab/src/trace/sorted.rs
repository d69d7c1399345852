//! A trace in order of time.

use std::io;
use std::path::PathBuf;

use super::bad_lines::BadLines;
use super::error::TraceError;
use super::event::Event;
use super::record;
use super::sort::InOrder;

/// The events of a trace in order of time; events of one time in order of the input.
///
/// An iterator whose items are errors only if temporary files fail; after an error it ends.
#[derive(Debug)]
pub struct Sorted {
    pub(super) in_order: InOrder,
    pub(super) summary: Summary,
    pub(super) dir: PathBuf,
    pub(super) failed: bool,
}

/// The summary of a trace that has been read.
#[derive(Debug, Default)]
pub(super) struct Summary {
    pub(super) events: u64,
    pub(super) first_at_us: Option<u64>,
    pub(super) last_at_us: Option<u64>,
    pub(super) bad_lines: BadLines,
    pub(super) is_cut: bool,
}

impl Summary {
    pub(super) fn add(&mut self, at_us: u64) {
        self.events += 1;
        self.first_at_us = Some(self.first_at_us.map_or(at_us, |first| first.min(at_us)));
        self.last_at_us = Some(self.last_at_us.map_or(at_us, |last| last.max(at_us)));
    }
}

impl Sorted {
    /// How many events the trace has, including those already returned.
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

    /// The lines that could not be read.
    #[must_use]
    pub fn bad_lines(&self) -> &BadLines {
        &self.summary.bad_lines
    }

    /// Whether compressed data was cut short or damaged, so that only the beginning of the trace
    /// was read; the last of the bad lines reports where it ends.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.summary.is_cut
    }

    fn next_event(&mut self) -> io::Result<Option<Event>> {
        let Some((at_us, bytes)) = self.in_order.next()? else {
            return Ok(None);
        };
        record::decode(at_us, bytes).map(Some).map_err(io::Error::other)
    }
}

impl Iterator for Sorted {
    type Item = Result<Event, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.next_event();
        self.failed = next.is_err();
        next.map_err(|source| TraceError::Spill { dir: self.dir.clone(), source }).transpose()
    }
}
