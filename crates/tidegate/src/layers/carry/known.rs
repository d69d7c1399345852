//! The units in use that the store reported of each limiter: a table of bounded size.
//!
//! Of a limiter it has a few numbers. Where there is no place for one more, one whose units leave earlier goes: units
//! that are not known are not carried.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::{Micros, Rule, Timestamp, Token, UsedUnits};

use crate::key::{Fingerprint, Seed};
use crate::store::{KeyAsk, KnownUse};

/// The number of locks that limiters are spread over.
const SHARDS: usize = 64;
/// The maximum number of limiters in a shard: 65,536 in all, with at most 20 MiB.
const MOST: usize = 1_024;
/// The number of limiters of which one goes where there is no place.
const AMONG: usize = 8;
/// A report that is earlier by more than this is later: the clock of the store was set.
const ORDERED: Micros = Micros::from_millis(1_000);
/// Servers share this many counts of losses, by their numbers.
const SERVERS: usize = 64;

/// The limiters that units count of, as far as this node knows.
#[derive(Debug)]
pub(super) struct KnownLimiters {
    seed: Seed,
    shards: Box<[Mutex<Shard>]>,
    /// By server, how often it was found to have lost data while it ran.
    losses: Box<[AtomicU32]>,
}

type Shard = HashMap<[u32; 3], KnownLimiter>;

/// The data that has the units of a limiter: of a server, after so many losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DataOf {
    server: u64,
    losses: u32,
}

#[derive(Debug)]
struct KnownLimiter {
    /// Oldest first, by the clock of the store.
    used: Vec<UsedUnits>,
    /// The time of the last report, and of the last unit, by the clock of the store.
    at: Timestamp,
    last: Timestamp,
    /// When the last unit leaves, by the clock of this process.
    until: Timestamp,
    /// The data that has these units; none if they are to be carried.
    data: Option<DataOf>,
    /// The number of changes.
    changes: u32,
}

impl KnownLimiter {
    fn counts_at(&self, now: Timestamp) -> bool {
        now < self.until && !self.used.is_empty()
    }
}

/// A report of the store about a limiter.
pub(super) struct UseReport {
    pub(super) used: Vec<UsedUnits>,
    /// When it was decided, and the time of the last unit, by the clock of the store.
    pub(super) at: Timestamp,
    pub(super) last: Timestamp,
    /// When the question was sent, and when the last unit leaves, by the clock of this process.
    pub(super) sent: Timestamp,
    pub(super) until: Timestamp,
    pub(super) data: DataOf,
}

/// The knowledge of a limiter when it is asked, and the number of changes until then.
pub(super) type KnownThen = (KnownUse, u32);

impl KnownLimiters {
    pub(super) fn new() -> Self {
        Self {
            seed: Seed::random(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            losses: (0..SERVERS).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// The present data of a server.
    pub(super) fn data_of(&self, server: u64) -> DataOf {
        let losses = self.losses_of(server).map_or(0, |losses| losses.load(Relaxed));
        DataOf { server, losses }
    }

    /// Notes that a server lost data; if it had other data `before`, while it ran. Units that it had until now are carried.
    pub(super) fn lost(&self, server: u64, before: Option<DataOf>) {
        let known = before.filter(|before| before.server == server).map_or(0, |had| had.losses);
        if let Some(losses) = self.losses_of(server) {
            // If it was noted by another request since, it was one loss.
            let _ = losses.compare_exchange(known, known + 1, Relaxed, Relaxed);
        }
    }

    fn losses_of(&self, server: u64) -> Option<&AtomicU32> {
        self.losses.get(server as usize % SERVERS)
    }

    /// Returns what is known of a limiter.
    pub(super) fn known(&self, ask: &KeyAsk, now: Timestamp) -> KnownThen {
        let words = self.words(ask);
        match self.shard(words).get(&words).filter(|one| one.counts_at(now)) {
            None => (KnownUse::Nothing, 0),
            Some(one) => (self.use_of(one, None), one.changes),
        }
    }

    /// Returns the knowledge of a limiter, for a server if it has asked for it.
    fn use_of(&self, one: &KnownLimiter, server: Option<u64>) -> KnownUse {
        let present = one.data.map(|data| self.data_of(data.server));
        if let Some(data) = one.data.filter(|data| Some(*data) == present) {
            return KnownUse::Stored { server: data.server };
        }
        let server = server.or(one.data.map(|data| data.server));
        let has_lost = server.is_some_and(|server| self.data_of(server).losses > 0);
        let last = Some(one.last).filter(|_| !has_lost);
        KnownUse::Carried { used: one.used.as_slice().into(), reported: one.at, last }
    }

    /// Notes that a server does not have the units of a limiter, and returns what is to be carried, and the data that had
    /// the units.
    pub(super) fn is_lost(
        &self,
        ask: &KeyAsk,
        server: u64,
        now: Timestamp,
    ) -> (KnownThen, Option<DataOf>) {
        let words = self.words(ask);
        let mut shard = self.shard(words);
        let Some(one) = shard.get_mut(&words).filter(|one| one.counts_at(now)) else {
            return ((KnownUse::Nothing, 0), None);
        };
        let had = one.data.take();
        ((self.use_of(one, Some(server)), one.changes), had)
    }

    /// Notes a report about a limiter that was asked with what was `known` then.
    pub(super) fn note(
        &self,
        ask: &KeyAsk,
        rule: &Rule,
        (known, changes): &KnownThen,
        UseReport { used, at, last, sent, until, data }: UseReport,
    ) {
        let words = self.words(ask);
        let mut shard = self.shard(words);
        let before = shard.get(&words).filter(|one| one.counts_at(sent));
        let Some(before) = before else {
            let used = rule.known_units(&[], used, at);
            put(
                &mut shard,
                words,
                KnownLimiter { used, at, last, until, data: Some(data), changes: 0 },
            );
            return;
        };
        let is_same = before.data == Some(data);
        let is_early = at < before.at && before.at.since(at) < ORDERED;
        if is_same && is_early {
            return;
        }
        // A reply of other data says nothing of the units that are known, unless these were carried with it. Else they
        // are carried once more.
        let is_carried = matches!(known, KnownUse::Carried { .. }) && before.changes == *changes;
        let data = (is_same || is_carried).then_some(data);
        let used = rule.known_units(&before.used, used, at);
        let changes = before.changes.wrapping_add(1);
        // Of requests that were decided at one instant, the last has taken most.
        let is_less = amount(&used) < amount(&before.used);
        let next = if is_less && (data.is_none() || is_same && at == before.at) {
            KnownLimiter { used: before.used.clone(), changes, data, ..*before }
        } else {
            KnownLimiter { used, at, last: last.max(before.last), until, data, changes }
        };
        put(&mut shard, words, next);
    }

    /// Notes that a permit was returned, or lasts from `renewed` on: then its own units count from that time, or as many of
    /// the oldest.
    pub(super) fn moved(&self, ask: &KeyAsk, token: Token, renewed: Option<Timestamp>) {
        let words = self.words(ask);
        let mut shard = self.shard(words);
        let Some(one) = shard.get_mut(&words) else { return };
        let its = one.used.iter().position(|one| one.since.as_micros() == token.as_micros());
        let place = if renewed.is_some() { its.unwrap_or(0) } else { its.unwrap_or(usize::MAX) };
        if place < one.used.len() {
            let moved = one.used.remove(place);
            one.used.extend(renewed.map(|since| UsedUnits { since, ..moved }));
        }
    }

    /// Forgets a limiter.
    pub(super) fn forget(&self, ask: &KeyAsk) {
        let words = self.words(ask);
        self.shard(words).remove(&words);
    }

    fn words(&self, ask: &KeyAsk) -> [u32; 3] {
        let known_by: Fingerprint = self.seed.of(&ask.fingerprint[..]);
        known_by.words()
    }

    fn shard(&self, words: [u32; 3]) -> MutexGuard<'_, Shard> {
        let shard = words[0] as usize % SHARDS;
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which of two uses of a limiter at one instant is more.
fn amount(used: &[UsedUnits]) -> (u64, Option<Timestamp>) {
    let units = used.iter().fold(0, |sum: u64, one| sum.saturating_add(one.units));
    (units, used.last().map(|one| one.since))
}

/// Puts a limiter in its place; one in which nothing is used has none.
fn put(shard: &mut Shard, words: [u32; 3], one: KnownLimiter) {
    if one.used.is_empty() {
        shard.remove(&words);
        return;
    }
    if shard.len() >= MOST && !shard.contains_key(&words) {
        let some = shard.iter().take(AMONG);
        let first = some.min_by_key(|(_, one)| one.until).map(|(words, _)| *words);
        first.and_then(|words| shard.remove(&words));
    }
    shard.insert(words, one);
}
