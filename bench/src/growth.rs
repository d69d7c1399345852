//! Fills a table key by key, and measures the heap on the way.

use crate::cases::{Case, ON_THE_WAY, Shape};
use crate::heap;
use crate::pace::Pace;
use crate::report;
use crate::subjects::{self, Candidate, Subject};
use crate::workload::Ask;

/// Keys filled in per call.
const CHUNK: u64 = 1_000;
/// The number of looks at the heap until the last key is in.
const LOOKS: u64 = 100;
/// The looks that the command shows, by the number of the key.
const SHOWN: [u64; 5] = [10_000, 100_000, 250_000, 500_000, 1_000_000];

/// The heap when this many keys were in.
#[derive(Clone, Copy)]
struct Look {
    keys: u64,
    bytes: i64,
}

impl Look {
    fn bytes_per_key(self) -> f64 {
        self.bytes as f64 / self.keys as f64
    }
}

/// Builds a candidate and asks each key of the case once, so that the timing meets known keys only; returns its bytes
/// per key, at the end or their maximum on the way, as the case wants.
pub fn filled(candidate: &Candidate, case: &Case) -> (Box<dyn Subject>, f64) {
    let (subject, looks) = watched(candidate, case.keys);
    let mut per_key = looks.iter().map(|look| look.bytes_per_key());
    let bytes = match case.shape {
        Shape::TableOnTheWay => per_key.fold(0.0, f64::max),
        _ => per_key.next_back().unwrap_or_default(),
    };
    (subject, bytes)
}

/// Prints bytes per key at some points on the way, and their maximum.
///
/// # Errors
/// None; it answers as every command does.
pub fn run() -> Result<(), String> {
    let candidates = subjects::offers(&ON_THE_WAY);
    let rows = candidates.iter().map(|candidate| {
        let (_, looks) = watched(candidate, ON_THE_WAY.keys);
        let most = looks.iter().map(|look| look.bytes_per_key()).fold(0.0, f64::max);
        let shown = looks.iter().filter(|look| SHOWN.contains(&look.keys));
        let values = shown.map(|look| look.bytes_per_key()).chain([most]);
        let values = values.map(|bytes| format!("{bytes:.1}"));
        std::iter::once(candidate.name.to_owned()).chain(values).collect()
    });
    let headings = ["bytes per key at".to_owned()].into_iter();
    let headings = headings.chain(SHOWN.map(|keys| format!("{keys} keys")));
    let table = report::ruled(headings.chain(["most".to_owned()]).collect(), rows);
    println!("\n{table}");
    Ok(())
}

/// A candidate, filled, with a look at the heap after each hundredth of the keys.
fn watched(candidate: &Candidate, keys: u64) -> (Box<dyn Subject>, Vec<Look>) {
    let mut looks = Vec::with_capacity(LOOKS as usize + 1);
    let (subject, _) = heap::grown_by(|| {
        let subject = candidate.build();
        let stretch = keys.div_ceil(LOOKS);
        for from in (0..keys).step_by(stretch as usize) {
            let until = keys.min(from + stretch);
            fill(&*subject, from, until);
            looks.push(Look { keys: until, bytes: heap::growth() });
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
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// Adds up the numbers of the keys it is asked for.
    #[derive(Default)]
    struct Sum(AtomicU64);

    impl Subject for Sum {
        fn decide(&self, ask: &Ask) -> bool {
            self.0.fetch_add(ask.number, Relaxed);
            true
        }
    }

    #[test]
    fn filling_asks_each_key_once() {
        let sum = Sum::default();
        fill(&sum, 100, 2_600);
        assert_eq!(sum.0.load(Relaxed), (100..2_600).sum::<u64>());
    }

    #[test]
    fn the_points_that_are_shown_are_looked_at() {
        let stretch = ON_THE_WAY.keys / LOOKS;
        assert!(SHOWN.iter().all(|keys| keys % stretch == 0 && *keys <= ON_THE_WAY.keys));
    }
}
