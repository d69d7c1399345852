//! Each variant is watched by its own window and compared with its own bound.

use tidegate::{AlgorithmKind, Limit, OverrideSpec, Policy, RuleSpec, Spec};

use super::super::{Report, table};
use super::*;
use crate::replay::Replay;

const SECOND_US: u64 = 1_000_000;

/// `limit` units per `seconds` for each key.
fn per_key(limit: u64, seconds: u64) -> RuleSpec {
    let spec = Spec::new(AlgorithmKind::SlidingLog, limit, Duration::from_secs(seconds));
    RuleSpec::new("r", spec).key(["key"])
}

fn other(key: &str, limit: u64, seconds: u64) -> OverrideSpec {
    let mut other = OverrideSpec::new("key", key);
    other.limit = Some(Limit::Units(limit));
    other.window = Some(Duration::from_secs(seconds));
    other
}

/// The report of requests of cost 1 at these times by these keys, in `worst_bytes` of memory.
fn report_of<'k>(
    rule: RuleSpec,
    requests: impl IntoIterator<Item = (u64, &'k str)>,
    worst_bytes: usize,
) -> Report {
    let replay = Replay::new(Policy::new(vec![rule]).unwrap());
    let mut report = Report::within(&replay.policy(), ReportMemory { names: 10, worst_bytes });
    for (at_us, key) in requests {
        let event = Event::of_one(at_us, "default", vec![("key", key)]);
        report.record(&event, &replay.decide(&event));
    }
    report
}

/// A hundred requests per second for a minute, by `key` alone.
fn a_minute_of(key: &str) -> impl Iterator<Item = (u64, &str)> {
    (0..6_000).map(move |n| (n * SECOND_US / 100, key))
}

/// For each variant that decided: its override, the requests it refused and decided, its fullest
/// window and bound.
fn lines_of(report: &Report) -> Vec<String> {
    let of = |v: &VariantReport| {
        let bound = v.bound().map_or("none".to_owned(), grouped);
        let matched = v.matched().unwrap_or("own");
        format!("{matched}: refused {}/{}, fullest {}/{bound}", v.refused, v.asked, v.fullest())
    };
    report.rules[0].variants().map(of).collect()
}

#[test]
fn a_longer_window_of_an_override_does_not_lengthen_that_of_the_rule() {
    let rule = per_key(10, 1).with_override(other("slow", 5, 60));
    let alone = report_of(rule.clone(), a_minute_of("quick"), 1 << 20);
    assert_eq!(lines_of(&alone), ["own: refused 5400/6000, fullest 10/10"]);

    let both = a_minute_of("quick").zip(a_minute_of("slow")).flat_map(|(a, b)| [a, b]);
    let both = report_of(rule, both, 1 << 20);
    let of_slow = "key=slow: refused 5995/6000, fullest 5/5";
    assert_eq!(lines_of(&both), ["own: refused 5400/6000, fullest 10/10", of_slow]);
    assert_eq!((both.rules[0].asked, both.rules[0].refused), (12_000, 11_395));
}

#[test]
fn a_shorter_window_of_an_override_is_not_measured_by_that_of_the_rule() {
    let rule = per_key(5, 60).with_override(other("quick", 10, 1));
    let report = report_of(rule, a_minute_of("quick"), 1 << 20);
    let of_quick = "key=quick: refused 5400/6000, fullest 10/10";
    assert_eq!(lines_of(&report), ["own: refused 0/0, fullest 0/5", of_quick]);
}

#[test]
fn only_overrides_that_applied_are_listed_and_in_their_order() {
    let rule = ["a", "b", "c"].into_iter().zip(1..);
    let rule =
        rule.fold(per_key(9, 1), |rule, (key, limit)| rule.with_override(other(key, limit, 1)));
    let report = report_of(rule, [(5, "c"), (6, "d"), (7, "a")], 1 << 20);
    let matched: Vec<_> = report.rules[0].variants().map(VariantReport::matched).collect();
    assert_eq!(matched, [None, Some("key=a"), Some("key=c")]);
}

#[test]
fn what_is_unlimited_counts_nothing_and_has_no_bound_whatever_its_overrides_have() {
    let mut rule = per_key(1, 1).with_override(other("slow", 5, 60));
    (rule.spec.limit, rule.spec.window) = (Limit::Unlimited, None);
    let report = report_of(rule, [(5, "quick"), (5, "quick"), (5, "slow")], 1 << 20);
    let of_slow = "key=slow: refused 0/1, fullest 1/5";
    assert_eq!(lines_of(&report), ["own: refused 0/0, fullest 0/none", of_slow]);
    let text = table(&report, None);
    assert!(!text.contains("Fullest window of r:"), "{text}");
    assert!(text.contains("Fullest window of r with key=slow: 1 unit"), "{text}");
}

#[test]
fn a_limit_of_nothing_has_a_fullest_window_of_nothing() {
    let mut rule = per_key(1, 1);
    (rule.spec.limit, rule.spec.window) = (Limit::Units(0), None);
    let report = report_of(rule, [(5, "a")], 1 << 20);
    assert_eq!(lines_of(&report), ["own: refused 1/1, fullest 0/0"]);
}

#[test]
fn one_budget_is_shared_and_whoever_comes_late_still_has_space() {
    const BYTES: usize = 64 << 10;
    let names: Vec<_> = (0..5_000).map(|n| n.to_string()).collect();
    let flood = names.iter().zip(0..).map(|(name, at_us)| (at_us, name.as_str()));
    let late = (10_000..10_100).map(|at_us| (at_us, "late"));
    let rule = per_key(10, 60).with_override(other("late", 100, 60));
    let report = report_of(rule, flood.chain(late), BYTES);
    let fullest: Vec<_> = report.rules[0].variants().map(VariantReport::fullest).collect();
    assert_eq!(fullest, ["at least 1", "100"]);
    let held: usize = report.rules[0].variants().map(|variant| variant.worst.bytes()).sum();
    assert!(held > BYTES / 3 && held <= BYTES, "{held}");
}

#[test]
fn a_lane_notes_the_window_that_came_nearest_to_its_bound() {
    let rule = per_key(10, 1).with_override(other("slow", 5, 60));
    let lane = |requests: Vec<(u64, &str)>| {
        let mut report = report_of(rule.clone(), [], 1 << 20).drawn(Bins::cover(0, 9, 3));
        let of = report_of(rule.clone(), requests, 1 << 20);
        report.rules[0].own = of.rules[0].own.clone();
        report.rules[0].others = of.rules[0].others.clone();
        report.rules[0].lane().unwrap().note
    };
    let note = lane(vec![(1, "a"), (1, "a"), (1, "slow")]);
    assert!(note.ends_with("; fullest window 2 of at most 10"), "{note}");
    let note = lane(vec![(1, "a"), (1, "a"), (1, "slow"), (1, "slow")]);
    assert!(note.ends_with("; fullest window 2 of at most 5 for key=slow"), "{note}");
}
