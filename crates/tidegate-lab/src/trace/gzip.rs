//! A gzip reader that returns all text before a cut or damage.
//!
//! The decoders of `flate2` return an error instead of the text of the same step, which can be many
//! lines. This reader returns the text first, and the error after it.

use std::io::{self, BufRead, ErrorKind, Read};

use flate2::{Crc, Decompress, FlushDecompress, Status};

use super::damage::Damage;

/// The inflater writes into a ring of this size. Each call gets the space up to the ring's end
/// only, so that no text stays in the ring when it stops at damage.
const RING_BYTES: usize = 32 << 10;

const EXTRA: u8 = 4;
const NAME: u8 = 8;
const COMMENT: u8 = 16;
const HEADER_CHECK: u8 = 2;
const RESERVED: u8 = 0xe0;

const KIND: &str = "gzip";
const NO_MEMBER: Damage = Damage::Corrupt(KIND, "expected the header of a gzip member");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Header,
    Body,
    Trailer,
    /// After a member: another one, zeros, or the end.
    Next,
    /// Inside zeros, which fill up tapes and blocks; only more of them may follow.
    Padding,
    End,
}

/// The text of one gzip member after another, without trailing zeros.
pub(super) struct Gunzip<R> {
    raw: R,
    stage: Stage,
    inflater: Decompress,
    check: Crc,
    ring: Box<[u8]>,
    start: usize,
    end: usize,
}

impl<R: BufRead> Gunzip<R> {
    pub(super) fn new(raw: R) -> Self {
        let (inflater, check) = (Decompress::new(false), Crc::new());
        let ring = vec![0; RING_BYTES].into_boxed_slice();
        Self { raw, stage: Stage::Header, inflater, check, ring, start: 0, end: 0 }
    }

    fn step(&mut self) -> io::Result<Stage> {
        match self.stage {
            Stage::Header if self.raw.fill_buf()?.is_empty() => Ok(Stage::End),
            Stage::Header => self.header(),
            Stage::Body => self.body(),
            Stage::Trailer => self.trailer(),
            Stage::Next => self.next(),
            Stage::Padding => self.padding(),
            Stage::End => Ok(Stage::End),
        }
    }

    fn next(&mut self) -> io::Result<Stage> {
        match self.raw.fill_buf()? {
            [] => Ok(Stage::End),
            [0, ..] => Ok(Stage::Padding),
            _ => self.header(),
        }
    }

    fn padding(&mut self) -> io::Result<Stage> {
        let zeros = match self.raw.fill_buf()? {
            [] => return Ok(Stage::End),
            bytes if bytes.iter().all(|byte| *byte == 0) => bytes.len(),
            _ => return Err(NO_MEMBER.into()),
        };
        self.raw.consume(zeros);
        Ok(Stage::Padding)
    }

    fn header(&mut self) -> io::Result<Stage> {
        let [id1, id2, method, flags, ..] = self.bytes::<10>()?;
        if [id1, id2, method] != [0x1f, 0x8b, 8] || flags & RESERVED != 0 {
            return Err(NO_MEMBER.into());
        }
        if flags & EXTRA != 0 {
            let length = u16::from_le_bytes(self.bytes()?);
            (0..length).try_for_each(|_| self.bytes::<1>().map(drop))?;
        }
        for text in [NAME, COMMENT] {
            while flags & text != 0 && self.bytes()? != [0] {}
        }
        if flags & HEADER_CHECK != 0 {
            self.bytes::<2>()?;
        }
        self.inflater.reset(false);
        self.check.reset();
        Ok(Stage::Body)
    }

    fn body(&mut self) -> io::Result<Stage> {
        let input = self.raw.fill_buf()?;
        let (read, made) = (self.inflater.total_in(), self.inflater.total_out());
        self.start = (made % RING_BYTES as u64) as usize;
        let space = &mut self.ring[self.start..];
        let status = self.inflater.decompress(input, space, FlushDecompress::None);
        let (read, made) = (self.inflater.total_in() - read, self.inflater.total_out() - made);
        self.end = self.start + made as usize;
        let at_end = input.is_empty();
        self.raw.consume(read as usize);
        self.check.update(&self.ring[self.start..self.end]);
        match status {
            Ok(Status::StreamEnd) => Ok(Stage::Trailer),
            _ if made > 0 => Ok(Stage::Body), // an error comes again, when this text is read
            Ok(_) if read > 0 => Ok(Stage::Body),
            Ok(_) if at_end => Err(Damage::Ends(KIND).into()),
            _ => Err(Damage::Corrupt(KIND, "expected compressed text").into()),
        }
    }

    fn trailer(&mut self) -> io::Result<Stage> {
        let sum = u32::from_le_bytes(self.bytes()?);
        let length = u32::from_le_bytes(self.bytes()?);
        if (sum, length) != (self.check.sum(), self.check.amount()) {
            return Err(Damage::Corrupt(KIND, "what was read does not match its checksum").into());
        }
        Ok(Stage::Next)
    }

    fn bytes<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.raw.read_exact(&mut bytes).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => Damage::Ends(KIND).into(),
            _ => error,
        })?;
        Ok(bytes)
    }
}

impl<R: BufRead> BufRead for Gunzip<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.start == self.end && self.stage != Stage::End {
            self.stage = self.step()?;
        }
        Ok(&self.ring[self.start..self.end])
    }

    fn consume(&mut self, bytes: usize) {
        self.start = self.end.min(self.start + bytes);
    }
}

impl<R: BufRead> Read for Gunzip<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut at_hand = self.fill_buf()?;
        let bytes = at_hand.read(into)?;
        self.consume(bytes);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests;
