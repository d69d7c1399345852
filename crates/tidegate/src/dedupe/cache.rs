//! The dedupe cache: a bounded number of answers, each kept for its time.
//!
//! A request holds the lock of its shard from the look-up until its answer is kept: of two
//! concurrent requests with one id, one takes units and the other gets the same answer. No thread
//! that holds a limiter's lock uses the cache, so locks are always taken in one order.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::Timestamp;

use super::{IdempotencyKey, order_of};
use crate::clock::Clock;
use crate::inline_list::InlineList;
use crate::key::Fingerprint;
use crate::step::{Ask, Decided, Done, Step};

/// The default for the maximum number of answers.
const DEFAULT_MOST: usize = 1_000_000;
/// Shards of a large cache, each with a lock.
const SHARDS: usize = 64;
/// The fewest answers for which a shard is made.
const LEAST_IN_SHARD: usize = 16;
/// Expired answers that are dropped for each answer that is kept.
const TIDIED: usize = 2;

/// Answers by request.
#[derive(Debug)]
pub(crate) struct DedupeCache {
    pub(super) shards: Box<[Mutex<CacheShard>]>,
    /// The maximum number of answers in all shards together.
    pub(super) most: usize,
    /// The number of answers, including answers that are about to come.
    pub(super) kept: AtomicUsize,
    forgotten: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct CacheShard {
    pub(super) kept: HashMap<Fingerprint, KeptAnswer>,
    /// The fingerprints by the end of their time.
    pub(super) by_end: BTreeSet<(Timestamp, Fingerprint)>,
}

/// The answer to a request that took something.
#[derive(Debug)]
pub(super) struct KeptAnswer {
    pub(super) allowed: bool,
    pub(super) since: Timestamp,
    pub(super) end: Timestamp,
    pub(super) at: Timestamp,
    /// The decisions in the order of [`order_of`].
    pub(super) decisions: Box<[Decided]>,
}

impl Default for DedupeCache {
    fn default() -> Self {
        Self::new(DEFAULT_MOST)
    }
}

impl DedupeCache {
    pub(crate) fn new(most: usize) -> Self {
        let shards = (most / LEAST_IN_SHARD).clamp(1, SHARDS);
        Self {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            most,
            kept: AtomicUsize::new(0),
            forgotten: AtomicU64::new(0),
        }
    }

    /// Returns the remembered answer; else runs `run`, the step, and keeps its answer if it took
    /// units.
    ///
    /// # Errors
    /// Returns the errors of `run`; nothing is kept then.
    pub(crate) fn step<E>(
        &self,
        once: IdempotencyKey,
        asks: &[Ask],
        clock: &impl Clock,
        step: Step,
        run: impl FnOnce() -> Result<Done, E>,
    ) -> Result<Done, E> {
        let number = self.number(once.fingerprint);
        let mut shard = held(&self.shards[number]);
        if let Some(first) = shard.recall(once, asks, clock.now()) {
            return Ok(first);
        }
        // Under the lock of the shard: a second request with this id waits for the answer of the first.
        let done = run()?;
        let takes = done.allowed || asks.iter().any(Ask::is_report);
        if takes && step == Step::Ask {
            self.keep(&mut shard, once, asks, &done);
            // No thread locks two shards at a time, so that no two wait for each other.
            drop(shard);
            self.make_space_beside(number, done.at);
        }
        Ok(done)
    }

    pub(crate) fn recall(
        &self,
        once: IdempotencyKey,
        asks: &[Ask],
        clock: &impl Clock,
    ) -> Option<Done> {
        held(&self.shards[self.number(once.fingerprint)]).recall(once, asks, clock.now())
    }

    /// The number of answers: at most the bound, or slightly more until threads that add answers
    /// have forgotten others.
    pub(crate) fn len(&self) -> usize {
        self.kept.load(Relaxed)
    }

    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten.load(Relaxed)
    }

    pub(super) fn number(&self, fingerprint: Fingerprint) -> usize {
        fingerprint.words()[0] as usize % self.shards.len()
    }

    fn keep(&self, shard: &mut CacheShard, once: IdempotencyKey, asks: &[Ask], done: &Done) {
        if self.most == 0 {
            self.forgotten.fetch_add(1, Relaxed);
            return;
        }
        // Below the bound nothing else drops expired answers: two go for each that comes, to catch up with them.
        for _ in 0..TIDIED {
            self.forget_first(shard, done.at, |end| end <= done.at);
        }
        // Counted before it is kept: threads that add answers at a time pass the bound only until each has dropped one.
        let is_new = !shard.kept.contains_key(&once.fingerprint);
        // Relaxed, here and below: the number bounds memory, and no other data depends on it.
        if is_new && self.kept.fetch_add(1, Relaxed) >= self.most {
            self.forget_first(shard, done.at, |_| true);
        }
        shard.keep(once, asks, done);
    }

    /// If there are still too many answers, and the shard of the new answer had no other, drops an answer of another
    /// shard. The caller holds no lock of a shard.
    fn make_space_beside(&self, number: usize, now: Timestamp) {
        let shards = self.shards.len();
        for other in (1..shards).map(|step| (number + step) % shards) {
            // Another thread may have made space already.
            if self.kept.load(Relaxed) <= self.most.max(1)
                || self.forget_first(&mut held(&self.shards[other]), now, |_| true)
            {
                return;
            }
        }
    }

    /// Drops the answer of a shard that expires first, if `may_go` allows it; returns whether there
    /// was one.
    fn forget_first(
        &self,
        shard: &mut CacheShard,
        now: Timestamp,
        may_go: impl FnOnce(Timestamp) -> bool,
    ) -> bool {
        let Some(end) = shard.drop_first(may_go) else { return false };
        self.kept.fetch_sub(1, Relaxed);
        // An expired answer is no loss: no repeat would have got it.
        self.forgotten.fetch_add(u64::from(end > now), Relaxed);
        true
    }
}

pub(super) fn held(shard: &Mutex<CacheShard>) -> MutexGuard<'_, CacheShard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CacheShard {
    fn recall(&mut self, once: IdempotencyKey, asks: &[Ask], now: Timestamp) -> Option<Done> {
        let kept = self.kept.get_mut(&once.fingerprint)?;
        // After a clock stepped back, no answer is kept longer than its time from now on.
        if kept.since.since(now) > once.time {
            self.by_end.remove(&(kept.end, once.fingerprint));
            kept.since = now;
            kept.end = now.plus(once.time);
            self.by_end.insert((kept.end, once.fingerprint));
        }
        (now < kept.end).then(|| Done {
            allowed: kept.allowed,
            at: kept.at,
            repeated: true,
            decisions: put_back(asks, &kept.decisions),
        })
    }

    /// Keeps an answer, for its time from the decision on.
    fn keep(&mut self, once: IdempotencyKey, asks: &[Ask], done: &Done) {
        let end = done.at.plus(once.time);
        let decisions =
            order_of(asks).into_iter().filter_map(|index| done.decisions.get(index).cloned());
        let kept = KeptAnswer {
            allowed: done.allowed,
            since: done.at,
            end,
            at: done.at,
            decisions: decisions.collect(),
        };
        // An expired answer to the same request may still be here.
        if let Some(before) = self.kept.insert(once.fingerprint, kept) {
            self.by_end.remove(&(before.end, once.fingerprint));
        }
        self.by_end.insert((end, once.fingerprint));
    }

    /// Drops the answer that expires first, if `may_go` allows it; returns when it expires.
    fn drop_first(&mut self, may_go: impl FnOnce(Timestamp) -> bool) -> Option<Timestamp> {
        let (end, fingerprint) = *self.by_end.first().filter(|(end, _)| may_go(*end))?;
        self.by_end.pop_first();
        self.kept.remove(&fingerprint);
        Some(end)
    }
}

/// Puts a kept answer, in the order of [`order_of`], into the order of the limiters now.
fn put_back(asks: &[Ask], kept: &[Decided]) -> InlineList<Decided> {
    // Filled in any order at first, because a list has no empty places; then each is put where it belongs.
    let mut decisions: InlineList<Decided> = kept.iter().cloned().collect();
    for (index, decided) in order_of(asks).into_iter().zip(kept) {
        if let Some(here) = decisions.get_mut(index) {
            here.clone_from(decided);
        }
    }
    decisions
}
