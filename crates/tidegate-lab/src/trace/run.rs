//! A sorted run of records in a temporary file.
//!
//! Each record is its time (8 bytes), its length (4 bytes), both low bytes first, and its bytes.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;

use super::record::Damaged;

const WRITE_BUFFER_BYTES: usize = 256 << 10;
const READ_BUFFER_BYTES: usize = 64 << 10;

/// A run during writing. Its file has no name: it vanishes when the last handle is closed.
pub(super) struct RunWriter {
    file: BufWriter<File>,
    records: u64,
}

impl RunWriter {
    pub(super) fn new(dir: &Path) -> io::Result<Self> {
        let file = BufWriter::with_capacity(WRITE_BUFFER_BYTES, tempfile::tempfile_in(dir)?);
        Ok(Self { file, records: 0 })
    }

    pub(super) fn write(&mut self, at_us: u64, record: &[u8]) -> io::Result<()> {
        let length = u32::try_from(record.len()).map_err(io::Error::other)?;
        self.file.write_all(&at_us.to_le_bytes())?;
        self.file.write_all(&length.to_le_bytes())?;
        self.file.write_all(record)?;
        self.records += 1;
        Ok(())
    }

    /// Ends the run; `level` is how many times its records have been merged.
    pub(super) fn finish(self, level: u32) -> io::Result<Run> {
        let mut file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        Ok(Run { file, records: self.records, level })
    }
}

#[derive(Debug)]
pub(super) struct Run {
    file: File,
    records: u64,
    pub(super) level: u32,
}

impl Run {
    /// Reads the run from its beginning.
    pub(super) fn into_reader(self) -> RunReader {
        let file = BufReader::with_capacity(READ_BUFFER_BYTES, self.file);
        RunReader { file, left: self.records, record: Vec::new() }
    }
}

/// A run during reading, one record at a time.
#[derive(Debug)]
pub(super) struct RunReader {
    file: BufReader<File>,
    left: u64,
    record: Vec<u8>,
}

impl RunReader {
    /// Moves to the next record and returns its time; `None` at the end of the run.
    pub(super) fn advance(&mut self) -> io::Result<Option<u64>> {
        // By the number of records, so that a file that is too short is an error and not the end.
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let mut at_us = [0; 8];
        let mut length = [0; 4];
        self.file.read_exact(&mut at_us)?;
        self.file.read_exact(&mut length)?;
        self.read_record(u64::from(u32::from_le_bytes(length)))?;
        Ok(Some(u64::from_le_bytes(at_us)))
    }

    fn read_record(&mut self, length: u64) -> io::Result<()> {
        self.record.clear();
        // Not allocated by the length, which is any number if the file was damaged.
        let read = self.file.by_ref().take(length).read_to_end(&mut self.record)?;
        if read as u64 == length { Ok(()) } else { Err(io::Error::other(Damaged)) }
    }

    /// The record [`Self::advance`] moved to.
    pub(super) fn record(&self) -> &[u8] {
        &self.record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_then_it_ends() {
        let mut writer = RunWriter::new(&std::env::temp_dir()).unwrap();
        writer.write(7, b"seven").unwrap();
        writer.write(u64::MAX, b"").unwrap();
        let mut reader = writer.finish(0).unwrap().into_reader();
        assert_eq!(reader.advance().unwrap(), Some(7));
        assert_eq!(reader.record(), b"seven");
        assert_eq!(reader.advance().unwrap(), Some(u64::MAX));
        assert_eq!(reader.record(), b"");
        assert_eq!(reader.advance().unwrap(), None);
    }

    #[test]
    fn a_file_cut_short_is_an_error() {
        let mut writer = RunWriter::new(&std::env::temp_dir()).unwrap();
        writer.write(7, b"seven").unwrap();
        let run = writer.finish(0).unwrap();
        for bytes in [16, 12, 5, 0] {
            run.file.set_len(bytes).unwrap();
            let mut file = run.file.try_clone().unwrap();
            file.rewind().unwrap();
            let mut reader = Run { file, records: 1, level: 0 }.into_reader();
            assert!(reader.advance().is_err(), "{bytes} bytes left");
        }
    }
}
