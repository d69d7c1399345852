//! The labels of the axes, from a millisecond to centuries, and the distances between them.

#![expect(clippy::expect_used, reason = "helpers of tests may fail the test")]

use roxmltree::{Document, Node};
use tidegate_lab::plot::{Lane, Timeline, svg};

const MS: u64 = 1_000;
const SECOND: u64 = 1_000 * MS;
const HOUR: u64 = 3_600 * SECOND;
const DAY: u64 = 24 * HOUR;

/// 2025-03-14 10:05:00 UTC.
const MARCH_US: u64 = 20_161 * DAY + 10 * HOUR + 300 * SECOND;

/// A hundred bins of `count` requests each.
fn picture(start_us: u64, span_us: u64, count: u64) -> String {
    let lane = Lane { admitted: vec![count; 100], refused: vec![0; 100], ..Lane::default() };
    let bin_us = span_us / 100;
    let lanes = vec![lane];
    svg(&Timeline { start_us, bin_us, lanes, ..Timeline::default() }).expect("a picture")
}

/// Place and text of the labels in small print that are held as `anchor` says.
fn labels(picture: &str, anchor: &str) -> Vec<(i32, String)> {
    let document = Document::parse(picture).expect("well-formed XML");
    let is_label = |node: &Node<'_, '_>| {
        node.attribute("text-anchor") == Some(anchor) && node.attribute("font-size") == Some("11")
    };
    let label = |node: Node<'_, '_>| {
        let x = node.attribute("x").expect("a place").parse().expect("a number");
        (x, node.text().unwrap_or_default().trim().to_owned())
    };
    document.descendants().filter(is_label).map(label).collect()
}

fn joined(labels: Vec<(i32, String)>) -> String {
    let texts: Vec<String> = labels.into_iter().map(|(_, text)| text).collect();
    texts.join(" ")
}

fn check(start_us: u64, span_us: u64, ticks: &str, title: &str) {
    let picture = picture(start_us, span_us, 1);
    let found = joined(labels(&picture, "middle"));
    assert!(found.starts_with(ticks), "{found}, expected {ticks}");
    assert!(picture.contains(&format!("\n{title}\n")), "{title} at {start_us}, {span_us}");
}

#[test]
fn a_synthetic_trace_counts_from_zero() {
    let table = [
        (0, MS, "0:00.0000 0:00.0001", "minutes:seconds"),
        (58_500 * MS, 3 * SECOND, "0:58.5 0:59.0 0:59.5 1:00.0", "minutes:seconds"),
        (59_999_500, MS, "0:59.9995 0:59.9996 0:59.9997", "minutes:seconds"),
        (0, HOUR, "0:00 0:05 0:10", "hours:minutes"),
        (0, 5 * HOUR, "0:00 0:30 1:00", "hours:minutes"),
        (2 * HOUR, 5 * SECOND, "2:00:00.0 2:00:00.5", "hours:minutes:seconds"),
        (0, 2 * DAY, "0 d 06:00 12:00 18:00 1 d 06:00", "days"),
        (3 * DAY + HOUR, 2 * HOUR, "01:00 01:10", "day 3, time of day"),
        (0, 365 * DAY, "0 d 50 d 100 d", "days"),
    ];
    for (start_us, span_us, ticks, unit) in table {
        check(start_us, span_us, ticks, &format!("trace time, {unit}"));
    }
}

#[test]
fn a_real_log_shows_wall_time_and_dates() {
    let table = [
        (MS, "10:05:00.0000 10:05:00.0002", "14 March 2025"),
        (10 * SECOND, "10:05:00 10:05:01", "14 March 2025"),
        (HOUR, "10:05 10:10 10:15", "14 March 2025"),
        (DAY, "12:00 14:00 16:00 18:00 20:00 22:00 15 Mar", "14 March to 15 March 2025"),
        (20 * DAY, "15 Mar 17 Mar", "14 March to 3 April 2025"),
        (365 * DAY, "22 Apr 2025 11 Jun 2025", "14 March 2025 to 14 March 2026"),
    ];
    for (span_us, ticks, dates) in table {
        check(MARCH_US, span_us, ticks, &format!("{dates}, UTC"));
    }
}

#[test]
fn past_the_last_year_of_the_calendar_days_are_counted() {
    check(200_000_000 * DAY, 20 * DAY, "200000000 d", "trace time, days");
}

#[test]
fn labels_of_every_span_stay_apart_and_on_the_page() {
    let spans = (2..17).flat_map(|power| [1, 3, 7].map(|n| n * 10_u64.pow(power)));
    for span_us in spans.filter(|span_us| *span_us < 500 * 365 * DAY) {
        for start_us in [0, 58_500_123, 40 * DAY + 7, MARCH_US, MARCH_US + 999_999] {
            let labels = labels(&picture(start_us, span_us, 1), "middle");
            let at = format!("{start_us} {span_us}: {labels:?}");
            assert!((2..=15).contains(&labels.len()), "{at}");
            let half = |text: &str| text.chars().count() as i32 * 3 + 1;
            let inside = |(x, text): &(i32, String)| x + half(text) < 960 && x - half(text) > 0;
            assert!(labels.iter().all(inside), "{at}");
            for pair in labels.windows(2) {
                let space = pair[1].0 - half(&pair[1].1) - pair[0].0 - half(&pair[0].1);
                assert!(space > 8, "{at}");
            }
        }
    }
}

#[test]
fn values_are_round_and_the_highest_is_below_the_last() {
    let table = [
        (0, "0 1"),
        (1, "0 1"),
        (3, "0 1 2 3"),
        (37, "0 10 20 30 40"),
        (201, "0 50 100 150 200 250"),
        (1_400_000, "0 500k 1M 1.5M"),
        (u64::MAX, "0 5E 10E 15E 20E"),
    ];
    for (count, expected) in table {
        assert_eq!(joined(labels(&picture(0, DAY, count), "end")), expected);
    }
}
