//! The units in use that the store reported of each limiter: a table of bounded size.
//!
//! Of a limiter it has a few numbers. Each limiter has eight possible places; if all are taken, the limiter whose units
//! leave first goes: units that are not known are not carried.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::{Rule, Timestamp, Token, UsedUnits};

use super::ReplyTimes;
use crate::key::{Fingerprint, Seed};
use crate::store::{KeyAsk, KnownUse, is_overtaken};

/// The number of locks that limiters are spread over.
const SHARDS: usize = 64;
/// Groups of limiters in a shard; each limiter belongs to one group.
const GROUPS: usize = 128;
/// The maximum number of limiters in a group: 65,536 in all, of some 300 bytes each at most.
const PLACES: usize = 8;
/// Servers share this many places for their losses, by their numbers.
const SERVERS: usize = 64;

/// The limiters that units count of, as far as this node knows.
#[derive(Debug)]
pub(super) struct KnownLimiters {
    seed: Seed,
    shards: Box<[Mutex<Shard>]>,
    /// Held while units are carried, each for the limiters of a shard.
    turns: Box<[tokio::sync::Mutex<()>]>,
    /// By server.
    losses: Box<[ServerLosses]>,
}

/// The data that a server was found to lack.
#[derive(Debug, Default)]
struct ServerLosses {
    /// How often it lost data while it ran.
    while_it_ran: AtomicU32,
    /// True if it lacks the last writes of a server before it.
    of_another: AtomicBool,
}

/// Groups of limiters by their fingerprints. They take memory with the first limiter.
#[derive(Debug, Default)]
struct Shard(Vec<Vec<([u32; 3], KnownLimiter)>>);

impl Shard {
    fn group(&mut self, words: [u32; 3]) -> Option<&mut Vec<([u32; 3], KnownLimiter)>> {
        if self.0.is_empty() {
            self.0.resize_with(GROUPS, Vec::new);
        }
        self.0.get_mut(words[1] as usize % GROUPS)
    }

    fn get(&mut self, words: [u32; 3]) -> Option<&mut KnownLimiter> {
        let (_, one) = self.group(words)?.iter_mut().find(|(its, _)| *its == words)?;
        Some(one)
    }

    fn remove(&mut self, words: [u32; 3]) {
        if let Some(group) = self.group(words) {
            group.retain(|(its, _)| *its != words);
        }
    }

    /// Puts a limiter in its place; one in which nothing is used has none.
    fn put(&mut self, words: [u32; 3], one: KnownLimiter) {
        self.remove(words);
        let Some(group) = self.group(words).filter(|_| !one.used.is_empty()) else { return };
        if group.len() >= PLACES {
            let places = group.iter().enumerate();
            if let Some((first, _)) = places.min_by_key(|(_, (_, one))| one.until) {
                group.swap_remove(first);
            }
        }
        // Most groups have a limiter or two.
        group.reserve_exact(1);
        group.push((words, one));
    }
}

/// The data that has the units of a limiter: of a server, after so many losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DataOf {
    server: u64,
    losses: u32,
}

impl DataOf {
    pub(super) const fn is_of(self, server: u64) -> bool {
        self.server == server
    }
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
    /// The data that reported these units.
    data: DataOf,
    /// True if they are to be carried, because the server may not have them.
    is_lost: bool,
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
            turns: (0..SHARDS).map(|_| tokio::sync::Mutex::default()).collect(),
            losses: (0..SERVERS).map(|_| ServerLosses::default()).collect(),
        }
    }

    /// The present data of a server.
    pub(super) fn data_of(&self, server: u64) -> DataOf {
        DataOf { server, losses: self.losses_of(server).while_it_ran.load(Relaxed) }
    }

    /// Notes that a server lacks data `before`. If that was its own, it lost data while it ran, and the units that it
    /// had until now are carried.
    pub(super) fn lost(&self, server: u64, before: DataOf) {
        let losses = self.losses_of(server);
        if before.server == server {
            let next = before.losses + 1;
            // If it was noted by another request since, it was one loss.
            let _ = losses.while_it_ran.compare_exchange(before.losses, next, Relaxed, Relaxed);
        } else {
            losses.of_another.store(true, Relaxed);
        }
    }

    fn losses_of(&self, server: u64) -> &ServerLosses {
        &self.losses[server as usize % SERVERS]
    }

    /// True if a server is known to have lost data.
    fn has_lost(&self, server: u64) -> bool {
        let losses = self.losses_of(server);
        losses.while_it_ran.load(Relaxed) > 0 || losses.of_another.load(Relaxed)
    }

    /// Returns what is known of a limiter. If it `keeps_newer`, a stored state that is newer stays.
    pub(super) fn known(&self, ask: &KeyAsk, keeps_newer: bool, now: Timestamp) -> KnownThen {
        let words = self.words(ask);
        match self.shard(words).get(words).filter(|one| one.counts_at(now)) {
            None => (KnownUse::Nothing, 0),
            Some(one) => (self.use_of(one, keeps_newer, None, None), one.changes),
        }
    }

    /// Returns the knowledge of a limiter: for the server that lacks its units, if there is such, and the data that `had`
    /// them.
    fn use_of(
        &self,
        one: &KnownLimiter,
        keeps_newer: bool,
        server: Option<u64>,
        had: Option<DataOf>,
    ) -> KnownUse {
        if !one.is_lost && self.data_of(one.data.server) == one.data {
            return KnownUse::Stored { server: one.data.server };
        }
        let server = server.unwrap_or(one.data.server);
        let last = Some(one.last).filter(|_| keeps_newer && !self.has_lost(server));
        let is_own = had.is_some_and(|had| had.is_of(server));
        KnownUse::Carried { used: one.used.as_slice().into(), reported: one.at, last, is_own }
    }

    /// Notes that a server does not have the units of a limiter, and returns what is to be carried, and the data that
    /// had the units.
    pub(super) fn is_lost(
        &self,
        ask: &KeyAsk,
        keeps_newer: bool,
        server: u64,
        now: Timestamp,
    ) -> (KnownThen, Option<DataOf>) {
        let words = self.words(ask);
        let mut shard = self.shard(words);
        let Some(one) = shard.get(words).filter(|one| one.counts_at(now)) else {
            return ((KnownUse::Nothing, 0), None);
        };
        let had = (!one.is_lost).then_some(one.data);
        one.is_lost = true;
        ((self.use_of(one, keeps_newer, Some(server), had), one.changes), had)
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
        let before = shard.get(words).filter(|one| one.counts_at(sent));
        let Some(before) = before else {
            let used = rule.known_units(&[], used, at);
            let one = KnownLimiter { used, at, last, until, data, is_lost: false, changes: 0 };
            shard.put(words, one);
            return;
        };
        let is_same = before.data == data;
        let carried = match known {
            KnownUse::Carried { used, .. } => Some(&used[..]),
            KnownUse::Nothing | KnownUse::Stored { .. } => None,
        };
        // A reply of other data, whose clock may differ, can be older than what it was asked with.
        let has_carried_all = carried.is_some() && before.changes == *changes;
        if !has_carried_all && is_same && is_overtaken(at, before.at) {
            return;
        }
        let mut used = rule.known_units(&before.used, used, at);
        let order = amount(&used).cmp(&amount(&before.used));
        let is_stored = has_carried_all || is_same && (carried.is_some() || !before.is_lost);
        match carried {
            // Of requests that were decided at one instant, the last has taken most.
            None if is_stored && order.is_lt() && at == before.at => return,
            // Data without the known units says nothing of them. If it has more, these are carried.
            None if !is_stored && order.is_le() => return,
            // A late reply of the former data had more units than were carried: these are carried next.
            Some(carried) if !is_stored => add_rest(&mut used, &before.used, carried),
            _ => {}
        }
        let last = last.max(before.last);
        let changes = before.changes.wrapping_add(1);
        let is_lost = !is_stored;
        shard.put(words, KnownLimiter { used, at, last, until, data, is_lost, changes });
    }

    /// Notes that a permit was returned, or lasts from `renewed` on: then its own units count from that time, or as
    /// many of the oldest.
    pub(super) fn moved(
        &self,
        ask: &KeyAsk,
        token: Token,
        renewed: Option<Timestamp>,
        ReplyTimes { now, server, .. }: ReplyTimes,
    ) {
        let words = self.words(ask);
        let mut shard = self.shard(words);
        let one = match shard.get(words) {
            // A later report is without the permit.
            Some(one) if one.data.is_of(server) && !is_overtaken(now, one.at) => one,
            _ => return,
        };
        let its = one.used.iter().position(|one| one.since.as_micros() == token.as_micros());
        let place = if renewed.is_some() { its.unwrap_or(0) } else { its.unwrap_or(usize::MAX) };
        let Some(entry) = one.used.get_mut(place) else { return };
        // Other permits may count from that time as well.
        let units = ask.cost.min(entry.units);
        entry.units -= units;
        one.used.extend(renewed.map(|since| UsedUnits { since, units }));
        one.used.retain(|one| one.units > 0);
    }

    /// Forgets a limiter.
    pub(super) fn forget(&self, ask: &KeyAsk) {
        let words = self.words(ask);
        self.shard(words).remove(words);
    }

    fn words(&self, ask: &KeyAsk) -> [u32; 3] {
        let known_by: Fingerprint = self.seed.of(&ask.fingerprint[..]);
        known_by.words()
    }

    /// Waits for the right to carry units of limiters.
    pub(super) async fn turns(&self, asks: &[KeyAsk]) -> Vec<tokio::sync::MutexGuard<'_, ()>> {
        let mut places: Vec<_> = asks.iter().map(|ask| place_of(self.words(ask))).collect();
        // In the same order by every request, so that none waits for another that waits for it.
        places.sort_unstable();
        places.dedup();
        let mut turns = Vec::with_capacity(places.len());
        for place in places {
            turns.push(self.turns[place].lock().await);
        }
        turns
    }

    fn shard(&self, words: [u32; 3]) -> MutexGuard<'_, Shard> {
        self.shards[place_of(words)].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a limiter's shard.
const fn place_of(words: [u32; 3]) -> usize {
    words[0] as usize % SHARDS
}

/// Adds the units that are known above the units that were carried.
fn add_rest(used: &mut Vec<UsedUnits>, known: &[UsedUnits], carried: &[UsedUnits]) {
    let units = amount(known).0.saturating_sub(amount(carried).0);
    let Some(UsedUnits { since, .. }) = known.last().filter(|_| units > 0).copied() else { return };
    match used.iter_mut().find(|one| one.since >= since) {
        Some(later) => later.units = later.units.saturating_add(units),
        None => used.push(UsedUnits { since, units }),
    }
}

/// Which of two uses of a limiter at one instant is more.
fn amount(used: &[UsedUnits]) -> (u64, Option<Timestamp>) {
    let units = used.iter().fold(0, |sum: u64, one| sum.saturating_add(one.units));
    (units, used.last().map(|one| one.since))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limiters_whose_units_have_left_make_space() {
        let one = |until| KnownLimiter {
            used: vec![UsedUnits { since: Timestamp::EPOCH, units: 1 }],
            at: Timestamp::EPOCH,
            last: Timestamp::EPOCH,
            until: Timestamp::from_micros(until),
            data: DataOf { server: 1, losses: 0 },
            is_lost: false,
            changes: 0,
        };
        let mut shard = Shard::default();
        let places = (GROUPS * PLACES) as u32;
        (0..10 * places).for_each(|number| shard.put([0, number, number], one(1)));
        assert_eq!(shard.0.iter().map(Vec::len).sum::<usize>(), places as usize);
        let counting = 10 * places..11 * places;
        counting.clone().for_each(|number| shard.put([0, number, number], one(2)));
        for number in counting {
            let known = shard.get([0, number, number]);
            assert!(known.is_some_and(|known| known.counts_at(Timestamp::from_micros(1))));
        }
    }
}
