//! The keys that were refused most and asked most, of a sample of the decisions of the last minute or two, for `GET /v1/top`.

use std::cell::Cell;
use std::cmp::Reverse;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use tidegate::{Answer, Clock, Observer, Request, SystemClock, Timestamp};
use tidegate_lab::space_saving::SpaceSaving;

use super::key_label::{KeyLabel, fingerprint};

/// One in this many decisions is sampled, on average.
pub(crate) const ONE_IN: u32 = 16;
/// The length of a period, in microseconds; the counts cover this period and the previous period.
const PERIOD_US: u64 = 60_000_000;

/// The decisions of a key that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TopKeysBy {
    /// Denied by the rule, also in shadow mode.
    Refused,
    /// Decided by the rule.
    Requests,
}

/// An observer that counts the keys of rules that have a `key`. It never waits: a decision that would have to is not
/// in the sample.
#[derive(Debug)]
pub(crate) struct TopKeys {
    clock: SystemClock,
    periods: Mutex<Periods>,
}

/// The period that is counted, and the period before it.
#[derive(Debug)]
struct Periods {
    began: Timestamp,
    before_began: Timestamp,
    current: KeyCounts,
    before: KeyCounts,
}

/// The counts of one period, for either order.
#[derive(Debug)]
struct KeyCounts {
    refused: SpaceSaving<u64, KeyLabel>,
    requests: SpaceSaving<u64, KeyLabel>,
}

/// A key with its count in the sample.
#[derive(Debug, Serialize)]
pub(crate) struct Top {
    #[serde(flatten)]
    pub(crate) label: KeyLabel,
    /// Never too low.
    count: u64,
    /// Too high by at most this.
    error: u64,
}

impl TopKeys {
    /// Counts up to `capacity` keys at a time, of each kind and in each period.
    pub(super) fn new(capacity: usize) -> Self {
        let clock = SystemClock::new();
        let now = clock.now();
        let [current, before] = [(); 2].map(|()| KeyCounts {
            refused: SpaceSaving::new(capacity),
            requests: SpaceSaving::new(capacity),
        });
        let periods = Periods { began: now, before_began: now, current, before };
        Self { clock, periods: Mutex::new(periods) }
    }

    /// The first `n` keys that `is_wanted`, by count, and since when they are counted.
    pub(crate) fn top(
        &self,
        by: TopKeysBy,
        n: usize,
        is_wanted: impl Fn(&KeyLabel) -> bool,
    ) -> (Timestamp, Vec<Top>) {
        let mut periods = self.periods.lock().unwrap_or_else(PoisonError::into_inner);
        periods.turn(self.clock.now());
        let current = periods.current.by(by);
        let before = periods.before.by(by);
        // A key of both periods is listed once.
        let only_before = before.counters().filter(|counter| current.get(counter.key).is_none());
        let mut all = Vec::new();
        for counter in current.counters().chain(only_before) {
            if is_wanted(&counter.label) {
                let (count_now, error_now) = count_of(current, counter.key);
                let (count_before, error_before) = count_of(before, counter.key);
                all.push((count_now + count_before, error_now + error_before, counter));
            }
        }
        // First by what is certain: a count may be too high by its error, which is never more than the count.
        all.sort_by_key(|(count, error, _)| (Reverse(count - error), Reverse(*count)));
        all.truncate(n);
        // Only these labels are copied, which are texts.
        let top = all.into_iter().map(|(count, error, counter)| Top {
            label: counter.label.clone(),
            count,
            error,
        });
        (periods.before_began, top.collect())
    }

    /// Counts the keys of one decision.
    #[cold]
    fn sample(&self, request: &Request<'_>, answer: &Answer<'_>) {
        // A sample may miss a decision; a thread that decides must not wait for it.
        let Ok(mut periods) = self.periods.try_lock() else { return };
        periods.turn(self.clock.now());
        for matched in answer.enforced().chain(answer.shadow()) {
            let rule = matched.rule();
            let descriptor = matched.descriptor(request);
            let Some(descriptor) = descriptor.filter(|_| !rule.spec().key.is_empty()) else {
                continue;
            };
            let key = fingerprint(rule, descriptor);
            let counts = &mut periods.current;
            counts.requests.add(key, |label| label.write(key, rule, descriptor));
            if !matched.decision().is_allowed() && !matched.is_report() {
                counts.refused.add(key, |label| label.write(key, rule, descriptor));
            }
        }
    }
}

/// The count of a key and its error. A key that is missing may have been counted as often as the rarest.
fn count_of(counts: &SpaceSaving<u64, KeyLabel>, key: u64) -> (u64, u64) {
    match counts.get(key) {
        Some(counter) => (counter.count, counter.error),
        None => (counts.least(), counts.least()),
    }
}

impl Observer for TopKeys {
    fn decided(&self, request: &Request<'_>, answer: &Answer<'_>) {
        if is_next() && !answer.is_repeated() {
            self.sample(request, answer);
        }
    }
}

/// Returns whether this decision is in the sample. The gaps are random, so that no client can ask between them.
#[inline]
fn is_next() -> bool {
    thread_local! {
        /// The number of decisions until the next sampled decision, and the state of a xorshift generator.
        static GAP: Cell<(u32, u32)> = const { Cell::new((1, 0)) };
    }
    let (gap, state) = GAP.get();
    if gap > 1 {
        GAP.set((gap - 1, state));
        return false;
    }
    // Per thread, so that threads that decide share no counter.
    GAP.set(next_gap(state));
    true
}

#[cold]
fn next_gap(state: u32) -> (u32, u32) {
    // 0 is the only state that a xorshift never leaves.
    let mut state = if state == 0 { RandomState::new().hash_one(0) as u32 | 1 } else { state };
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    // From 1 to 31, and so 16 on average.
    ((state >> 8) % (2 * ONE_IN - 1) + 1, state)
}

impl Periods {
    /// Begins another period if the current period is over.
    fn turn(&mut self, now: Timestamp) {
        let passed = now.as_micros().saturating_sub(self.began.as_micros());
        if passed < PERIOD_US {
            return;
        }
        // Swapped and cleared, so that the memory of the labels is used again.
        std::mem::swap(&mut self.current, &mut self.before);
        self.current.clear();
        self.before_began = self.began;
        // The period that just ended is too old as well: nothing was sampled in the period after it.
        if passed >= 2 * PERIOD_US {
            self.before.clear();
            self.before_began = now;
        }
        self.began = now;
    }
}

impl KeyCounts {
    const fn by(&self, by: TopKeysBy) -> &SpaceSaving<u64, KeyLabel> {
        match by {
            TopKeysBy::Refused => &self.refused,
            TopKeysBy::Requests => &self.requests,
        }
    }

    fn clear(&mut self) {
        self.refused.clear();
        self.requests.clear();
    }
}
