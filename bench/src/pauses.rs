//! The command `pauses`: the longest time of a single decision while a table grows.
//!
//! Each of a million new keys is asked once, and each decision is timed by itself. The wall time includes interruptions
//! by the system, which come at random. So the longest decision is also reported in CPU time of the thread, which goes
//! on in a page fault and stands still while another process runs. The table's own work comes again in each round, so
//! the smallest of the rounds' longest decisions describes it best.

use crate::cases::MILLION;
use crate::clock::Reading;
use crate::harness::{Case, Entry, Options, Sample, least_above};
use crate::subjects::{self, Candidate};
use crate::table::{Column, least_of, median_of};
use crate::workload::Ask;
use std::hint::black_box;
use std::rc::Rc;
use std::time::Duration;

/// The tables that are watched while they grow; the flat array does not grow, so its pauses are the system's.
const SUBJECTS: [&str; 4] =
    ["floor/flat array", "tidegate/token_bucket", "tidegate/sliding_window", "governor/String"];
const COLUMNS: &[Column] = &[
    median_of("ns_median", "median", 0),
    median_of("ns_p99_9", "p99.9", 0),
    least_of("ns_longest", "longest, wall, least round", 0),
    median_of("ns_longest_cpu", "longest, CPU, median round", 0),
    least_of("ns_longest_cpu", "longest, CPU, least round", 0),
];

/// The tables that grow.
pub fn cases(_: &Options) -> Vec<Case> {
    let mut candidates = subjects::offers(&MILLION);
    candidates.retain(|candidate| SUBJECTS.contains(&candidate.name));
    let asks: Rc<[Ask]> = (0..MILLION.keys).map(Ask::of).collect();
    let subjects = candidates.into_iter().map(|candidate| {
        let asks = Rc::clone(&asks);
        Entry::each(candidate.name, move |_| Ok(filling(&candidate, &asks)))
    });
    let case = Case::once("ns per decision", COLUMNS, subjects.collect());
    vec![Case { rounds: 9, ..case }]
}

/// Fills a table once.
fn filling(candidate: &Candidate, asks: &[Ask]) -> Sample {
    let subject = candidate.build();
    let mut longest_cpu = 0;
    let mut times = vec![0; asks.len()];
    for (ask, time) in asks.iter().zip(&mut times) {
        let began = Reading::now();
        black_box(subject.decide(black_box(ask)));
        let span = began.until_now();
        *time = nanos(span.wall());
        longest_cpu = longest_cpu.max(nanos(span.cpu));
    }
    times.sort_unstable();
    vec![
        ("ns_median", least_above(&times, 0.5)),
        ("ns_p99_9", least_above(&times, 0.999)),
        ("ns_longest", least_above(&times, 1.0)),
        ("ns_longest_cpu", longest_cpu.into()),
    ]
}

fn nanos(time: Duration) -> u32 {
    u32::try_from(time.as_nanos()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_who_is_watched_exists() {
        let offered = subjects::offers(&MILLION);
        let known = |name: &str| offered.iter().any(|candidate| candidate.name == name);
        assert!(SUBJECTS.into_iter().all(known));
    }

    #[test]
    fn the_longest_is_the_last_of_the_sorted_times() {
        let candidate = subjects::offers(&MILLION).remove(0);
        let asks: Vec<Ask> = (0..100).map(Ask::of).collect();
        let values = filling(&candidate, &asks);
        assert!(values[0].1 <= values[1].1 && values[1].1 <= values[2].1, "{values:?}");
    }
}
