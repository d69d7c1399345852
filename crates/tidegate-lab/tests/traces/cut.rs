//! Traces that break off: compressed data that is cut or corrupt, and a source that fails.

#![allow(clippy::unwrap_used)] // helpers of tests stop the test

use std::io::{self, Read, Write};

use crate::events::all;
use flate2::Compression;
use flate2::write::GzEncoder;
use tidegate_lab::trace::{self, BadLine, Options, Sorted, Source, TraceError};

const LOG: &str = r#"192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5120"#;
const LINES: u64 = 5_000;
/// The decoder may keep 36 KiB of text before corrupt bytes for itself, and a line begins in them.
const LOST: u64 = (36 << 10) / LOG.len() as u64 + 1;

fn read(bytes: impl Into<Vec<u8>>) -> Result<Sorted, TraceError> {
    trace::read(Source::from_reader("test", io::Cursor::new(bytes.into())), Options::new())
}

/// Compressed to the last byte of the text, but without the end of a gzip file.
fn begun(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.flush().unwrap();
    encoder.get_ref().clone()
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// The number of events, and the only bad line.
fn cut(bytes: impl Into<Vec<u8>>) -> (u64, BadLine) {
    let sorted = read(bytes).unwrap();
    let bad = sorted.bad_lines().clone();
    assert_eq!((bad.count, bad.first.len()), (1, 1), "{bad:?}");
    (sorted.events(), bad.first[0].clone())
}

#[test]
fn a_gzip_trace_cut_short_loses_the_line_that_was_cut_and_no_other() {
    let text = format!("{LOG}\n").repeat(1_000);
    for left in [1, 40, LOG.len() - 3, LOG.len()] {
        let (events, bad) = cut(begun(&(text.clone() + &LOG[..left])));
        assert_eq!((events, bad.line_number), (1_000, 1_001));
        assert!(bad.reason.contains("gzip data ends here"), "{bad}");
        assert!(bad.reason.contains("1000 lines before it were read"), "{bad}");
        assert!(LOG.starts_with(bad.excerpt.trim_end_matches('…')), "{bad}");
    }
}

#[test]
fn a_line_cut_in_half_is_bad_however_well_it_reads() {
    // Cut within the size of the answer this is still a line of an access log, but not the line that was written.
    let half = &LOG[..LOG.len() - 2];
    assert_eq!(read(half).unwrap().events(), 1);
    let (events, bad) = cut(begun(&format!("{LOG}\n{half}")));
    assert_eq!((events, bad.line_number, bad.excerpt.as_str()), (1, 2, half));
    assert!(bad.reason.ends_with("; 1 line before it was read"), "{bad}");
}

#[test]
fn a_cut_between_two_lines_is_named_as_well() {
    let (events, bad) = cut(begun(&format!("{LOG}\n\n{LOG}\n")));
    assert_eq!((events, bad.line_number, bad.excerpt.as_str()), (2, 4, ""));
    assert!(bad.to_string().ends_with("3 lines before it were read"), "{bad}");
}

#[test]
fn a_corrupt_place_is_named_after_the_lines_before_it() {
    let text = format!("{LOG}\n").repeat(LINES as usize);
    let mut wrong_sum = gzip(&text);
    let in_the_checksum = wrong_sum.len() - 6;
    wrong_sum[in_the_checksum] ^= 1;
    let no_block = [begun(&text), vec![0xff; 30]].concat();
    let no_member = [gzip(&text), b"nonsense after it".to_vec()].concat();
    let strange = [gzip(&text), b"\x1f\x8b\x07\0\0\0\0\0\0\0".to_vec()].concat();
    let (text, header) = ("expected compressed text with its checksum", "expected the header");
    for (bytes, least, expected) in [
        (wrong_sum, LINES, text),
        (no_member, LINES, header),
        (strange, LINES, header),
        (no_block, LINES - LOST, text),
    ] {
        let (events, bad) = cut(bytes);
        assert!((least..=LINES).contains(&events) && bad.line_number == events + 1, "{bad}");
        assert!(bad.reason.contains(&format!("gzip data is corrupt here: {expected}")), "{bad}");
    }
}

#[test]
fn lines_before_a_corrupt_place_in_the_middle_are_all_read_and_none_after_it() {
    let text: String =
        (0..LINES).map(|number| LOG.replace("/a", &format!("/{number}")) + "\n").collect();
    // A kind of block that does not exist, and whole blocks after it.
    let bytes = [begun(&text), vec![0xff], gzip(&text)].concat();
    let (count, bad) = cut(bytes.clone());
    assert!((LINES - LOST..=LINES).contains(&count) && bad.line_number == count + 1, "{bad}");
    let last = all(read(bytes).unwrap()).unwrap().pop().unwrap();
    let path = format!("/{}", count - 1);
    assert!(last.descriptor.iter().any(|(_, value)| *value == path), "{last:?}");
}

#[test]
fn zero_padding_behind_the_last_member_leaves_no_line_out() {
    for text in [format!("{LOG}\n{LOG}\n"), format!("{LOG}\n{LOG}")] {
        let sorted = read([gzip(&text), vec![0; 700]].concat()).unwrap();
        assert_eq!((sorted.events(), sorted.bad_lines().count), (2, 0));
        let (events, bad) = cut([gzip(&text), vec![0; 700], b"x".to_vec()].concat());
        let left_out = u64::from(!text.ends_with('\n'));
        assert_eq!((events, bad.line_number), (2 - left_out, 3 - left_out));
        assert!(bad.reason.contains("expected the header of a gzip member"), "{bad}");
    }
}

#[test]
fn lines_of_the_members_before_a_cut_one_count() {
    let whole = gzip(&format!("{LOG}\n").repeat(10));
    let second = gzip(&format!("{LOG}\n").repeat(10));
    let (events, bad) = cut([&whole[..], &second[..5]].concat());
    assert_eq!((events, bad.line_number), (10, 11));
}

#[test]
fn other_bad_lines_are_named_beside_the_cut() {
    let sorted = read(begun(&format!("{LOG}\nnonsense\n{LOG}\n192.0.2."))).unwrap();
    let numbers: Vec<u64> = sorted.bad_lines().first.iter().map(|bad| bad.line_number).collect();
    assert_eq!((sorted.events(), numbers), (2, vec![2, 4]));
}

#[test]
fn gzip_data_without_one_good_line_is_an_error_that_says_why() {
    for bytes in [gzip(LOG)[..2].to_vec(), gzip(LOG)[..12].to_vec(), begun("")] {
        let error = read(bytes).unwrap_err();
        assert!(matches!(error, TraceError::Unrecognised { .. }));
        assert!(error.to_string().contains("line 1: the gzip data ends here"), "{error}");
    }
}

#[test]
fn a_source_that_fails_is_an_error_that_says_how_far_it_came() {
    struct Fails;
    impl Read for Fails {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the cable is out"))
        }
    }
    let (line, lines) = (format!("{LOG}\n"), format!("{LOG}\n{LOG}\n{LOG}"));
    let cases = [(Vec::new(), 0), (line.into_bytes(), 1), (begun(&lines), 2)];
    for (start, expected) in cases {
        let source = Source::from_reader("test", io::Cursor::new(start).chain(Fails));
        let error = trace::read(source, Options::new()).unwrap_err();
        assert!(matches!(error, TraceError::Read { lines_read, .. } if lines_read == expected));
        let said = error.to_string();
        assert!(said.contains("the cable is out"), "{said}");
        assert!(said.ends_with(&format!("lines read before: {expected}")), "{said}");
    }
}
