//! The source of a trace: a file, standard input or any reader; plain, gzip or zstd.
//!
//! The first bytes say if it is compressed. The reader gets plain text.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::error::TraceError;
use super::gzip::Gunzip;
use super::zstd::Unzstd;

const BUFFER_BYTES: usize = 128 << 10;

/// The first bytes of compressed files. Files of gzip and zstd are read; other formats are named in the error.
const MAGIC: [(&[u8], &str); 5] = [
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\0", "xz"),
    (b"BZh", "bzip2"),
    (b"PK\x03\x04", "zip"),
];
const MAGIC_BYTES: u64 = 6;

/// The source of a trace. Nothing is read before [`read`](super::read).
pub struct Source {
    pub(super) name: String,
    pub(super) bytes_total: Option<u64>,
    reader: Box<dyn Read + Send>,
}

impl Source {
    /// The file at `path`, or standard input for `-`.
    ///
    /// # Errors
    /// [`TraceError::Open`] if the file cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let path = path.as_ref();
        if path.as_os_str() == "-" {
            return Ok(Self::from_reader("standard input", io::stdin()));
        }
        let file = File::open(path)
            .map_err(|source| TraceError::Open { path: path.to_path_buf(), source })?;
        let bytes_total = file.metadata().ok().filter(|m| m.is_file()).map(|m| m.len());
        let name = path.display().to_string();
        Ok(Self { name, bytes_total, reader: Box::new(file) })
    }

    /// Any reader; errors refer to it as `name`.
    pub fn from_reader(name: impl Into<String>, reader: impl Read + Send + 'static) -> Self {
        Self { name: name.into(), bytes_total: None, reader: Box::new(reader) }
    }

    /// The text of the trace, decompressed, and the count of bytes taken from the source.
    pub(super) fn into_text(self) -> Result<SourceText, TraceError> {
        let bytes_read = Arc::new(AtomicU64::new(0));
        let counted = CountingReader { inner: self.reader, bytes_read: Arc::clone(&bytes_read) };
        let mut raw = BufReader::with_capacity(BUFFER_BYTES, counted);
        let mut head = Vec::new();
        // A pipe may give fewer bytes in one read.
        let peeked = raw.by_ref().take(MAGIC_BYTES).read_to_end(&mut head);
        peeked.map_err(|source| TraceError::Read {
            name: self.name.clone(),
            lines_read: 0,
            source,
        })?;
        if head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff") {
            return Err(TraceError::Utf16 { name: self.name });
        }
        let kind = MAGIC.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, kind)| *kind);
        // The first bytes were taken from the reader, so they are put before the rest.
        let whole = Cursor::new(head).chain(raw);
        let text: Box<dyn BufRead + Send> = match kind {
            None => Box::new(whole),
            Some("gzip") => Box::new(BufReader::with_capacity(BUFFER_BYTES, Gunzip::new(whole))),
            Some("zstd") => Box::new(BufReader::with_capacity(BUFFER_BYTES, Unzstd::new(whole))),
            Some(kind) => {
                return Err(TraceError::Compressed { name: self.name, kind });
            }
        };
        Ok(SourceText { text, bytes_read })
    }
}

pub(super) struct SourceText {
    pub(super) text: Box<dyn BufRead + Send>,
    pub(super) bytes_read: Arc<AtomicU64>,
}

/// Counts the bytes as stored, before any decompression.
struct CountingReader {
    inner: Box<dyn Read + Send>,
    bytes_read: Arc<AtomicU64>,
}

impl Read for CountingReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(into)?;
        self.bytes_read.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}
