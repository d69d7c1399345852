//! A zstd reader that reads one frame after another, and returns all text before a cut or damage.
//!
//! It does for zstd what `gzip.rs` does for gzip: damage is told apart from a source that fails.

use std::error::Error;
use std::io::{self, BufRead, ErrorKind, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::damage::Damage;

const KIND: &str = "zstd";
/// An empty last block, and a checksum. After it the decoder returns the text that it keeps for
/// blocks to refer to.
const LAST_BLOCK: &[u8] = b"\x01\0\0\0\0\0\0";

/// The text of all frames. Frames to skip are skipped.
pub(super) struct Unzstd<R> {
    raw: R,
    decoder: FrameDecoder,
    in_frame: bool,
    /// Why reading ends after the text that is decoded.
    ended: Option<io::Error>,
}

impl<R: BufRead> Unzstd<R> {
    pub(super) fn new(raw: R) -> Self {
        Self { raw, decoder: FrameDecoder::new(), in_frame: false, ended: None }
    }

    /// Decodes the next block, or begins the next frame; `false` at the end.
    fn step(&mut self) -> io::Result<bool> {
        if let Some(error) = self.ended.take() {
            return Err(error);
        }
        if !self.in_frame {
            return self.next_frame();
        }
        // The checksum follows the last block, so it is compared once all text of the frame is decoded.
        if self.decoder.is_finished() {
            self.in_frame = false;
            let written = self.decoder.get_checksum_from_data();
            if written.is_some() && written != self.decoder.get_calculated_checksum() {
                let how = "the data does not match its checksum";
                return Err(Damage::Corrupt(KIND, how).into());
            }
            return Ok(true);
        }
        let one = BlockDecodingStrategy::UptoBlocks(1);
        if let Err(error) = self.decoder.decode_blocks(&mut self.raw, one) {
            // The text before the damage is still within the decoder, until it takes a last block.
            self.ended = Some(damage(&error, "expected compressed text"));
            let _ = self.decoder.decode_blocks(LAST_BLOCK, BlockDecodingStrategy::All);
        }
        Ok(true)
    }

    fn next_frame(&mut self) -> io::Result<bool> {
        if self.raw.fill_buf()?.is_empty() {
            return Ok(false);
        }
        match self.decoder.reset(&mut self.raw) {
            Ok(()) => self.in_frame = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                // Other programs keep notes in such frames, for example a table for seeking (RFC 8878, 3.1.2).
                let length = u64::from(length);
                let skipped = io::copy(&mut self.raw.by_ref().take(length), &mut io::sink())?;
                if skipped < length {
                    return Err(Damage::Ends(KIND).into());
                }
            }
            Err(error) => return Err(damage(&error, "expected the header of a frame")),
        }
        Ok(true)
    }
}

/// The error of the source, if it failed; else the damage of the data.
fn damage(error: &FrameDecoderError, how: &'static str) -> io::Error {
    // The decoder wraps the errors of its source, so all causes are searched for one.
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return match error.kind() {
                ErrorKind::UnexpectedEof => Damage::Ends(KIND).into(),
                kind => io::Error::new(kind, error.to_string()),
            };
        }
        cause = error.source();
    }
    Damage::Corrupt(KIND, how).into()
}

impl<R: BufRead> Read for Unzstd<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.decoder.can_collect() == 0 {
            if !self.step()? {
                return Ok(0);
            }
        }
        self.decoder.read(into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    fn read(bytes: &[u8]) -> (String, Option<String>) {
        let mut text = Vec::new();
        let mut reader = Unzstd::new(bytes);
        let mut some = [0; 7];
        let error = loop {
            match reader.read(&mut some) {
                Ok(0) => break None,
                Ok(read) => text.extend_from_slice(&some[..read]),
                Err(error) => break Some(error.to_string()),
            }
        };
        (String::from_utf8(text).unwrap(), error)
    }

    fn frame(text: &str) -> Vec<u8> {
        compress_to_vec(text.as_bytes(), CompressionLevel::Fastest)
    }

    #[test]
    fn frames_follow_each_other_and_some_are_skipped() {
        let skipped = b"\x53\x2a\x4d\x18\x03\0\0\0abc";
        let all = [&frame("one"), &skipped[..], &frame(""), &frame(" two")].concat();
        assert_eq!(read(&all), ("one two".to_owned(), None));
        assert_eq!(read(b""), (String::new(), None));
    }

    #[test]
    fn text_before_a_cut_or_damage_is_returned() {
        // Noise, so that there are several blocks.
        let mut state = 7_u64;
        let text: String = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b' ' + (state >> 59) as u8)
        })
        .take(400_000)
        .collect();
        let whole = frame(&text);
        let (found, error) = read(&whole[..whole.len() - 5]);
        assert!(found.len() > 200_000 && text.starts_with(&found), "{} bytes", found.len());
        assert_eq!(error.as_deref(), Some("the zstd data ends here, in the middle"));
        let (found, error) = read(&[&frame("one"), &b"nonsense"[..]].concat());
        assert_eq!(found, "one");
        assert!(error.is_some_and(|error| error.contains("expected the header of a frame")));
        let (found, error) = read(&[&frame("one"), &b"\x53\x2a\x4d\x18\x03\0\0\0a"[..]].concat());
        assert_eq!((found.as_str(), error.is_some()), ("one", true));
    }

    #[test]
    fn a_wrong_checksum_is_damage() {
        let mut bytes = frame(&"one two ".repeat(100));
        if let Some(last) = bytes.last_mut() {
            *last ^= 1;
        }
        let (_, error) = read(&bytes);
        assert!(error.is_some_and(|error| error.contains("does not match its checksum")));
    }

    #[test]
    fn an_error_of_the_source_is_no_damage() {
        struct Fails;
        impl Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the cable is out"))
            }
        }
        let whole = frame(&"one two ".repeat(100));
        let half = io::Cursor::new(whole[..20].to_vec()).chain(Fails);
        let error = Unzstd::new(io::BufReader::new(half)).read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!((Damage::of(&error), error.to_string().as_str()), (None, "the cable is out"));
    }
}
