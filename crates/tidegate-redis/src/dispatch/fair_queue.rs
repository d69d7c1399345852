//! Requests that wait to be sent to one shard: fair by key first, then by source.
//!
//! A request waits under the busiest of the keys it names, together with the others that name that
//! key, so that they can go as one call. Keys take turns: a key that was served goes after keys that were not, so a
//! busy key delays no other. Among keys that were served equally little, the first is the key whose request comes from
//! the least served source (a connection, say).
//!
//! Turns are counted by virtual time, as in start-time fair queueing (Goyal, Vin and Cheng, 1996).
//! The time of keys also advances by one in each round, which is as many turns as keys wait.
//! Otherwise an endless supply of new keys, each due immediately, would keep a key that was served
//! before from ever being due again. A source that missed a round comes first, as a new flow does
//! in fq_codel (RFC 8290, 4.2): sources that ask little do not wait for sources that ask much.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, RandomState};

use smallvec::SmallVec;

use crate::key::Hashed;

/// Calls about one key that may be under way: further requests wait and are merged.
const CALLS_OF_A_KEY: u8 = 2;
/// The number if enough requests wait to fill whole calls.
const CALLS_OF_A_BUSY_KEY: (u8, usize) = (8, 64);
/// Turns between two sweeps for keys and sources that can be forgotten.
const SWEEP: u32 = 1_024;

/// A keyed hash of a key, which no client can compute. Two keys with one hash share their turns and nothing else.
pub(super) type KeyHash = u64;

pub(super) type KeyMap<T> = HashMap<KeyHash, T, BuildHasherDefault<Hashed>>;

/// The keys that one request names.
pub(super) type KeyHashes = SmallVec<[KeyHash; 4]>;

/// Requests that wait, each with the keys it names.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    hashes: RandomState,
    keys: KeyMap<KeyQueue<T>>,
    /// The keys that a call may be sent for, in the order of their turns.
    ready: BTreeSet<Turn>,
    key_time: u64,
    /// Turns left in the round.
    round: usize,
    source_time: u64,
    /// The virtual time at which each source's next request has its turn.
    sources: HashMap<u64, u64>,
    waiting: usize,
    /// The number of them that no longer need an answer.
    dropped: usize,
    number: u64,
    turns: u32,
    /// The number of times that the queue was cleared: calls taken before are not under way any more.
    epoch: u32,
}

/// When a key is served: by its own virtual time, then by the virtual time of the first source, then in the order of
/// arrival. A key whose first source missed a round is due at time 0.
type Turn = (u64, u64, u64, KeyHash);

#[derive(Debug)]
struct KeyQueue<T> {
    waiting: VecDeque<QueuedItem<T>>,
    /// Requests that name it, including those under way.
    named: usize,
    /// Calls under way that were sent on its turn.
    calls: u8,
    time: u64,
    turn: Option<Turn>,
}

#[derive(Debug)]
struct QueuedItem<T> {
    item: T,
    keys: KeyHashes,
    source_time: u64,
    /// True if its source has missed a round.
    is_seldom: bool,
    number: u64,
}

/// Requests taken from the queue in one turn; handed back to [`FairQueue::answered`].
#[derive(Debug)]
pub(super) struct TakenTurn {
    key: KeyHash,
    named: Vec<KeyHash>,
    epoch: u32,
}

impl<T> FairQueue<T> {
    pub(super) fn new() -> Self {
        Self {
            hashes: RandomState::new(),
            keys: KeyMap::default(),
            ready: BTreeSet::new(),
            key_time: 0,
            round: 0,
            source_time: 0,
            sources: HashMap::new(),
            waiting: 0,
            dropped: 0,
            number: 0,
            turns: 0,
            epoch: 0,
        }
    }

    pub(super) fn hash(&self, key: &[u8]) -> KeyHash {
        self.hashes.hash_one(key)
    }

    /// The number of requests that wait for an answer.
    pub(super) const fn len(&self) -> usize {
        self.waiting - self.dropped
    }

    /// Returns whether a call may be sent now.
    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns whether other requests name one of these keys too, and will be decided with them.
    pub(super) fn is_shared(&self, keys: &[KeyHash]) -> bool {
        keys.iter().any(|key| self.keys.get(key).is_some_and(|key| key.named > 1))
    }

    /// Adds a request of `source` that names these keys; source 0 is none in particular.
    pub(super) fn push(&mut self, keys: KeyHashes, source: u64, item: T) {
        let busiest = self.name(&keys);
        let mut source_time = self.source_time;
        let mut is_seldom = false;
        if source != 0 {
            let time = self.sources.entry(source).or_default();
            is_seldom = *time < self.source_time;
            // A source that was away begins one turn before the present: it has saved up no others.
            source_time = self.source_time.saturating_sub(1).max(*time);
            *time = source_time + 1;
        }
        self.number += 1;
        let waiting = QueuedItem { item, keys, source_time, is_seldom, number: self.number };
        if let Some(key) = self.keys.get_mut(&busiest) {
            key.waiting.push_back(waiting);
        }
        self.waiting += 1;
        self.make_ready(busiest);
    }

    /// Counts the request with each key it names; returns the key that most requests name.
    fn name(&mut self, keys: &[KeyHash]) -> KeyHash {
        let mut busiest = (0, keys.first().copied().unwrap_or_default());
        // Requests without keys wait together, under the hash 0.
        if keys.is_empty() {
            self.keys.entry(busiest.1).or_insert_with(KeyQueue::new);
        }
        for hash in keys {
            let key = self.keys.entry(*hash).or_insert_with(KeyQueue::new);
            key.named += 1;
            if key.named > busiest.0 {
                busiest = (key.named, *hash);
            }
        }
        busiest.1
    }

    /// Makes a key ready, if a call for it may be sent.
    fn make_ready(&mut self, hash: KeyHash) {
        let Some(key) = self.keys.get_mut(&hash) else { return };
        let (most, many) = CALLS_OF_A_BUSY_KEY;
        let most = if key.waiting.len() >= many { most } else { CALLS_OF_A_KEY };
        if key.turn.is_none()
            && key.calls < most
            && let Some(first) = key.waiting.front()
        {
            // Only while the key itself was not served in this round: else one busy key could come first again and again
            // by requests of new sources.
            let is_first = first.is_seldom && key.time <= self.key_time;
            let time = if is_first { 0 } else { key.time.max(self.key_time) };
            let turn = (time, first.source_time, first.number, hash);
            key.turn = Some(turn);
            self.ready.insert(turn);
        }
    }

    /// Takes up to `most` requests of the key whose turn it is. The sources that were served least come first, and the
    /// requests of a source keep the order of arrival. The first request for which `fits` is false ends the turn and
    /// stays. `None` if no call may be sent.
    pub(super) fn take(
        &mut self,
        most: usize,
        mut fits: impl FnMut(&T, &[KeyHash]) -> bool,
    ) -> Option<(Vec<T>, TakenTurn)> {
        let turn = self.ready.pop_first()?;
        let hash = turn.3;
        let key = self.keys.get_mut(&hash)?;
        key.turn = None;
        // If all fit, all go, in the order of arrival. The sort is stable, so a source keeps its order.
        if key.waiting.len() > most {
            key.waiting.make_contiguous().sort_by_key(|one| one.source_time);
        }
        let mut items = Vec::new();
        let mut named = Vec::new();
        let mut earliest = u64::MAX;
        while let Some(one) = key.waiting.pop_front() {
            if items.len() >= most || !fits(&one.item, &one.keys) {
                key.waiting.push_front(one);
                break;
            }
            earliest = earliest.min(one.source_time);
            named.extend_from_slice(&one.keys);
            items.push(one.item);
        }
        key.calls += 1;
        self.key_time = self.key_time.max(turn.0);
        // After the keys that wait now.
        key.time = self.key_time + 1;
        self.round = self.round.saturating_sub(1);
        if self.round == 0 {
            self.key_time += 1;
            self.round = self.ready.len();
        }
        if earliest < u64::MAX {
            self.source_time = self.source_time.max(earliest);
        }
        self.waiting -= items.len();
        self.make_ready(hash);
        self.turns += 1;
        if self.turns >= SWEEP {
            self.turns = 0;
            self.forget_idle();
        }
        Some((items, TakenTurn { key: hash, named, epoch: self.epoch }))
    }

    /// Notes that the call of a turn was answered, or no longer needs an answer.
    pub(super) fn answered(&mut self, taken: &TakenTurn) {
        // The queue was cleared since, and with it the counts that have this call.
        if taken.epoch != self.epoch {
            return;
        }
        if let Some(key) = self.keys.get_mut(&taken.key) {
            key.calls -= 1;
        }
        self.unname(&taken.named);
        // A request without keys names none, so nothing else forgets the key that it waited under.
        if taken.named.is_empty() {
            self.forget(taken.key);
        }
        self.make_ready(taken.key);
    }

    fn unname(&mut self, named: &[KeyHash]) {
        for hash in named {
            if let Some(key) = self.keys.get_mut(hash) {
                key.named -= 1;
            }
            self.forget(*hash);
        }
    }

    /// Forgets a key that can be forgotten.
    fn forget(&mut self, hash: KeyHash) {
        if self.keys.get(&hash).is_some_and(|key| key.is_idle() && key.time <= self.key_time) {
            self.keys.remove(&hash);
        }
    }

    fn forget_idle(&mut self) {
        // A time that has passed earns no better turn than a new key or a new source gets.
        self.keys.retain(|_, key| !key.is_idle() || key.time > self.key_time);
        self.sources.retain(|_, time| *time > self.source_time);
    }

    /// Notes that one request no longer needs an answer. Requests for which `is_dropped` is true
    /// are removed once they are many.
    pub(super) fn drop_one(&mut self, is_dropped: impl Fn(&T) -> bool) {
        self.dropped += 1;
        // The removal looks at all requests, so it waits until the dropped requests pay for it.
        if self.dropped <= 64 + self.waiting / 2 {
            return;
        }
        self.dropped = 0;
        self.remove(is_dropped);
    }

    /// Notes that dropped requests have been taken.
    pub(super) const fn took_dropped(&mut self, count: usize) {
        self.dropped = self.dropped.saturating_sub(count);
    }

    /// Removes all requests, and forgets the calls under way.
    pub(super) fn clear(&mut self) -> Vec<T> {
        (self.dropped, self.waiting) = (0, 0);
        self.epoch += 1;
        self.ready.clear();
        self.sources.clear();
        let keys = std::mem::take(&mut self.keys).into_values();
        keys.flat_map(|key| key.waiting.into_iter().map(|one| one.item)).collect()
    }

    fn remove(&mut self, is_removed: impl Fn(&T) -> bool) {
        let mut named = Vec::new();
        let mut keys = Vec::new();
        for (hash, key) in &mut self.keys {
            let before = key.waiting.len();
            for _ in 0..before {
                match key.waiting.pop_front() {
                    Some(one) if is_removed(&one.item) => {
                        named.extend_from_slice(&one.keys);
                        self.waiting -= 1;
                    }
                    Some(one) => key.waiting.push_back(one),
                    None => {}
                }
            }
            // The turn names the first request, which may be gone: the key gets a new turn below.
            if key.waiting.len() < before {
                if let Some(turn) = key.turn.take() {
                    self.ready.remove(&turn);
                }
                keys.push(*hash);
            }
        }
        self.unname(&named);
        keys.into_iter().for_each(|hash| self.make_ready(hash));
    }
}

impl<T> KeyQueue<T> {
    fn new() -> Self {
        Self { waiting: VecDeque::new(), named: 0, calls: 0, time: 0, turn: None }
    }

    fn is_idle(&self) -> bool {
        self.named == 0 && self.calls == 0 && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests;
