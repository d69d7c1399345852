//! The group `shaper` of `in-process`: the lateness of items after their slots.
//!
//! A producer keeps the line full, and a receiver reads the clock at each item that it gets. The floors wait for as
//! many moments with the same timers, without any line: their lateness comes from the timer and the system. No item is
//! handed out before its slot, so no error is below zero.

use crate::cores;
use crate::harness::{Case, Entry, Sample, least_above};
use crate::table::{Column, median_of};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use tidegate::{AlgorithmKind, Clock, Park, Refusal, Shaper, Spec, SystemClock, Timer, Timestamp};
use tokio::runtime::{Builder, Runtime};

const COLUMNS: &[Column] = &[
    median_of("items", "items", 0),
    median_of("us_median", "late, median us", 0),
    median_of("us_p99", "p99 us", 0),
    median_of("us_most", "most us", 0),
];

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

static LOADS: [Load; 3] = [
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

/// The lateness of each subject under each load.
pub fn cases() -> impl Iterator<Item = Case> {
    LOADS.iter().map(|load| {
        let subjects =
            SUBJECTS.iter().map(|(name, measure)| Entry::each(*name, |_| load.lateness(*measure)));
        Case::once(format!("shaper/{}", load.name), COLUMNS, subjects.collect())
    })
}

impl Load {
    fn lateness(&self, measure: Measure) -> Result<Sample, String> {
        let mut late =
            if self.busy { next_to_busy_threads(|| measure(self)) } else { measure(self) }?;
        late.sort_unstable();
        Ok(vec![
            ("items", late.len() as f64),
            ("us_median", least_above(&late, 0.5)),
            ("us_p99", least_above(&late, 0.99)),
            ("us_most", least_above(&late, 1.0)),
        ])
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
fn next_to_busy_threads<T>(work: impl FnOnce() -> T) -> T {
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
        assert_eq!(busy.lateness(line_by_thread).unwrap()[0], ("items", 50.0));
    }
}
