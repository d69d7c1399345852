//! Tests of the contents of a report.

use super::*;
use crate::replay::Replay;
use crate::trace::Event;
use std::time::Duration;
use tidegate::{AlgorithmKind, OverrideSpec, Policy, RuleSpec};
use unicode_width::UnicodeWidthStr;

use super::super::ReportMemory;

const SPACIOUS: ReportMemory = ReportMemory { names: 100, worst_bytes: 1 << 20 };

/// The report of one request by each of these callers, in order; each may make one.
fn report_of(ips: impl IntoIterator<Item = u64>, rule: RuleSpec, memory: ReportMemory) -> String {
    let replay = Replay::new(Policy::new(vec![rule]).unwrap());
    let mut report = Report::within(&replay.policy(), memory);
    for ip in ips {
        let ip = ip.to_string();
        let event = Event::of_one(5, "default", vec![("ip", ip.as_str())]);
        report.record(&event, &replay.decide(&event));
    }
    table(&report, None)
}

fn per_ip() -> RuleSpec {
    let spec = Spec::new(AlgorithmKind::SlidingLog, 1, Duration::from_secs(1));
    RuleSpec::new("per-ip", spec).key(["ip"])
}

/// The report with room for the limiters of two callers.
fn report_with_space(keys: u64, on_full: OnFull) -> String {
    report_of(0..keys, per_ip().max_keys(2, on_full), SPACIOUS)
}

#[test]
fn a_rule_that_ran_out_of_space_says_so_and_no_other_does() {
    for (on_full, did) in
        [(OnFull::Share, "shared one limiter"), (OnFull::Refuse, "were refused for that")]
    {
        assert!(!report_with_space(2, on_full).contains("Overflow"));
        let text = report_with_space(5, on_full);
        let expected = "\nOverflow: 3 of 5 decisions of per-ip found no room for their key";
        assert!(text.contains(&format!("{expected} and {did}")), "{text}");
    }
}

#[test]
fn large_numbers_are_grouped_and_small_shares_are_not_nothing() {
    assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    assert_eq!(
        [(0, 0), (0, 9), (1, 100_000), (1, 3), (3, 3)].map(|(a, b)| percent(a, b)),
        ["0.0 %", "0.0 %", "< 0.1 %", "33.3 %", "100.0 %"]
    );
}

#[test]
fn synthetic_times_are_seconds_and_real_ones_are_dates() {
    assert_eq!(span_text(59_000_000, 60_995_000), "from 59.000000 s to 60.995000 s");
    assert_eq!(instant(1_431_857_103_000_000), "2015-05-17 10:05:03 UTC");
}

#[test]
fn a_fullest_window_that_memory_did_not_suffice_for_is_at_least_so_full() {
    let text = |worst_bytes| report_of(0..100, per_ip(), ReportMemory { worst_bytes, ..SPACIOUS });
    assert!(text(1 << 20).contains("\nFullest window of per-ip: 1 unit admitted for ip=0"));
    assert!(!text(1 << 20).contains("at least"));
    assert!(text(1_500).contains("\nFullest window of per-ip: at least 1 unit admitted for ip=0"));
}

fn report_of_caller(ip: &str) -> String {
    report_in(None, ip)
}

/// The report of two equal requests by a caller of this name: one request is admitted.
fn report_in(width: Option<u16>, ip: &str) -> String {
    let mut rule = per_ip().with_override(OverrideSpec::new("ip", "x".repeat(900_000)));
    rule.overrides[0].limit = Some(Limit::Units(1));
    let replay = Replay::new(Policy::new(vec![rule]).unwrap());
    let mut report = Report::within(&replay.policy(), SPACIOUS);
    let event = Event::of_one(5, "default", vec![("ip", ip)]);
    (0..2).for_each(|_| report.record(&event, &replay.decide(&event)));
    table(&report, width)
}

#[test]
fn a_report_fits_its_terminal_and_loses_nothing_also_with_wide_keys() {
    let columns = |text: &str| text.lines().map(UnicodeWidthStr::width).max();
    // Also the key of the override, which is in the table.
    for key in ["鍵".repeat(100), "界 ".repeat(50), "x".repeat(900_000)] {
        let (fitted, whole) = (report_in(Some(80), &key), report_in(None, &key));
        assert!(columns(&fitted) <= Some(80), "{fitted}");
        assert!(columns(&whole) > Some(80), "{whole}");
        let letters = |text: &str| text.chars().filter(|c| "鍵界x…".contains(*c)).count();
        assert_eq!(letters(&fitted), letters(&whole), "{fitted}");
    }
}

/// At less than 70 columns there is no room for all; the sentences below the table have the fullest windows.
#[test]
fn a_narrow_terminal_loses_columns_and_breaks_no_value() {
    for width in 40..=120 {
        let shown = report_in(Some(width), "192.0.2.1");
        let row = shown.lines().find(|line| line.starts_with(" per-ip ")).unwrap_or_default();
        let numbers = row.split_whitespace().filter(|word| matches!(*word, "1" | "2")).count();
        assert!(numbers >= 2 && shown.contains("sliding_log"), "{width}:\n{shown}");
        assert!(shown.contains(" asked ") && shown.contains(" refused "), "{width}:\n{shown}");
        assert!(shown.contains(" bound") || width < 80, "{width}:\n{shown}");
        let widest = shown.lines().map(UnicodeWidthStr::width).max();
        assert!(widest <= Some(usize::from(width)), "{width}:\n{shown}");
    }
}

#[test]
fn a_key_of_a_megabyte_is_cut_wherever_it_is_shown() {
    let cut = |c: &str| format!("ip={}…", c.repeat(117));
    let y = report_of_caller(&"y".repeat(900_000));
    assert!(y.contains(&format!("1  {}\n", cut("y"))), "refused most");
    assert!(y.contains(&format!("1 unit admitted for {} within", cut("y"))), "fullest window");
    let x = report_of_caller(&"x".repeat(900_000));
    assert!(x.contains(&format!(" per-ip with {} ", cut("x"))), "a line of the table");
    assert!(
        x.contains(&format!("Fullest window of per-ip with {}: 1 unit", cut("x"))),
        "its window"
    );
    for text in [x, y] {
        let longest = text.lines().map(|line| line.chars().count()).max();
        assert!(longest < Some(500), "{longest:?}");
    }
}

#[test]
fn control_characters_of_a_key_are_not_sent_to_the_terminal() {
    let text = report_of_caller("\u{1b}[2J\u{9b}\r");
    assert!(text.contains(r"1 unit admitted for ip=\u{1b}[2J\u{9b}\r within"), "{text}");
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
}

#[test]
fn counts_of_who_was_refused_most_are_exact_or_say_between_what_they_lie() {
    let ips = || [7; 4].into_iter().chain((0..6).flat_map(|ip| [ip; 2])).chain([8; 5]);
    let text = |names| report_of(ips(), per_ip(), ReportMemory { names, ..SPACIOUS });
    let exact = "  4  ip=8\n          3  ip=7\n          1  ip=0\n";
    assert!(text(100).contains(exact), "{}", text(100));
    assert!(text(100).contains("  8  keys were refused in all\n"), "{}", text(100));
    assert!(!text(100).contains("at most"));
    let between = "  4  ip=8  (at least; at most 7)\n";
    assert!(text(3).contains(between), "{}", text(3));
    assert!(text(3).contains("  more than 3 keys were refused\n"), "{}", text(3));
}
