//! The blocks of a snapshot, each with a checksum of everything before it.
//!
//! `snapshot.rs` has the format.

use std::io::{self, ErrorKind, Read, Write};

use super::error::SnapshotError;

const MAGIC: [u8; 8] = *b"tidegate";
const VERSION: u32 = 1;

/// The content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Head = 1,
    Rule,
    Limiters,
    Ban,
    Answers,
    End,
}

impl Kind {
    const ALL: [Self; 6] =
        [Self::Head, Self::Rule, Self::Limiters, Self::Ban, Self::Answers, Self::End];

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// A snapshot that is being written.
pub(crate) struct Blocks<'w> {
    to: &'w mut dyn Write,
    sum: crc32fast::Hasher,
    bytes: u64,
}

impl<'w> Blocks<'w> {
    pub(crate) fn begin(to: &'w mut dyn Write) -> io::Result<Self> {
        let mut blocks = Self { to, sum: crc32fast::Hasher::new(), bytes: 0 };
        blocks.put_bytes(&MAGIC)?;
        blocks.put_bytes(&VERSION.to_le_bytes())?;
        Ok(blocks)
    }

    pub(crate) fn put(&mut self, kind: Kind, payload: &[u8]) -> io::Result<()> {
        self.put_bytes(&[kind as u8])?;
        self.put_bytes(&(payload.len() as u64).to_le_bytes())?;
        self.put_bytes(payload)?;
        // Of everything so far, so that no block can be moved or left out. Only the sums are not summed: a CRC of bytes
        // that end in their own CRC is the same for all bytes, and each block would be checked by itself.
        let sum = self.sum.clone().finalize();
        self.write(&sum.to_le_bytes())
    }

    /// Ends the snapshot; returns its length.
    pub(crate) fn end(mut self) -> io::Result<u64> {
        self.put(Kind::End, &[])?;
        self.to.flush()?;
        Ok(self.bytes)
    }

    fn put_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.update(bytes);
        self.write(bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes += bytes.len() as u64;
        self.to.write_all(bytes)
    }
}

/// A snapshot that is being read.
pub(crate) struct ReadBlocks<R> {
    from: R,
    sum: crc32fast::Hasher,
    /// Bytes read so far.
    at: u64,
    payload: Vec<u8>,
}

impl<R: Read> ReadBlocks<R> {
    pub(crate) fn begin(from: R) -> Result<Self, SnapshotError> {
        let mut blocks = Self { from, sum: crc32fast::Hasher::new(), at: 0, payload: Vec::new() };
        if blocks.array()? != MAGIC {
            return Err(SnapshotError::NotASnapshot);
        }
        match u32::from_le_bytes(blocks.array()?) {
            VERSION => Ok(blocks),
            found => Err(SnapshotError::Version { found, expected: VERSION }),
        }
    }

    /// Reads one block and checks its sum.
    pub(crate) fn next(&mut self) -> Result<(Kind, &[u8]), SnapshotError> {
        let begun_at = self.at;
        let [kind] = self.array()?;
        let length = u64::from_le_bytes(self.array()?);
        self.payload.clear();
        // Memory is taken only for bytes that are there, even if the length says more.
        (&mut self.from).take(length).read_to_end(&mut self.payload)?;
        self.sum.update(&self.payload);
        self.at += self.payload.len() as u64;
        if self.payload.len() as u64 != length {
            return Err(SnapshotError::Truncated { at: self.at });
        }
        let sum = self.sum.clone().finalize();
        if u32::from_le_bytes(self.read()?) != sum {
            return Err(SnapshotError::Checksum { at: begun_at });
        }
        let kind = Kind::from_number(kind).ok_or(SnapshotError::Malformed { at: begun_at })?;
        // Nothing follows the end: a longer file was not written by this program.
        if kind == Kind::End && self.from.read(&mut [0])? > 0 {
            return Err(SnapshotError::Malformed { at: self.at });
        }
        Ok((kind, &self.payload))
    }

    /// Bytes read so far.
    pub(crate) const fn at(&self) -> u64 {
        self.at
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let bytes = self.read()?;
        self.sum.update(&bytes);
        Ok(bytes)
    }

    /// Reads bytes that no checksum covers.
    fn read<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let mut bytes = [0; N];
        self.from.read_exact(&mut bytes).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => SnapshotError::Truncated { at: self.at },
            _ => SnapshotError::Read(error),
        })?;
        self.at += N as u64;
        Ok(bytes)
    }
}
