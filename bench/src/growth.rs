//! The command `growth`: fills a table key by key, and measures the heap on the way.

use crate::cases::TABLE;
use crate::harness::{Case, Entry, Options, Sample};
use crate::heap;
use crate::pace::Pace;
use crate::subjects::{self, Candidate, Subject};
use crate::table::{Column, median_of};
use crate::workload::Ask;

/// Keys filled in per call.
const CHUNK: u64 = 1_000;
/// The number of looks at the heap until the last key is in.
const LOOKS: u64 = 100;
/// The looks that are shown, by the number of the key.
const SHOWN: [(u64, &str); 5] = [
    (10_000, "at_10000"),
    (100_000, "at_100000"),
    (250_000, "at_250000"),
    (500_000, "at_500000"),
    (1_000_000, "at_1000000"),
];
const COLUMNS: &[Column] = &[
    median_of("at_10000", "10000 keys", 1),
    median_of("at_100000", "100000 keys", 1),
    median_of("at_250000", "250000 keys", 1),
    median_of("at_500000", "500000 keys", 1),
    median_of("at_1000000", "1000000 keys", 1),
    median_of("most", "most", 1),
];

/// Bytes per key at some points on the way, and their maximum.
pub fn cases(_: &Options) -> Vec<Case> {
    let subjects = subjects::offers(&TABLE)
        .into_iter()
        .map(|candidate| Entry::each(candidate.name, move |_| Ok(looks(&candidate))));
    vec![Case::once(TABLE.name, COLUMNS, subjects.collect())]
}

fn looks(candidate: &Candidate) -> Sample {
    let (_, looks) = watched(candidate, TABLE.keys);
    let shown = looks.iter().filter_map(|(keys, bytes)| {
        let (_, name) = SHOWN.iter().find(|(shown, _)| shown == keys)?;
        Some((*name, *bytes))
    });
    let most = looks.iter().map(|(_, bytes)| *bytes).fold(0.0, f64::max);
    shown.chain([("most", most)]).collect()
}

/// Builds a candidate and asks each key once, so that a timing meets known keys only; returns its bytes per key as well.
pub fn filled(candidate: &Candidate, keys: u64) -> (Box<dyn Subject>, f64) {
    let (subject, looks) = watched(candidate, keys);
    (subject, looks.last().map_or(0.0, |(_, bytes)| *bytes))
}

/// A candidate, filled, with the bytes per key after each hundredth of the keys.
fn watched(candidate: &Candidate, keys: u64) -> (Box<dyn Subject>, Vec<(u64, f64)>) {
    let mut looks = Vec::with_capacity(LOOKS as usize + 1);
    let (subject, _) = heap::grown_by(|| {
        let subject = candidate.build();
        let stretch = keys.div_ceil(LOOKS);
        for from in (0..keys).step_by(stretch as usize) {
            let until = keys.min(from + stretch);
            fill(&*subject, from, until);
            looks.push((until, heap::growth() as f64 / until as f64));
        }
        subject
    });
    (subject, looks)
}

/// Asks each key from `from` to before `until` once.
fn fill(subject: &dyn Subject, from: u64, until: u64) {
    for from in (from..until).step_by(CHUNK as usize) {
        let asks: Vec<Ask> = (from..until.min(from + CHUNK)).map(Ask::of).collect();
        subject.run(&asks, Pace::Overlapping);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn filling_asks_each_key_once() {
        let sum = AtomicU64::default();
        fill(&sum, 100, 2_600);
        assert_eq!(sum.into_inner(), (100..2_600).sum::<u64>());
    }

    #[test]
    fn the_points_that_are_shown_are_looked_at() {
        let stretch = TABLE.keys / LOOKS;
        assert!(SHOWN.iter().all(|(keys, _)| keys % stretch == 0 && *keys <= TABLE.keys));
    }
}
