//! The results of a load: waits, degraded answers, and units admitted over a limit.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate::AlgorithmKind;
use tokio::time::Instant;

use super::load::{algorithm_of, asked, limit};

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    pub key: u64,
    pub began: Instant,
    pub wait: Duration,
    pub outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Admitted,
    Refused,
    /// Decided without the store; every rule of a load refuses then.
    Degraded,
}

/// The values of one run.
#[derive(Debug)]
pub struct OwnValues {
    pub requests: usize,
    pub degraded: usize,
    /// Units admitted over the limit of their key.
    pub over: u64,
    /// The number of such keys.
    pub keys_over: usize,
    /// The largest excess of one key, in units.
    pub most_over: u64,
    /// The number of keys that were asked for.
    pub keys: usize,
    /// Keys whose requests the store answered, all of them.
    pub whole: usize,
    /// Units that keys lack although the store answered every request for them.
    pub short: u64,
    /// The time from the end of the fault to the end of the first exact answer to a later request.
    pub exact_after: Duration,
    waits: Vec<Duration>,
}

/// Returns the maximum units that a key admits: a queue serves one more than it has places for.
fn most(key: AlgorithmKind) -> u64 {
    if matches!(key, AlgorithmKind::LeakyQueue) { limit() + 1 } else { limit() }
}

impl OwnValues {
    /// Computes the values of a run whose fault ended at `lifted`.
    pub fn of(records: &[Record], lifted: Instant) -> Self {
        let mut waits: Vec<_> = records.iter().map(|record| record.wait).collect();
        waits.sort_unstable();
        let exact = records.iter().filter(|record| record.outcome != Outcome::Degraded);
        let after = exact.clone().filter(|record| record.began >= lifted);
        let first = after.map(|record| record.began + record.wait).min();
        let mut keys = BTreeMap::<u64, (u64, u64)>::new();
        for record in exact.clone() {
            let (times, admitted) = keys.entry(record.key).or_default();
            *times += 1;
            *admitted += u64::from(record.outcome == Outcome::Admitted);
        }
        let over = |(key, (_, admitted)): (&u64, &(u64, u64))| {
            admitted.saturating_sub(most(algorithm_of(*key)))
        };
        let short = |(key, (times, admitted)): (&u64, &(u64, u64))| {
            if *times < asked() { 0 } else { most(algorithm_of(*key)).saturating_sub(*admitted) }
        };
        Self {
            requests: records.len(),
            degraded: records.len() - exact.count(),
            over: keys.iter().map(over).sum(),
            keys_over: keys.iter().map(over).filter(|over| *over > 0).count(),
            most_over: keys.iter().map(over).max().unwrap_or_default(),
            keys: keys.len(),
            whole: keys.values().filter(|(times, _)| *times >= asked()).count(),
            short: keys.iter().map(short).sum(),
            exact_after: first.expect("it was exact again") - lifted,
            waits,
        }
    }

    /// Returns the wait that a `share` of all waits does not exceed, in milliseconds.
    fn wait_ms(&self, share: f64) -> f64 {
        let place = (self.waits.len() as f64 * share) as usize;
        1_000.0 * self.waits[place.min(self.waits.len() - 1)].as_secs_f64()
    }

    /// Prints the values as a row of a table.
    pub fn tell(&self, fault: &str) {
        let [median, p99, p99_9, longest] = [0.5, 0.99, 0.999, 1.0].map(|at| self.wait_ms(at));
        let share = 100.0 * self.degraded as f64 / self.requests as f64;
        println!(
            "\n| {fault} | {} | {share:.1} % | {median:.1} | {p99:.1} | {p99_9:.1} | {longest:.1} \
             | {} | {} |",
            self.requests,
            self.over,
            self.exact_after.as_millis(),
        );
    }
}
