//! The options of reading: the memory budget, the folder for temporary files, and the progress
//! callback.

use std::path::PathBuf;

use tidegate::ClientAddress;

use super::notation::LogFormat;
use super::record::RecordNames;

/// The default of [`Options::memory_budget_bytes`]: 48 MiB.
const DEFAULT_BUDGET_BYTES: usize = 48 << 20;

/// The progress of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes taken from the source so far, as stored (compressed if they are).
    pub bytes_read: u64,
    /// The size of the file; `None` if it is unknown, as for a pipe.
    pub bytes_total: Option<u64>,
    /// Good lines so far.
    pub events: u64,
}

/// The options of reading a trace. `Options::new()` suits nearly every use.
///
/// ```
/// use tidegate_lab::trace::Options;
/// let options = Options::new()
///     .memory_budget_bytes(64 << 20)
///     .temp_dir("/var/tmp")
///     .on_progress(|p| eprintln!("{} events", p.events));
/// # drop(options);
/// ```
pub struct Options<'a> {
    pub(super) memory_budget_bytes: usize,
    pub(super) temp_dir: PathBuf,
    pub(super) names: RecordNames,
    pub(super) client: ClientAddress,
    pub(super) log_format: Option<LogFormat>,
    pub(super) on_progress: Box<dyn FnMut(Progress) + 'a>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Options<'a> {
    /// 48 MiB, the system's folder for temporary files, all entries, no trusted proxy, a format that is recognised, no
    /// progress.
    #[must_use]
    pub fn new() -> Self {
        Self {
            memory_budget_bytes: DEFAULT_BUDGET_BYTES,
            temp_dir: std::env::temp_dir(),
            names: RecordNames::default(),
            client: ClientAddress::peer(),
            log_format: None,
            on_progress: Box::new(|_| ()),
        }
    }

    /// The bytes of events that are held before they go to temporary files. Any value works; a very
    /// small one means many small files and is slow. Some ten MiB of buffers come on top.
    #[must_use]
    pub fn memory_budget_bytes(mut self, bytes: usize) -> Self {
        self.memory_budget_bytes = bytes;
        self
    }

    /// The folder for temporary files if events do not fit in memory. It is not checked before.
    #[must_use]
    pub fn temp_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.temp_dir = dir.into();
        self
    }

    /// Keeps only entries of these names of the descriptors, and so needs less memory and time for
    /// the rest of the work. By default all are kept.
    #[must_use]
    pub fn only_entries<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.names = RecordNames::only(names);
        self
    }

    /// Sets the way to find and write the client of a log's line, as for the layer; by default no proxy is trusted. The
    /// entries of NDJSON are used as they are.
    #[must_use]
    pub fn client(mut self, client: ClientAddress) -> Self {
        self.client = client;
        self
    }

    /// The format of all sources, in place of the format that their lines seem to have.
    #[must_use]
    pub fn log_format(mut self, format: LogFormat) -> Self {
        self.log_format = Some(format);
        self
    }

    /// A function that is called every few thousand lines while the trace is read, and once at its
    /// end.
    #[must_use]
    pub fn on_progress(mut self, notify: impl FnMut(Progress) + 'a) -> Self {
        self.on_progress = Box::new(notify);
        self
    }
}
