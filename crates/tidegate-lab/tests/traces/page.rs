//! The page about logs: each of its lines is read as the page says.

#![allow(clippy::unwrap_used)] // helpers of tests stop the test

use std::io;

use tidegate::ClientAddress;
use tidegate_lab::trace::{self, Options, Source};

const PAGE: &str = include_str!("../../../../docs/how-to/logs.md");

/// A block of code: its language and its text.
fn blocks() -> Vec<(&'static str, &'static str)> {
    let mut parts = PAGE.split("```");
    let mut blocks = Vec::new();
    while let (Some(_prose), Some(code)) = (parts.next(), parts.next()) {
        blocks.push(code.split_once('\n').unwrap());
    }
    blocks
}

/// The options of a command line of the page.
fn options(command: &str) -> Options<'static> {
    let mut options = Options::new();
    if let Some((_, after)) = command.split_once("--log-format '") {
        let (format, _) = after.split_once('\'').unwrap();
        options = options.log_format(format.parse().unwrap());
    }
    if let Some((_, after)) = command.split_once("--trusted-proxy ") {
        let network = after.split_whitespace().next().unwrap();
        options = options.client(ClientAddress::x_forwarded_for([network]).unwrap());
    }
    options
}

#[test]
fn each_line_of_the_page_is_read_as_it_says() {
    let mut command = "";
    let mut log = "";
    let mut lines = 0;
    for (language, text) in blocks() {
        match language {
            "sh" => command = text,
            "log" => log = text,
            "text" => {
                let source = || Source::from_reader("page", io::Cursor::new(log));
                let last = log.lines().count() as u64;
                let explained = trace::explain(source(), last, &options(command)).unwrap().unwrap();
                assert_eq!(explained.to_string(), text.trim_end(), "{log}");
                assert_eq!(explained.problem, None);
                let sorted = trace::read(source(), options(command)).unwrap();
                let requests = log.lines().filter(|line| !line.starts_with('#')).count() as u64;
                assert_eq!((sorted.events(), sorted.bad_lines().count), (requests, 0), "{log}");
                command = "";
                lines += 1;
            }
            other => panic!("a block of {other}"),
        }
    }
    assert!(lines >= 15, "{lines} examples");
}
