//! The command `stalls`: what the machine itself takes away, whoever is measured.
//!
//! On each core a thread does nothing but read the clock. Where two readings lie far apart, something else had the core
//! meanwhile: another process, the system, or, unseen by it, the host of a virtual machine.

use crate::cores;
use crate::report;
use clap::Args;
use std::thread;
use std::time::{Duration, Instant};

/// Readings that lie this far apart are told; one by itself takes less than a microsecond.
const APART: Duration = Duration::from_micros(100);
const HEADINGS: [&str; 5] = ["core", "seconds", "stalls of 100 us", "missing, us", "longest, us"];

/// What is wanted of it.
#[derive(Args)]
pub struct Stalls {
    /// How long each core is watched, all at the same time.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
}

/// What was missing on a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Missing {
    stalls: u32,
    all: Duration,
    longest: Duration,
}

/// Measures and prints.
///
/// # Errors
/// When a core can not be watched.
pub fn run(wanted: &Stalls) -> Result<(), String> {
    let length = Duration::from_secs(wanted.seconds);
    let cores = (0..cores::count()).map(|core| thread::spawn(move || watch(core, length)));
    let cores: Vec<_> = cores.collect();
    let mut rows = Vec::new();
    for (core, watched) in cores.into_iter().enumerate() {
        let missing = watched.join().map_err(|_| format!("core {core} could not be watched"))?;
        let Missing { stalls, all, longest } = missing;
        let figures = [stalls.into(), all.as_micros(), longest.as_micros()];
        let row = [core.to_string(), wanted.seconds.to_string()];
        rows.push(row.into_iter().chain(figures.map(|figure| figure.to_string())).collect());
    }
    println!("\n{}", report::ruled(HEADINGS.map(str::to_owned).to_vec(), rows));
    Ok(())
}

fn watch(core: usize, length: Duration) -> Missing {
    cores::stay_on(core);
    let begins = Instant::now();
    let readings = std::iter::repeat_with(Instant::now);
    missing(begins, readings.take_while(|now| now.duration_since(begins) < length))
}

fn missing(begins: Instant, readings: impl Iterator<Item = Instant>) -> Missing {
    let mut missing = Missing::default();
    let mut last = begins;
    for now in readings {
        let passed = now.duration_since(last);
        if passed >= APART {
            missing.stalls += 1;
            missing.all += passed;
            missing.longest = missing.longest.max(passed);
        }
        last = now;
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_far_apart_are_told() {
        let begins = Instant::now();
        let at = [1, 2, 102, 150, 450, 451].map(|us| begins + Duration::from_micros(us));
        let (all, longest) = (Duration::from_micros(400), Duration::from_micros(300));
        assert_eq!(missing(begins, at.into_iter()), Missing { stalls: 2, all, longest });
    }
}
