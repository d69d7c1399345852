//! The version of HTTP that a client speaks, and where the heads of its requests begin and end: read from its bytes,
//! because hyper reports neither. [`Stream`](super::Stream) passes all bytes that it reads; the result goes to the
//! [`Activity`] of the connection, so that a client that does not finish a head is ended in time.

use std::sync::Arc;

use super::Activity;

/// The first bytes of a client of HTTP/2 (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes before the payload of a frame (RFC 9113, 4.1).
const FRAME_BYTES: usize = 9;
/// Kinds of frames that form a head, and the flag of its last frame.
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// Finds the heads in the bytes of a connection.
#[derive(Debug)]
pub(crate) struct Heads {
    activity: Arc<Activity>,
    protocol: Protocol,
}

/// The protocol of a connection, as far as its bytes show it.
#[derive(Debug)]
enum Protocol {
    /// A part of the preface of HTTP/2; this part is missing.
    Preface(&'static [u8]),
    Http1,
    Http2(Frames),
}

impl Heads {
    pub(crate) const fn new(activity: Arc<Activity>) -> Self {
        Self { activity, protocol: Protocol::Preface(PREFACE) }
    }

    /// Notes the next bytes.
    pub(super) fn read(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let frames = match self.protocol {
            Protocol::Preface(missing) => self.begin(missing, bytes),
            Protocol::Http1 | Protocol::Http2(_) => bytes,
        };
        match &mut self.protocol {
            Protocol::Http2(frames_read) => {
                frames_read.read(frames);
                self.activity.note_head_of_http_2(frames_read.in_head());
            }
            // A part of the preface counts as a head that has begun: a client that stops there is ended, too.
            Protocol::Preface(_) | Protocol::Http1 => self.activity.note_head(),
        }
    }

    /// Compares with the preface; returns the bytes after it.
    fn begin<'b>(&mut self, missing: &'static [u8], bytes: &'b [u8]) -> &'b [u8] {
        let (begins, after) = bytes.split_at(missing.len().min(bytes.len()));
        self.protocol = match missing.strip_prefix(begins) {
            None => Protocol::Http1,
            Some([]) => Protocol::Http2(Frames::default()),
            Some(missing) => Protocol::Preface(missing),
        };
        after
    }
}

/// The frames of a connection over HTTP/2. Only their first bytes are looked at; payloads are skipped.
#[derive(Debug, Default)]
struct Frames {
    /// The frame under way, up to its payload.
    frame: [u8; FRAME_BYTES],
    frame_bytes_read: usize,
    /// Bytes of its payload that are still to come.
    left: usize,
    /// Heads that have ended.
    ended: u64,
    /// True if another head has begun.
    is_in_head: bool,
}

impl Frames {
    fn read(&mut self, mut bytes: &[u8]) {
        while let Some((first, after)) = bytes.split_first() {
            if self.left > 0 {
                // A payload is skipped in one step, whatever its length, because this runs for every read.
                let part = self.left.min(bytes.len());
                self.left -= part;
                bytes = bytes.get(part..).unwrap_or_default();
            } else {
                bytes = after;
                self.begin(*first);
            }
            // Here and not where a frame begins: a payload may be empty, or arrive later.
            let [_, _, _, kind, flags, ..] = self.frame;
            let ends_head = matches!(kind, HEADERS | CONTINUATION) && flags & END_HEADERS > 0;
            if self.left == 0 && self.frame_bytes_read == 0 && ends_head {
                self.ended += 1;
                self.is_in_head = false;
            }
        }
    }

    /// Adds a byte of a frame's beginning, before its payload.
    fn begin(&mut self, byte: u8) {
        if let Some(slot) = self.frame.get_mut(self.frame_bytes_read) {
            *slot = byte;
        }
        self.frame_bytes_read += 1;
        if self.frame_bytes_read < FRAME_BYTES {
            return;
        }
        // A length of 24 bits (RFC 9113, 4.1).
        let [high, middle, low, kind, ..] = self.frame;
        self.frame_bytes_read = 0;
        self.left = u32::from_be_bytes([0, high, middle, low]) as usize;
        // CONTINUATION only follows HEADERS: hyper ends a connection on which it does not.
        self.is_in_head |= kind == HEADERS;
    }

    /// The number of the head that has arrived in part, or that a partial frame may begin; `None`
    /// between frames.
    fn in_head(&self) -> Option<u64> {
        (self.is_in_head || self.frame_bytes_read > 0).then_some(self.ended + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let [_, length @ ..] = u32::try_from(payload).unwrap().to_be_bytes();
        [&length[..], &[kind, flags, 0, 0, 0, 1], &vec![b'x'; payload]].concat()
    }

    /// The number of the head in which bytes end that arrive in pieces of `piece` bytes.
    fn in_head(bytes: &[u8], piece: usize) -> Option<u64> {
        let activity = Arc::new(Activity::default());
        let mut heads = Heads::new(Arc::clone(&activity));
        bytes.chunks(piece).for_each(|piece| heads.read(piece));
        assert_eq!(activity.speaks_http_2(), bytes.starts_with(PREFACE));
        activity.in_head()
    }

    #[test]
    fn a_head_over_http_2_ends_with_the_frame_that_says_so() {
        let whole = frame(HEADERS, END_HEADERS, 300);
        let begun = [frame(HEADERS, 0, 20), frame(CONTINUATION, 0, 70_000)].concat();
        let ended = [&begun[..], &frame(CONTINUATION, END_HEADERS, 0)].concat();
        let (settings, data) = (frame(4, 0, 12), frame(0, END_HEADERS, 40));
        for (frames, expected) in [
            (vec![], None),
            (vec![&settings[..], &whole, &data], None),
            (vec![&settings, &whole[..whole.len() - 1]], Some(1)),
            (vec![&whole, &whole, &begun], Some(3)),
            (vec![&whole, &ended], None),
            (vec![&whole, &data[..20]], None),
            (vec![&whole, &data[..5]], Some(2)),
        ] {
            let bytes = [PREFACE, &frames.concat()].concat();
            for piece in [1, 7, 30, bytes.len()] {
                assert_eq!(in_head(&bytes, piece), expected, "{piece} of {bytes:?}");
            }
        }
    }

    #[test]
    fn all_that_is_no_preface_is_a_head_over_http_1() {
        for begins in
            ["P", "PRI * HTTP/2", "POST / HTTP/1.1\r\n", "PRI * HTTP/2.1\r\n\r\nSM\r\n\r\n"]
        {
            assert_eq!(in_head(begins.as_bytes(), 2), Some(1), "{begins}");
        }
    }
}
