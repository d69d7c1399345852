//! The command `stalls`: the time that the machine itself takes away from any subject.
//!
//! On each core a thread does nothing but read the clock. Where two readings lie far apart, something else had the core
//! in between: another process, the system, or the host of a virtual machine, which the system counts by itself.

use crate::cores;
use crate::host;
use crate::report;
use clap::Args;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

/// Gaps of this length between readings are reported; a reading takes less than a microsecond.
const APART: Duration = Duration::from_micros(100);
/// Longer gaps are also reported by themselves, because a few of them make up most of the missing time.
const LONG: Duration = Duration::from_millis(1);
const HEADINGS: [&str; 8] = [
    "core",
    "seconds",
    "stalls of 100 us",
    "in all, us",
    "stalls of 1 ms",
    "in all, us",
    "longest, us",
    "stolen, us",
];

/// The options of this command.
#[derive(Args)]
pub struct Stalls {
    /// The time for which each core is watched, all at the same time.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
}

/// A core, and the time that was missing on it.
type Watched = (usize, Missing);

/// The time that was missing on a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Missing {
    stalls: u32,
    all: Duration,
    long_stalls: u32,
    all_long: Duration,
    longest: Duration,
}

/// Measures and prints.
///
/// # Errors
/// When a core cannot be watched.
pub fn run(wanted: &Stalls) -> Result<(), String> {
    let length = Duration::from_secs(wanted.seconds);
    let before = host::stolen_of_each()?;
    let cores = (0..cores::count()).map(|core| thread::spawn(move || watch(core, length)));
    let cores: Vec<_> = cores.collect();
    let watched: Vec<_> = cores.into_iter().map(|core| core.join().ok().flatten()).collect();
    let after = host::stolen_of_each()?;
    let mut rows = Vec::new();
    for watched in watched {
        let (core, missing) = watched.ok_or("a core cannot be watched by itself")?;
        let until = |moment: &BTreeMap<_, _>| moment.get(&core).copied().unwrap_or_default();
        let stolen = until(&after).saturating_sub(until(&before));
        let row = [core as u128, wanted.seconds.into()].into_iter().chain(missing.values());
        rows.push(row.chain([stolen.as_micros()]).map(|value| value.to_string()).collect());
    }
    println!("\n{}", report::ruled(HEADINGS.map(str::to_owned).to_vec(), rows));
    Ok(())
}

impl Missing {
    /// In the order of the headings.
    const fn values(self) -> [u128; 5] {
        let Self { stalls, all, long_stalls, all_long, longest } = self;
        let (all, all_long) = (all.as_micros(), all_long.as_micros());
        [stalls as u128, all, long_stalls as u128, all_long, longest.as_micros()]
    }
}

/// Nothing where the thread cannot be kept on that core: two on one would take each other's time.
fn watch(number: usize, length: Duration) -> Option<Watched> {
    let core = cores::stay_on(number)?;
    Some((core, missing(Instant::now(), length, Instant::now)))
}

/// The time that is missing between readings, up to the first reading `length` or more after the beginning.
fn missing(begins: Instant, length: Duration, mut read: impl FnMut() -> Instant) -> Missing {
    let mut missing = Missing::default();
    let mut last = begins;
    while last.duration_since(begins) < length {
        let now = read();
        let passed = now.duration_since(last);
        last = now;
        if passed >= APART {
            missing.stalls += 1;
            missing.all += passed;
            missing.longest = missing.longest.max(passed);
        }
        if passed >= LONG {
            missing.long_stalls += 1;
            missing.all_long += passed;
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_far_apart_are_reported_also_the_last() {
        let begins = Instant::now();
        let mut at = [1, 2, 102, 150, 1_150, 1_151, 1_451, 1_452].into_iter();
        let read = || begins + Duration::from_micros(at.next().unwrap());
        let answer = missing(begins, Duration::from_micros(1_400), read);
        let (all, longest) = (Duration::from_micros(1_400), Duration::from_millis(1));
        let (stalls, long_stalls, all_long) = (3, 1, longest);
        assert_eq!(answer, Missing { stalls, all, long_stalls, all_long, longest });
        assert_eq!(at.len(), 1, "it ends where it is to");
    }
}
