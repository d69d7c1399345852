//! Traces through the public interface: formats, compression, bad lines, order, spilling, progress.

#![allow(clippy::unwrap_used)] // helpers of tests stop the test

use std::io::{self, Read, Write};

use crate::events::{Owned, all};
use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use tidegate_lab::trace::{self, BadLines, Options, Progress, Sorted, Source, TraceError};

const LOG: &str = r#"192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a?b HTTP/1.1" 200 5"#;

fn source(bytes: impl Into<Vec<u8>>) -> Source {
    Source::from_reader("test", io::Cursor::new(bytes.into()))
}

fn read(bytes: impl Into<Vec<u8>>) -> Result<Sorted, TraceError> {
    trace::read(source(bytes), Options::new())
}

fn events(sorted: Sorted) -> Vec<Owned> {
    all(sorted).unwrap()
}

fn json(at_us: u64, key: &str) -> String {
    format!("{{\"at_us\": {at_us}, \"descriptor\": {{\"key\": \"{key}\"}}}}")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The keys of an NDJSON trace in order of time.
fn keys(bytes: impl Into<Vec<u8>>) -> Vec<String> {
    events(read(bytes).unwrap()).into_iter().map(|e| e.descriptor[0].1.clone()).collect()
}

fn bad_numbers(bad: &BadLines) -> Vec<u64> {
    bad.first.iter().map(|line| line.line_number).collect()
}

#[test]
fn an_empty_trace_is_no_error() {
    for text in ["", "\n", "\r\n \t\n\n", "\u{feff}", "\u{feff}\n"] {
        let sorted = read(text).unwrap();
        assert_eq!((sorted.events(), sorted.first_at_us(), sorted.last_at_us()), (0, None, None));
        assert_eq!(sorted.bad_lines(), &BadLines::default());
        assert_eq!(events(sorted), []);
    }
    assert_eq!(read(gzip(b"")).unwrap().events(), 0);
}

#[test]
fn blank_lines_crlf_and_a_byte_order_mark_are_accepted() {
    let (a, b) = (json(1, "a"), json(2, "b"));
    assert_eq!(keys(format!("\u{feff}{a}\r\n\r\n  \r\n{b}")), ["a", "b"]);
    let log = read(format!("\u{feff}{LOG}\r\n\r\n{LOG}\r\n")).unwrap();
    assert_eq!((log.events(), log.bad_lines().count), (2, 0));
    assert_eq!(events(log)[0].descriptor[0].1, "192.0.2.1");
}

#[test]
fn equal_times_keep_the_order_of_the_input() {
    let lines = [(5, "c"), (1, "a"), (5, "d"), (1, "b"), (5, "e")].map(|(t, k)| json(t, k));
    assert_eq!(keys(lines.join("\n")), ["a", "b", "c", "d", "e"]);
    let sorted = read(lines.join("\n")).unwrap();
    assert_eq!((sorted.first_at_us(), sorted.last_at_us()), (Some(1), Some(5)));
}

#[test]
fn bad_lines_are_named_and_cost_no_other_line() {
    let long = format!("{{\"at_us\": 1, \"descriptor\": {{\"k\": \"{}\"}}}}", "x".repeat(1 << 20));
    let lines = ["nonsense", "", &json(2, "b"), "{\"at_us\": -1}", &long, &json(1, "a"), LOG];
    let sorted = read(lines.join("\n")).unwrap();
    assert_eq!(sorted.bad_lines().count, 4);
    assert_eq!(bad_numbers(sorted.bad_lines()), [1, 4, 5, 7]);
    let first = &sorted.bad_lines().first;
    assert!(first[0].reason.contains("neither a JSON object nor"), "{}", first[0]);
    assert_eq!(first[0].excerpt, "nonsense");
    assert!(first[2].reason.contains("longer than 1 MiB"), "{}", first[2]);
    assert!(first[2].excerpt.chars().count() <= 81);
    let found: Vec<u64> = events(sorted).iter().map(|e| e.at_us).collect();
    assert_eq!(found, [1, 2]);
}

#[test]
fn a_trace_of_bad_lines_only_says_what_was_expected() {
    for text in ["a,b\n1,2\n", "{\"at_us\": -1, \"descriptor\": {}}", "\0\0\n\u{1b}[31m", "[]"] {
        let error = read(text).unwrap_err();
        assert!(matches!(error, TraceError::Unrecognised { .. }));
        let text = error.to_string();
        for part in ["test", "NDJSON", "\"at_us\": 100000", "access log", "line 1: "] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains(char::is_control), "{text:?}");
    }
}

#[test]
fn a_line_of_many_mebibytes_is_one_bad_line() {
    let endless = io::repeat(b'x').take(64 << 20);
    let source = Source::from_reader("test", endless.chain(io::Cursor::new(format!("\n{LOG}"))));
    let sorted = trace::read(source, Options::new()).unwrap();
    assert_eq!((sorted.events(), bad_numbers(sorted.bad_lines())), (1, vec![1]));
}

#[test]
fn gzip_is_read_also_when_it_has_several_members() {
    let mut bytes = gzip(format!("{}\n", json(2, "b")).as_bytes());
    bytes.extend(gzip(json(1, "a").as_bytes()));
    bytes.extend(gzip(b"\n"));
    bytes.extend(gzip(json(3, "c").as_bytes()));
    assert_eq!(keys(bytes), ["a", "b", "c"]);
}

#[test]
fn other_compression_is_named() {
    let cases: [(&[u8], &str); 3] =
        [(b"\xfd7zXZ\0\0", "xz"), (b"BZh91AY", "bzip2"), (b"PK\x03\x04\0", "zip")];
    for (bytes, expected) in cases {
        let error = read(bytes).unwrap_err();
        assert!(matches!(error, TraceError::Compressed { kind, .. } if kind == expected));
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// The output of `>` in an older PowerShell: no line of it was recognised, and no reason was given.
#[test]
fn a_log_in_utf_16_is_named() {
    let text = LOG.encode_utf16();
    let little: Vec<u8> = text.clone().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = text.flat_map(u16::to_be_bytes).collect();
    for (mark, bytes) in [(b"\xff\xfe", little), (b"\xfe\xff", big)] {
        let error = read([mark.as_slice(), &bytes].concat()).unwrap_err();
        assert!(matches!(error, TraceError::Utf16 { .. }), "{error}");
        assert!(error.to_string().contains("iconv -f UTF-16 -t UTF-8"), "{error}");
    }
}

#[test]
fn a_file_is_recognised_by_content_not_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.ndjson");
    std::fs::write(&path, gzip(LOG.as_bytes())).unwrap();
    let sorted = trace::read(Source::open(&path).unwrap(), Options::new()).unwrap();
    assert_eq!(events(sorted)[0].descriptor[2], ("path".to_owned(), "/a".to_owned()));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let missing = Source::open("/nowhere/at/all").err().unwrap().to_string();
    assert!(missing.starts_with("cannot open the trace /nowhere/at/all: "), "{missing}");
}

#[test]
fn progress_grows_to_the_whole_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let text = format!("{LOG}\n").repeat(20_000);
    std::fs::write(&path, &text).unwrap();
    let mut progress: Vec<Progress> = Vec::new();
    let options = Options::new().on_progress(|p| progress.push(p));
    drop(trace::read(Source::open(&path).unwrap(), options).unwrap());
    let size = text.len() as u64;
    assert!(progress.len() >= 3);
    assert!(progress.windows(2).all(|p| p[0].bytes_read <= p[1].bytes_read));
    assert!(progress.iter().all(|p| p.bytes_total == Some(size)));
    assert_eq!(progress.last().map(|p| (p.bytes_read, p.events)), Some((size, 20_000)));
}

#[test]
fn progress_counts_stored_bytes_and_knows_no_total_of_a_pipe() {
    let bytes = gzip(LOG.as_bytes());
    let (size, mut last) = (bytes.len() as u64, None);
    let options = Options::new().on_progress(|p| last = Some(p));
    drop(trace::read(source(bytes), options).unwrap());
    assert_eq!(last, Some(Progress { bytes_read: size, bytes_total: None, events: 1 }));
}

#[test]
fn a_folder_for_spilling_that_is_not_there_is_an_error_that_names_it() {
    let text = [json(2, "b"), json(1, "a")].join("\n");
    let options = || Options::new().temp_dir("/nowhere/at/all");
    let error = trace::read(source(text.clone()), options().memory_budget_bytes(0)).unwrap_err();
    assert!(matches!(error, TraceError::Spill { .. }));
    assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
    assert_eq!(trace::read(source(text), options()).unwrap().events(), 2);
}

#[test]
fn temporary_files_vanish_read_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let text: String = (0..500).map(|i| json(i % 7, "k") + "\n").collect();
    for take in [0, 5, 500] {
        let options = Options::new().memory_budget_bytes(100).temp_dir(dir.path());
        let mut sorted = trace::read(source(text.clone()), options).unwrap();
        let mut left = take;
        while left > 0 {
            left -= sorted.next_batch().unwrap().map_or(left, |batch| batch.len().min(left));
        }
        drop(sorted);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

#[test]
fn zstd_is_read_frame_by_frame_and_a_cut_is_a_bad_line() {
    let frame = |text: &str| compress_to_vec(text.as_bytes(), CompressionLevel::Fastest);
    let lines = format!("{LOG}\n").repeat(1_000);
    let sorted = read([frame(&lines), frame(LOG)].concat()).unwrap();
    assert_eq!((sorted.events(), sorted.bad_lines().count, sorted.is_cut()), (1_001, 0, false));
    let whole = frame(&lines);
    let sorted = read([frame(&lines), whole[..whole.len() - 9].to_vec()].concat()).unwrap();
    assert!(sorted.events() >= 1_000 && sorted.is_cut());
    assert!(sorted.bad_lines().first[0].reason.contains("the zstd data ends here"));
}

#[test]
fn several_sources_are_one_trace_each_in_its_own_format() {
    let columns = "#Fields: date time c-ip\n2015-05-17 10:05:02 192.0.2.2\n";
    let sources = [
        source(format!("{LOG}\n{LOG}\n")),
        source(gzip(columns.as_bytes())),
        source(""),
        source(format!("{}\nnonsense\n", json(1_431_857_103_000_000, "a"))),
    ];
    let sorted = trace::read_all(sources, Options::new()).unwrap();
    let found: Vec<_> = sorted.sources().iter().map(|s| (s.events, s.bad_lines.count)).collect();
    assert_eq!(found, [(2, 0), (1, 0), (0, 0), (1, 1)]);
    assert_eq!(sorted.sources()[3].bad_lines.first[0].line_number, 2);
    assert_eq!((sorted.events(), sorted.bad_lines().count), (4, 1));
    let values: Vec<_> = events(sorted).into_iter().map(|e| e.descriptor[0].1.clone()).collect();
    assert_eq!(values, ["192.0.2.2", "192.0.2.1", "192.0.2.1", "a"]);
}

#[test]
fn columns_may_change_in_the_middle_however_a_trace_is_cut_in_pieces() {
    let first =
        "#Fields: date time c-ip\n".to_owned() + &"2015-05-17 10:05:02 192.0.2.1\n".repeat(9);
    let second =
        "#Fields: c-ip date time\n".to_owned() + &"192.0.2.2 2015-05-17 10:05:02\n".repeat(9);
    let text = [first.clone(), second.clone(), first, second].concat();
    for piece_bytes in [1, 30, 100, 1_000, 1 << 20] {
        let options = Options::new().memory_budget_bytes(piece_bytes);
        let sorted = trace::read(source(text.clone()), options).unwrap();
        assert_eq!((sorted.events(), sorted.bad_lines().count), (36, 0), "{piece_bytes}");
    }
}

#[test]
fn a_line_is_explained_as_it_is_read() {
    let text = format!("\u{feff}nonsense\n\n{LOG}\n{LOG} \nmore\n");
    let explain = |number| trace::explain(source(text.clone()), number, &Options::new()).unwrap();
    let problem = |number| explain(number).unwrap().problem.unwrap();
    assert!(problem(1).starts_with("neither a JSON object"), "{}", problem(1));
    assert_eq!(problem(2), "the line is blank");
    assert_eq!(explain(4).unwrap().format, Some("access log"));
    assert!(problem(5).starts_with("no time found"), "the format is known by then");
    assert_eq!(explain(6), None);
}

/// A `main` that returns a boxed error prints it with `Debug`.
#[test]
fn an_error_that_ends_a_program_reads_as_it_is_displayed() {
    let given = "$remote_addr $request".parse::<trace::LogFormat>().unwrap_err();
    assert_eq!(format!("{given:?}"), given.to_string());
    let damaged = read(b"BZh91AY").unwrap_err();
    assert_eq!(format!("{damaged:?}"), damaged.to_string());
    let missing = Source::open("/nowhere/trace").err().unwrap();
    assert_eq!(format!("{missing:?}"), missing.to_string());
}
