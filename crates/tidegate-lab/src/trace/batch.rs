//! Some events of a trace that follow each other, to be passed from thread to thread.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::error::TraceError;
use super::event::Event;
use super::merge::Merge;
use super::record::Names;

/// The most events of a batch.
const EVENTS_MAX: usize = 1_024;
/// The bytes at which a batch is full, though it has fewer events.
const FULL_BYTES: usize = 1 << 20;

/// Events in order of time, as [`Sorted::next_batch`](super::Sorted::next_batch) returns them.
#[derive(Debug)]
pub struct Batch {
    names: Arc<Names>,
    dir: PathBuf,
    records: Vec<u8>,
    /// The time of each record, and where it ends.
    ends: Vec<(u64, usize)>,
}

impl Batch {
    pub(super) fn new(names: Arc<Names>, dir: PathBuf) -> Self {
        Self { names, dir, records: Vec::new(), ends: Vec::new() }
    }

    pub(super) fn fill(&mut self, from: &mut Merge) -> io::Result<()> {
        while self.ends.len() < EVENTS_MAX
            && self.records.len() < FULL_BYTES
            && let Some((at_us, record)) = from.next()?
        {
            self.records.extend_from_slice(record);
            self.ends.push((at_us, self.records.len()));
        }
        Ok(())
    }

    /// How many events there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The events in order of time. Each is an error instead if a temporary file was damaged.
    pub fn events(&self) -> impl Iterator<Item = Result<Event<'_>, TraceError>> {
        let mut start = 0;
        self.ends.iter().map(move |&(at_us, end)| {
            let record = &self.records[start..end];
            start = end;
            self.names.decode(at_us, record).map_err(|damaged| {
                let (dir, source) = (self.dir.clone(), io::Error::other(damaged));
                TraceError::Spill { dir, source }
            })
        })
    }
}
