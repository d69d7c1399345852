//! Reads gzip with `flate2`, one member after another, and returns all text before a cut.
//!
//! The text of its last step before corrupt bytes is lost, at most 36 KiB: the inflater keeps 32 KiB.

use std::io::{self, BufRead, ErrorKind, Read};

use flate2::bufread::GzDecoder;

use super::damage::Damage;

/// The maximum text of a step, which is lost if corrupt bytes follow.
const STEP_BYTES: usize = 4 << 10;

const KIND: &str = "gzip";
const NO_MEMBER: Damage = Damage::Corrupt(KIND, "expected the header of a gzip member");
const NO_TEXT: Damage = Damage::Corrupt(KIND, "expected compressed text with its checksum");

/// The text of all members, without trailing zeros, which fill up tapes and blocks.
pub(super) struct Gunzip<R> {
    /// `None` at the end.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Gunzip<R> {
    pub(super) fn new(raw: R) -> Self {
        Self { member: Some(GzDecoder::new(raw)) }
    }
}

impl<R: BufRead> Read for Gunzip<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let step = into.len().min(STEP_BYTES);
        let into = &mut into[..step];
        while let Some(member) = &mut self.member {
            let read = member.read(into);
            let bytes = read.map_err(|error| damage(error, member.header().is_some()))?;
            // A read into no space returns 0 as well, and is no end of the member.
            if bytes > 0 || into.is_empty() {
                return Ok(bytes);
            }
            if let Some(member) = self.member.take() {
                // A decoder over a buffered reader takes no byte after its member.
                self.member = next(member.into_inner())?;
            }
        }
        Ok(0)
    }
}

/// The next member, if zeros or the end do not follow.
fn next<R: BufRead>(mut raw: R) -> io::Result<Option<GzDecoder<R>>> {
    if buffered(&mut raw)?.first().is_some_and(|byte| *byte != 0) {
        return Ok(Some(GzDecoder::new(raw)));
    }
    loop {
        match buffered(&mut raw)? {
            [] => return Ok(None),
            // The zeros may go on in the next buffer of the reader.
            zeros if zeros.iter().all(|byte| *byte == 0) => {
                let bytes = zeros.len();
                raw.consume(bytes);
            }
            _ => return Err(NO_MEMBER.into()),
        }
    }
}

/// The next bytes of the source. An interruption is no end: a caller that reads again would find no member any more.
fn buffered<R: BufRead>(raw: &mut R) -> io::Result<&[u8]> {
    while let Err(error) = raw.fill_buf() {
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // Buffered bytes are returned again. Only at its end is the source asked a second time.
    raw.fill_buf()
}

/// The error of the source, if it failed; else the damage of the data.
fn damage(error: io::Error, in_member: bool) -> io::Error {
    match error.kind() {
        ErrorKind::UnexpectedEof => Damage::Ends(KIND).into(),
        // flate2 gives this kind to data that it cannot inflate, and to data that fails its checksum.
        ErrorKind::InvalidInput if in_member => NO_TEXT.into(),
        ErrorKind::InvalidInput => NO_MEMBER.into(),
        _ => error,
    }
}

#[cfg(test)]
mod tests;
