//! The example log in `data/` is the output of its generator, and has no bad line.

#![allow(clippy::unwrap_used)] // helpers of tests stop the test

use std::net::IpAddr;

use crate::events::{Owned, all};
use tidegate_lab::trace::{self, Options, Source};

#[allow(dead_code)] // its `main` is not called here
#[path = "../../examples/make_example_log.rs"]
mod make_example_log;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/example-access.log");

fn events() -> Vec<Owned> {
    let sorted = trace::read(Source::open(PATH).unwrap(), Options::new()).unwrap();
    assert_eq!(sorted.bad_lines().first, []);
    all(sorted).unwrap()
}

fn entry<'e>(event: &'e Owned, name: &str) -> &'e str {
    event.descriptor.iter().find(|(n, _)| n == name).map_or("", |(_, value)| value)
}

fn is_for_documentation(ip: &str) -> bool {
    // IPv6 addresses are networks.
    match ip.split('/').next().unwrap().parse().unwrap() {
        IpAddr::V4(ip) => {
            matches!(ip.octets(), [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _])
        }
        IpAddr::V6(ip) => matches!(ip.segments(), [0x2001, 0xdb8, ..]),
    }
}

#[test]
fn the_file_is_what_the_generator_makes() {
    let file = std::fs::read_to_string(PATH).unwrap();
    assert!(file == make_example_log::example_log(), "run the example make_example_log again");
    assert!(file.len() < 300_000, "{} bytes", file.len());
}

#[test]
fn every_line_is_read_and_all_addresses_are_for_documentation() {
    let events = events();
    assert!((1_500..3_000).contains(&events.len()), "{} events", events.len());
    assert!(events.iter().all(|e| is_for_documentation(entry(e, "ip"))));
    assert!(events.iter().any(|e| entry(e, "ip").contains(':')));
}

#[test]
fn the_story_is_in_it() {
    let events = events();
    let count = |name: &str, value: &str| events.iter().filter(|e| entry(e, name) == value).count();
    assert_eq!(count("ip", "203.0.113.66"), 400);
    assert_eq!(count("ip", "198.51.100.23"), 180);
    assert_eq!(count("path", "/login"), 180);
    assert!(count("path", "/sale") > 250);
    assert_eq!(count("user_agent", "health \"probe\""), 20);
    let span_us = events[events.len() - 1].at_us - events[0].at_us;
    assert!((540_000_000..660_000_000).contains(&span_us), "{span_us} us");
}

#[test]
fn its_lines_are_slightly_out_of_order() {
    let file = std::fs::read_to_string(PATH).unwrap();
    let times: Vec<&str> = file.lines().filter_map(|l| l.split(['[', ']']).nth(1)).collect();
    let steps_back = times.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert!((20..400).contains(&steps_back), "{steps_back} steps back");
}
