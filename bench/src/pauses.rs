//! The command `pauses`: the longest time of a single decision while a table grows.
//!
//! Each of a million new keys is asked once, and each decision is timed by itself. The wall time includes interruptions
//! by the system, which come at random. So the longest decision is also reported in CPU time of the thread, which goes
//! on in a page fault and stands still while another process runs. The table's own work comes again in each round, so
//! the smallest of the rounds' longest decisions describes it best.

use crate::cases::MILLION;
use crate::clock::Reading;
use crate::measure::median;
use crate::report;
use crate::subjects::{self, Candidate};
use crate::workload::Ask;
use clap::Args;
use std::hint::black_box;
use std::time::Duration;

/// The tables that are watched while they grow; the flat array does not grow, so its pauses are the system's.
const SUBJECTS: [&str; 4] =
    ["floor/flat array", "tidegate/token_bucket", "tidegate/sliding_window", "governor/String"];
const HEADINGS: [&str; 6] = [
    "ns per decision",
    "median",
    "p99.9",
    "longest, wall, least round",
    "longest, CPU, median round",
    "longest, CPU, least round",
];

/// The options of this command.
#[derive(Args)]
pub struct Pauses {
    /// Times that each table is filled again.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// The time to fill a table once, in nanoseconds per decision.
#[derive(Clone, Copy)]
struct Filling {
    median: u32,
    p99_9: u32,
    longest: u32,
    longest_cpu: u32,
}

/// Measures and prints.
///
/// # Errors
/// None; it answers as every command does.
pub fn run(wanted: &Pauses) -> Result<(), String> {
    let mut candidates = subjects::offers(&MILLION);
    candidates.retain(|candidate| SUBJECTS.contains(&candidate.name));
    let asks: Vec<Ask> = (0..MILLION.keys).map(Ask::of).collect();
    let mut times = vec![0; asks.len()];
    let mut fillings = vec![Vec::new(); candidates.len()];
    for _ in 0..wanted.rounds {
        for (candidate, fillings) in candidates.iter().zip(&mut fillings) {
            fillings.push(filling(candidate, &asks, &mut times));
        }
    }
    let rows = candidates.iter().zip(&fillings).map(|(one, fillings)| row(one.name, fillings));
    println!("\n{}", report::ruled(HEADINGS.map(str::to_owned).to_vec(), rows));
    Ok(())
}

fn filling(candidate: &Candidate, asks: &[Ask], times: &mut [u32]) -> Filling {
    let subject = candidate.build();
    let mut longest_cpu = 0;
    for (ask, time) in asks.iter().zip(times.iter_mut()) {
        let began = Reading::now();
        black_box(subject.decide(black_box(ask)));
        let span = began.until_now();
        *time = nanos(span.wall());
        longest_cpu = longest_cpu.max(nanos(span.cpu));
    }
    times.sort_unstable();
    Filling {
        median: least_above(times, 0.5),
        p99_9: least_above(times, 0.999),
        longest: times.last().copied().unwrap_or_default(),
        longest_cpu,
    }
}

fn nanos(time: Duration) -> u32 {
    u32::try_from(time.as_nanos()).unwrap_or(u32::MAX)
}

/// The least of the sorted times that is not below a share of them.
pub fn least_above(times: &[u32], share: f64) -> u32 {
    let place = (times.len() as f64 * share) as usize;
    times.get(place.min(times.len() - 1)).copied().unwrap_or_default()
}

fn row(name: &str, fillings: &[Filling]) -> Vec<String> {
    let sorted = |value: fn(&Filling) -> u32| {
        let mut values: Vec<f64> = fillings.iter().map(|one| value(one).into()).collect();
        values.sort_unstable_by(f64::total_cmp);
        values
    };
    let longest_cpu = sorted(|one| one.longest_cpu);
    let least = |sorted: &[f64]| sorted.first().copied().unwrap_or(f64::NAN);
    let values = [
        median(&sorted(|one| one.median)),
        median(&sorted(|one| one.p99_9)),
        least(&sorted(|one| one.longest)),
        median(&longest_cpu),
        least(&longest_cpu),
    ];
    let values = values.iter().map(|value| format!("{value:.0}"));
    std::iter::once(name.to_owned()).chain(values).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_taken_of_the_sorted_times() {
        let times: Vec<u32> = (0..1_000).collect();
        assert_eq!(least_above(&times, 0.5), 500);
        assert_eq!(least_above(&times, 0.999), 999);
        assert_eq!(least_above(&[7], 0.999_99), 7);
    }

    #[test]
    fn everyone_who_is_watched_exists() {
        let offered = subjects::offers(&MILLION);
        let known = |name: &str| offered.iter().any(|candidate| candidate.name == name);
        assert!(SUBJECTS.into_iter().all(known));
    }
}
