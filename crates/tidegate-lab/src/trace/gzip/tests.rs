//! Gzip with several members and zeros after them, cut or damaged.

use std::io::{BufReader, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::*;

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// Each line in a block of its own, with the position at which each block begins.
fn in_blocks(lines: &[String]) -> (Vec<u8>, Vec<usize>) {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let mut starts = Vec::new();
    for line in lines {
        encoder.flush().unwrap();
        starts.push(encoder.get_ref().len());
        encoder.write_all(line.as_bytes()).unwrap();
    }
    (encoder.finish().unwrap(), starts)
}

/// All text that can be read, and the damage that ended it.
fn read(bytes: &[u8], buffer_bytes: usize) -> (Vec<u8>, Option<Damage>) {
    let mut text = Vec::new();
    let ended = Gunzip::new(BufReader::with_capacity(buffer_bytes, bytes)).read_to_end(&mut text);
    (text, ended.err().map(|error| Damage::of(&error).unwrap()))
}

/// Lines that do not compress well, so that a cut or a flip hits all kinds of positions.
fn lines(count: u64) -> Vec<String> {
    let word = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    (0..count).map(|n| format!("{n} {:x} {:x}\n", word(n), word(n + count))).collect()
}

proptest! {
    #[test]
    fn damage_anywhere_ends_the_text_and_is_no_panic(
        position in any::<prop::sample::Index>(),
        flip in 1_u8..=255,
        buffer_bytes in 1_usize..5_000,
    ) {
        let whole = lines(2_000).concat().into_bytes();
        let mut bytes = gzip(&whole);
        let position = position.index(bytes.len());
        bytes[position] ^= flip;
        let (text, damage) = read(&bytes, buffer_bytes);
        // Damage to the file's name and age in the header is an exception, because they are not
        // checked.
        prop_assert!(damage.is_some() || text == whole);
    }
}

#[test]
fn data_cut_anywhere_gives_all_that_came_before_the_cut() {
    let lines = lines(120);
    let (first, starts) = in_blocks(&lines[..80]);
    let second = gzip(lines[80..].concat().as_bytes());
    let (bytes, whole) = ([&first[..], &second].concat(), lines.concat().into_bytes());
    for cut in 1..bytes.len() {
        let (text, damage) = read(&bytes[..cut], 1_000);
        assert!(whole.starts_with(&text), "{cut}");
        assert_eq!(damage, (cut != first.len()).then_some(Damage::Ends(KIND)), "{cut}");
        let blocks = starts.iter().skip(1).take_while(|start| **start <= cut).count();
        assert!(text.len() >= lines[..blocks].concat().len(), "{cut}");
    }
}

#[test]
fn zeros_up_to_the_end_are_the_end() {
    let members = [gzip(b"one"), gzip(b"two")].concat();
    for zeros in [1, 9, 10, 512, 100_000] {
        for buffer_bytes in [1, 7, 5_000] {
            let padded = [&members[..], &vec![0; zeros]].concat();
            assert_eq!(read(&padded, buffer_bytes), (b"onetwo".to_vec(), None), "{zeros}");
        }
    }
}

#[test]
fn zeros_with_anything_behind_them_are_no_end() {
    let whole = gzip(b"text");
    for behind in [&b"\x01"[..], &gzip(b"more")] {
        for (zeros, buffer_bytes) in [(1, 1), (20, 7), (600, 5_000)] {
            let bytes = [&whole[..], &vec![0; zeros], behind].concat();
            assert_eq!(read(&bytes, buffer_bytes), (b"text".to_vec(), Some(NO_MEMBER)));
        }
    }
    assert_eq!(read(&[0; 20], 7), (Vec::new(), Some(NO_MEMBER)), "nothing but zeros is no gzip");
}

/// A source whose every second read is interrupted, one buffer at a time.
struct Interrupted<'b> {
    bytes: &'b [u8],
    is_next: bool,
}

impl Read for Interrupted<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.is_next = !self.is_next;
        if self.is_next {
            return Err(ErrorKind::Interrupted.into());
        }
        self.bytes.read(into)
    }
}

#[test]
fn an_interruption_between_members_loses_no_member() {
    let members = [gzip(b"one "), gzip(b"two "), gzip(b"three")].concat();
    for buffer_bytes in 1..members.len() {
        let source = Interrupted { bytes: &members, is_next: false };
        let mut text = String::new();
        let mut reader = Gunzip::new(BufReader::with_capacity(buffer_bytes, source));
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one two three", "{buffer_bytes}");
    }
}
