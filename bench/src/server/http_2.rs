//! HTTP/2 as far as one call after the other needs it (RFC 9113): header fields are written out whole and
//! never indexed, so that all calls but for their streams are the same bytes.

use super::asking::lost;
use super::no_op;
use std::io::{Read, Write};

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
pub const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
/// Flags of DATA and HEADERS.
pub const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// A flag of SETTINGS.
const ACK: u8 = 1;
/// More than all answers of a run take.
const WINDOW: u32 = 1 << 30;

/// One frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Greets, and awaits the other's greeting.
pub fn begin(stream: &mut (impl Read + Write)) -> Result<(), String> {
    let initial_window = [&[0, 4], &WINDOW.to_be_bytes()[..]].concat();
    let mut greeting = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    greeting.extend(frame(SETTINGS, 0, 0, &initial_window));
    greeting.extend(frame(WINDOW_UPDATE, 0, 0, &WINDOW.to_be_bytes()));
    stream.write_all(&greeting).map_err(lost)?;
    let mut head = [0; HEAD];
    stream.read_exact(&mut head).map_err(lost)?;
    let theirs = Frame::of(head);
    if (theirs.kind, theirs.flags) != (SETTINGS, 0) {
        return Err(format!("HTTP/2 begins with {theirs:?}"));
    }
    stream.read_exact(&mut vec![0; theirs.length]).map_err(lost)?;
    stream.write_all(&frame(SETTINGS, ACK, 0, &[])).map_err(lost)
}

/// The call that is the `place`th of its connection.
pub fn call(place: usize, body: &[u8]) -> Vec<u8> {
    let stream = u32::try_from(2 * place + 1).unwrap_or(u32::MAX);
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", no_op::PATH),
        (":authority", "bench"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    let literal = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
    let field = |(name, value): (&str, &str)| [vec![0], literal(name), literal(value)].concat();
    let fields: Vec<u8> = fields.into_iter().flat_map(field).collect();
    [frame(HEADERS, END_HEADERS, stream, &fields), frame(DATA, END_STREAM, stream, body)].concat()
}

/// Where the frames of a call name their stream.
pub fn streams(call: &[u8]) -> Vec<usize> {
    let (mut streams, mut at) = (Vec::new(), 0);
    while let Some((_, _, bytes)) = call.get(at..).and_then(frame_of) {
        streams.push(at + HEAD - 4);
        at += bytes;
    }
    streams
}

/// The frame that bytes begin with, its payload, and the length of both; nothing where it is not all there.
pub fn frame_of(read: &[u8]) -> Option<(Frame, &[u8], usize)> {
    let frame = Frame::of(*read.first_chunk()?);
    let bytes = HEAD + frame.length;
    Some((frame, read.get(HEAD..bytes)?, bytes))
}

/// The head of a frame.
#[derive(Debug)]
pub struct Frame {
    kind: u8,
    flags: u8,
    /// The number of its stream.
    pub stream: u32,
    /// The length of its payload.
    length: usize,
}

/// The bytes in which it says so.
const HEAD: usize = 9;

impl Frame {
    fn of([a, b, c, kind, flags, stream @ ..]: [u8; HEAD]) -> Self {
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        Self { kind, flags, stream: u32::from_be_bytes(stream), length }
    }

    /// Returns whether it is a part of a message.
    pub const fn is_data(&self) -> bool {
        self.kind == DATA
    }

    /// Returns whether nothing follows it on its stream.
    pub const fn ends_stream(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0
    }

    /// Returns whether the other takes no more of the stream, or of the connection.
    pub const fn breaks_off(&self) -> bool {
        matches!(self.kind, RST_STREAM | GOAWAY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_a_stream_of_its_own() {
        let sent = call(3, b"body");
        assert_eq!(sent[..9], [0, 0, sent[2], HEADERS, END_HEADERS, 0, 0, 0, 7]);
        assert!(sent.ends_with(&[&[0, 0, 4, DATA, END_STREAM, 0, 0, 0, 7], &b"body"[..]].concat()));
        assert_eq!(streams(&sent), [5, sent.len() - 8]);
    }
}
