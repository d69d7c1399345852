//! Some events of a trace that follow each other, to be passed from thread to thread.
//!
//! A batch holds records, and makes each an event when it is asked for.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::error::TraceError;
use super::event::Event;
use super::merge::Merge;
use super::record::{Damaged, RecordNames};

/// The maximum number of events of a batch.
const EVENTS_MAX: usize = 1_024;
/// The bytes at which a batch is full, though it has fewer events.
const FULL_BYTES: usize = 1 << 20;

/// Events in order of time, as [`Sorted::next_batch`](super::Sorted::next_batch) returns them.
#[derive(Debug)]
pub struct Batch {
    names: Arc<RecordNames>,
    dir: PathBuf,
    records: String,
    /// The time of each record, and where it ends.
    ends: Vec<(u64, usize)>,
}

impl Batch {
    pub(super) fn next(
        from: &mut Merge,
        names: Arc<RecordNames>,
        dir: PathBuf,
    ) -> io::Result<Self> {
        let mut records = Vec::new();
        let mut ends = Vec::new();
        // A record may pass the bound of bytes, so that each batch has at least one event.
        while ends.len() < EVENTS_MAX
            && records.len() < FULL_BYTES
            && let Some((at_us, record)) = from.next()?
        {
            records.extend_from_slice(record);
            ends.push((at_us, records.len()));
        }
        // Records are text, so one check serves all of them.
        let records = String::from_utf8(records).map_err(|_| io::Error::other(Damaged))?;
        Ok(Self { names, dir, records, ends })
    }

    /// The number of events.
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
            let record = self.records.get(start..end).ok_or(Damaged);
            start = end;
            record.and_then(|record| self.names.decode(at_us, record)).map_err(|damaged| {
                TraceError::Spill { dir: self.dir.clone(), source: io::Error::other(damaged) }
            })
        })
    }
}
