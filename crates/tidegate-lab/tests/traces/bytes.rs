//! Bytes that callers chose, in lines of JSON: a replay uses them as keys, like a server.

#![allow(clippy::unwrap_used)] // helpers of tests stop the test

use std::io::Cursor;

use tidegate_lab::trace::{self, Options, Source};

use crate::events::all;

/// The values of this entry, in lines that must all be read.
fn values(lines: &[&[u8]], name: &str) -> Vec<String> {
    let log = lines.join(&b"\n"[..]);
    let source = || Source::from_reader("log", Cursor::new(log.clone()));
    for number in 1..=lines.len() as u64 {
        let explained = trace::explain(source(), number, &Options::new()).unwrap().unwrap();
        assert_eq!(explained.problem, None, "line {number}");
    }
    let sorted = trace::read(source(), Options::new()).unwrap();
    assert_eq!(sorted.bad_lines().count, 0);
    let value = |event: crate::events::Owned| {
        let mut entries = event.descriptor.into_iter();
        entries.find(|(entry, _)| entry == name).unwrap().1
    };
    all(sorted).unwrap().into_iter().map(value).collect()
}

/// Such lines were left out, so that a replay admitted more than the server.
#[test]
fn lines_of_json_with_bytes_that_are_no_text_are_read_as_a_server_reads_them() {
    let events: [&[u8]; 4] = [
        br#"{"at_us": 1, "descriptor": {"user": "ada"}}"#,
        b"{\"at_us\": 2, \"descriptor\": {\"user\": \"j\xfcrgen\"}}",
        br#"{"at_us": 3, "descriptor": {"user": "\ud800"}}"#,
        br#"{"at_us": 4, "descriptor": {"user": "j\\xfcrgen"}}"#,
    ];
    assert_eq!(values(&events, "user"), ["ada", r"j\xfcrgen", r"\xed\xa0\x80", r"j\xfcrgen"]);
    let begin = br#"{"time_iso8601": "2015-05-17T10:05:03+00:00", "remote_addr": "192.0.2.1", "#;
    let first = [&begin[..], br#""request": "GET /a HTTP/1.1"}"#].concat();
    let second = [&begin[..], b"\"request\": \"GET /\xff HTTP/1.1\"}"].concat();
    assert_eq!(values(&[&second, &first], "path"), [r"/\xff", "/a"]);
}
