//! The group `shaper` of `in-process`: the lateness of items after their slots.
//!
//! A producer keeps the line full, and a receiver reads the clock at each item that it gets. The floors wait for as
//! many moments with the same timers, without any line: their lateness comes from the timer and the system. No item is
//! handed out before its slot, so no error is below zero.

use crate::cores;
use crate::pauses::least_above;
use crate::report;
use serde::Serialize;
use std::hint::spin_loop;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use tidegate::{AlgorithmKind, Clock, Park, Refusal, Shaper, Spec, SystemClock, Timer, Timestamp};
use tokio::runtime::{Builder, Runtime};

/// The name of the group.
pub const GROUP: &str = "shaper";

const HEADINGS: [&str; 5] = ["subject", "items", "late, median us", "p99 us", "most us"];

/// The largest number of items that wait in line.
const CAPACITY: u64 = 100;

/// A number of items, evenly apart.
struct Load {
    name: &'static str,
    per_second: u64,
    items: u64,
    /// True if there is a thread for each core that does nothing but run.
    busy: bool,
}

const LOADS: [Load; 3] = [
    Load { name: "1000 per second", per_second: 1_000, items: 2_000, busy: false },
    Load { name: "10000 per second", per_second: 10_000, items: 20_000, busy: false },
    Load { name: "1000 per second, all cores busy", per_second: 1_000, items: 2_000, busy: true },
];

/// The lateness of each item, in microseconds.
type Measure = fn(&Load) -> Result<Vec<u32>, String>;

const SUBJECTS: [(&str, Measure); 4] = [
    ("tidegate/Shaper, tokio", line_by_tokio),
    ("tidegate/Shaper, thread", line_by_thread),
    ("floor/sleep_until, tokio", moments_by_tokio),
    ("floor/park_until, thread", moments_by_thread),
];

/// One line of `--json`, and one row of a table.
#[derive(Serialize)]
struct Line {
    group: &'static str,
    case: &'static str,
    subject: &'static str,
    items: usize,
    us_median: u32,
    us_p99: u32,
    us_most: u32,
}

/// Measures and prints the `wanted` parts of each load; returns the number of lines.
///
/// # Errors
/// When something cannot be built or printed.
pub fn run(wanted: impl Fn(&str, &str) -> bool, json: bool) -> Result<usize, String> {
    let mut measured = 0;
    for load in &LOADS {
        let subjects = SUBJECTS.iter().filter(|(subject, _)| wanted(load.name, subject));
        let lines: Result<Vec<Line>, String> =
            subjects.map(|(subject, measure)| load.line(subject, *measure)).collect();
        let lines = lines?;
        measured += lines.len();
        print(load, &lines, json).map_err(|problem| format!("cannot print: {problem}"))?;
    }
    Ok(measured)
}

impl Load {
    fn line(&self, subject: &'static str, measure: Measure) -> Result<Line, String> {
        let mut late =
            if self.busy { beside_busy_threads(|| measure(self)) } else { measure(self) }?;
        late.sort_unstable();
        Ok(Line {
            group: GROUP,
            case: self.name,
            subject,
            items: late.len(),
            us_median: least_above(&late, 0.5),
            us_p99: least_above(&late, 0.99),
            us_most: late.last().copied().unwrap_or_default(),
        })
    }

    fn shaper(&self, clock: SystemClock) -> Result<Shaper<(), SystemClock>, String> {
        let mut spec =
            Spec::new(AlgorithmKind::LeakyQueue, self.per_second, Duration::from_secs(1));
        spec.capacity = Some(CAPACITY);
        Shaper::with_clock(spec, clock).map_err(|error| error.to_string())
    }

    /// Moments as far apart as the items.
    fn moments(&self, from: Timestamp) -> impl Iterator<Item = Timestamp> + use<> {
        let every_us = 1_000_000 / self.per_second;
        (1..=self.items).map(move |nth| from.plus(Duration::from_micros(nth * every_us)))
    }
}

fn line_by_tokio(load: &Load) -> Result<Vec<u32>, String> {
    let (clock, runtime) = (SystemClock::new(), runtime()?);
    let shaper = load.shaper(clock.clone())?;
    let line = shaper.clone();
    let receiver = runtime.spawn(async move {
        let mut late = Vec::new();
        while let Some(departure) = line.next_departure().await {
            late.push(since(&clock, departure.slot));
        }
        late
    });
    produce(&shaper, load.items)?;
    runtime.block_on(receiver).map_err(|error| error.to_string())
}

fn line_by_thread(load: &Load) -> Result<Vec<u32>, String> {
    let clock = SystemClock::new();
    let shaper = load.shaper(clock.clone())?;
    let line = shaper.clone();
    let receiver = thread::spawn(move || {
        let slots = std::iter::from_fn(|| line.next_departure_blocking());
        slots.map(|departure| since(&clock, departure.slot)).collect()
    });
    produce(&shaper, load.items)?;
    receiver.join().map_err(|_| "the receiver panicked".to_owned())
}

fn moments_by_tokio(load: &Load) -> Result<Vec<u32>, String> {
    let clock = SystemClock::new();
    let moments = load.moments(clock.now());
    let waits = async move {
        let mut late = Vec::new();
        for at in moments {
            while clock.now() < at {
                clock.sleep_until(at).await;
            }
            late.push(since(&clock, at));
        }
        late
    };
    let runtime = runtime()?;
    runtime.block_on(runtime.spawn(waits)).map_err(|error| error.to_string())
}

fn moments_by_thread(load: &Load) -> Result<Vec<u32>, String> {
    let clock = SystemClock::new();
    let wait = |at| {
        while clock.now() < at {
            clock.park_until(at);
        }
        since(&clock, at)
    };
    Ok(load.moments(clock.now()).map(wait).collect())
}

fn runtime() -> Result<Runtime, String> {
    Builder::new_multi_thread().enable_time().build().map_err(|error| error.to_string())
}

fn since(clock: &SystemClock, slot: Timestamp) -> u32 {
    u32::try_from(clock.now().since(slot).as_micros()).unwrap_or(u32::MAX)
}

/// Keeps the line full until `items` are taken in, then closes it.
fn produce(shaper: &Shaper<(), SystemClock>, items: u64) -> Result<(), String> {
    let mut left = items;
    while left > 0 {
        match shaper.push(()).map_err(|refused| refused.refusal) {
            Ok(_) => left -= 1,
            Err(Refusal::Full { .. } | Refusal::Behind) => thread::sleep(Duration::from_millis(1)),
            Err(refusal) => return Err(refusal.to_string()),
        }
    }
    shaper.close();
    Ok(())
}

/// Does `work` while a thread for each core runs without a pause.
fn beside_busy_threads<T>(work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    let run = || {
        while !done.load(Relaxed) {
            spin_loop();
        }
    };
    thread::scope(|scope| {
        for _ in 0..cores::count() {
            scope.spawn(run);
        }
        let worked = work();
        done.store(true, Relaxed);
        worked
    })
}

fn print(load: &Load, lines: &[Line], json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        return lines.iter().try_for_each(|line| writeln!(out, "{}", serde_json::to_string(line)?));
    }
    if lines.is_empty() {
        return Ok(());
    }
    let rows = lines.iter().map(row);
    let table = report::ruled(HEADINGS.map(str::to_owned).to_vec(), rows);
    writeln!(out, "\n{GROUP}: {}\n{table}", load.name)
}

fn row(line: &Line) -> Vec<String> {
    let values = [line.us_median, line.us_p99, line.us_most].map(|us| us.to_string());
    [line.subject.to_owned(), line.items.to_string()].into_iter().chain(values).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subject_tells_of_every_item() {
        let load = Load { name: "few", per_second: 1_000_000, items: 50, busy: false };
        for (subject, measure) in SUBJECTS {
            assert_eq!(measure(&load).unwrap().len(), 50, "{subject}");
        }
        let busy = Load { busy: true, ..load };
        assert_eq!(busy.line("thread", line_by_thread).unwrap().items, 50);
    }
}
