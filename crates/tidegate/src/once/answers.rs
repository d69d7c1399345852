//! Answers kept for requests that may be asked again: so many at most, each for its time.
//!
//! A request is held, by the lock of its shard, from when it is looked up until its answer is kept: of
//! two that come at once under one id, one takes and the other is told what the first was. Nobody who
//! holds a limiter asks here, so locks are always taken in one order.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::Timestamp;

use super::Once;
use crate::clock::Clock;
use crate::key::Fingerprint;
use crate::store::memory::{Decided, Done, Step};

/// Most answers unless it is said otherwise.
const DEFAULT_MOST: usize = 1_000_000;
/// Locks that answers are spread over.
const SHARDS: usize = 64;
/// Answers whose time is over that are let go of for each one that is kept.
const TIDIED: usize = 2;

/// What requests were answered.
#[derive(Debug)]
pub(crate) struct Answers {
    shards: Box<[Mutex<Shard>]>,
    /// Most in each shard.
    most: usize,
    forgotten: AtomicU64,
}

#[derive(Debug, Default)]
struct Shard {
    kept: HashMap<Fingerprint, Kept>,
    /// The same by when their time is over.
    by_end: BTreeSet<(Timestamp, Fingerprint)>,
}

/// The answer to a request that was admitted.
#[derive(Debug)]
struct Kept {
    since: Timestamp,
    end: Timestamp,
    at: Timestamp,
    decisions: Box<[Decided]>,
}

impl Default for Answers {
    fn default() -> Self {
        Self::new(DEFAULT_MOST)
    }
}

impl Answers {
    pub(crate) fn new(most: usize) -> Self {
        let shards = most.clamp(1, SHARDS);
        Self {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            most: most / shards,
            forgotten: AtomicU64::new(0),
        }
    }

    /// What the request was answered before; else what comes of `run`, its step, which is kept if it
    /// took something.
    pub(crate) fn step(
        &self,
        once: Once,
        clock: &impl Clock,
        step: Step,
        run: impl FnOnce() -> Done,
    ) -> Done {
        let mut shard = self.shard(once.print);
        let now = clock.now();
        if let Some(first) = shard.recall(once, now) {
            return first;
        }
        let done = run();
        if done.allowed && step == Step::Ask {
            self.forgotten.fetch_add(shard.keep(once, now, &done, self.most), Relaxed);
        }
        done
    }

    /// What the request was answered before.
    pub(crate) fn recall(&self, once: Once, clock: &impl Clock) -> Option<Done> {
        self.shard(once.print).recall(once, clock.now())
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| held(shard).kept.len()).sum()
    }

    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten.load(Relaxed)
    }

    fn shard(&self, print: Fingerprint) -> MutexGuard<'_, Shard> {
        held(&self.shards[print.words()[0] as usize % self.shards.len()])
    }
}

fn held(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shard {
    fn recall(&mut self, once: Once, now: Timestamp) -> Option<Done> {
        let kept = self.kept.get_mut(&once.print)?;
        // A clock that stepped back makes nothing last longer than from now on.
        if kept.since.since(now) > once.time {
            self.by_end.remove(&(kept.end, once.print));
            (kept.since, kept.end) = (now, now.plus(once.time));
            self.by_end.insert((kept.end, once.print));
        }
        (now < kept.end).then(|| Done {
            allowed: true,
            at: kept.at,
            repeated: true,
            decisions: kept.decisions.iter().copied().collect(),
        })
    }

    /// Keeps an answer; tells how many others were forgotten before their time for it.
    fn keep(&mut self, once: Once, now: Timestamp, done: &Done, most: usize) -> u64 {
        if most == 0 {
            return 1;
        }
        (0..TIDIED).for_each(|_| self.drop_first_before(now));
        let mut forgotten = 0;
        while self.kept.len() >= most && !self.kept.contains_key(&once.print) {
            forgotten += u64::from(self.by_end.first().is_some_and(|(end, _)| *end > now));
            self.drop_first_before(Timestamp::MAX);
        }
        let (end, decisions) = (now.plus(once.time), done.decisions.as_slice().into());
        let kept = Kept { since: now, end, at: done.at, decisions };
        if let Some(before) = self.kept.insert(once.print, kept) {
            self.by_end.remove(&(before.end, once.print));
        }
        self.by_end.insert((end, once.print));
        forgotten
    }

    /// Lets go of the answer whose time is over first, if it is by `now`.
    fn drop_first_before(&mut self, now: Timestamp) {
        if self.by_end.first().is_some_and(|(end, _)| *end <= now)
            && let Some((_, print)) = self.by_end.pop_first()
        {
            self.kept.remove(&print);
        }
    }
}
