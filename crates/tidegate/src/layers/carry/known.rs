//! The units in use that the store reported of each limiter: a table of bounded size.
//!
//! Of a limiter it has a few numbers. Each limiter has eight possible places; if all are taken, the limiter whose units
//! leave first goes: units that are not known are not carried.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::{Rule, Timestamp, Token};

use super::limiter::{DataOf, KnownLimiter, ReplyTimes, UseReport};
use crate::key::{Fingerprint, Seed};
use crate::store::{KeyAsk, KnownUse};

/// The number of locks that limiters are spread over.
const SHARDS: usize = 64;
/// Groups of limiters in a shard; each limiter belongs to one group.
const GROUPS: usize = 128;
/// The maximum number of limiters in a group: 65,536 in all, of some 500 bytes each at most.
const PLACES: usize = 8;
/// Limiters share this many turns, so that few wait for a turn of another limiter.
const TURNS: usize = 1_024;
/// Servers share this many places for their losses, by their numbers.
const SERVERS: usize = 64;

/// The limiters that units count of, as far as this node knows.
#[derive(Debug)]
pub(super) struct KnownLimiters {
    seed: Seed,
    shards: Box<[Mutex<Shard>]>,
    /// Held while units are carried, each for the limiters that share it.
    turns: Box<[Arc<tokio::sync::Mutex<()>>]>,
    /// The number of times that a request began to carry the units of a limiter.
    carries: AtomicU64,
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

    /// Puts a limiter in its place. It needs none if nothing is used, unless it was carried: late replies are told from
    /// that.
    fn put(&mut self, words: [u32; 3], one: KnownLimiter) {
        self.remove(words);
        let Some(group) = self.group(words).filter(|_| !one.used.is_empty() || one.carry > 0)
        else {
            return;
        };
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

impl KnownLimiters {
    pub(super) fn new() -> Self {
        Self {
            seed: Seed::random(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            turns: (0..TURNS).map(|_| Arc::default()).collect(),
            carries: AtomicU64::new(0),
            losses: (0..SERVERS).map(|_| ServerLosses::default()).collect(),
        }
    }

    /// The present data of a server.
    pub(super) fn data_of(&self, server: u64) -> DataOf {
        DataOf { server, losses: self.losses_of(server).while_it_ran.load(Relaxed) }
    }

    /// Notes that a server lacks data `before`. If that was its own, it lost data while it ran, and the units that it
    /// had until now are carried.
    pub(super) fn note_loss(&self, server: u64, before: DataOf) {
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

    /// Returns what is known of a limiter. If it `keeps_newer`, a stored state that is newer stays. A request that is
    /// `alone` begins to carry the units that are lost.
    pub(super) fn known(
        &self,
        ask: &KeyAsk,
        keeps_newer: bool,
        now: Timestamp,
        alone: bool,
    ) -> KnownUse {
        let words = self.words(ask);
        let mut shard = self.shard(words);
        let Some(one) = shard.get(words).filter(|one| one.counts_at(now)) else {
            return KnownUse::Nothing;
        };
        let known = self.use_of(one, keeps_newer, None, None);
        if alone && known.carried().is_some() {
            one.begin_carry(self.next_carry(), false);
        }
        known
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
        let own = had.map(|had| had.server).filter(|own| *own == server);
        KnownUse::Carried { used: one.used.as_slice().into(), reported: one.at, last, own }
    }

    /// Notes that a server does not have the units of a limiter, and that the request that was told so begins to carry
    /// them. Returns what is to be carried, and the data that had the units.
    pub(super) fn begin_carry(
        &self,
        ask: &KeyAsk,
        keeps_newer: bool,
        server: u64,
        now: Timestamp,
    ) -> (KnownUse, Option<DataOf>) {
        let words = self.words(ask);
        let mut shard = self.shard(words);
        let Some(one) = shard.get(words).filter(|one| one.counts_at(now)) else {
            return (KnownUse::Nothing, None);
        };
        let had = (!one.is_lost).then_some(one.data);
        one.is_lost = true;
        one.begin_carry(self.next_carry(), true);
        (self.use_of(one, keeps_newer, Some(server), had), had)
    }

    /// The number of times that a request began to carry the units of a limiter.
    pub(super) fn carries(&self) -> u64 {
        self.carries.load(SeqCst)
    }

    /// The next number. It is given under the lock of a shard, so that it is higher than the number that another request
    /// read before it looked there.
    fn next_carry(&self) -> u64 {
        self.carries.fetch_add(1, SeqCst) + 1
    }

    /// Returns whether a request has carried units of these limiters since there were so many such requests.
    pub(super) fn has_carried(&self, asks: &[KeyAsk], carries: u64) -> bool {
        self.carries() > carries && asks.iter().any(|ask| self.is(ask, |one| one.carry > carries))
    }

    /// Returns whether a reply about a limiter has units that were left out when units were carried from its data.
    pub(super) fn lacks(&self, ask: &KeyAsk, reply: &ReplyTimes) -> bool {
        self.is(ask, |one| one.lacks(reply))
    }

    fn is(&self, ask: &KeyAsk, so: impl FnOnce(&KnownLimiter) -> bool) -> bool {
        let words = self.words(ask);
        self.shard(words).get(words).is_some_and(|one| so(one))
    }

    /// Notes a report about a limiter that was asked with what was `known` then. Returns false if another request carries
    /// its units by now.
    pub(super) fn note(
        &self,
        ask: &KeyAsk,
        rule: &Rule,
        known: &KnownUse,
        report: UseReport<'_>,
    ) -> bool {
        let words = self.words(ask);
        let mut shard = self.shard(words);
        let data = self.data_of(report.reply.server);
        let reply = report.reply;
        let noted = match shard.get(words) {
            Some(one) if one.carry > reply.carries && !reply.is_alone => return false,
            Some(one) if known.carried().is_none() && one.covers(&reply) => None,
            Some(one) if one.counts_at(reply.sent) || known.carried().is_some() => {
                one.after(rule, known, report, data)
            }
            before => KnownLimiter::new(rule, report, data, before),
        };
        if let Some(one) = noted {
            shard.put(words, one);
        }
        true
    }

    /// Notes that a permit was returned, or lasts from `renewed` on: then its own units count from that time, or as
    /// many of the oldest.
    pub(super) fn moved(
        &self,
        ask: &KeyAsk,
        token: Token,
        renewed: Option<Timestamp>,
        reply: ReplyTimes,
    ) {
        let words = self.words(ask);
        let mut shard = self.shard(words);
        let one = shard.get(words);
        // The units that another request carries by now stay as they are.
        if let Some(one) = one.filter(|one| one.carry <= reply.carries || reply.is_alone) {
            one.moved(token, ask.cost, renewed, reply);
        }
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

    /// The locks that a request holds while it carries units of limiters.
    pub(super) fn turns(&self, asks: &[KeyAsk]) -> Vec<Arc<tokio::sync::Mutex<()>>> {
        let mut places: Vec<_> =
            asks.iter().map(|ask| self.words(ask)[0] as usize % TURNS).collect();
        // In the same order by every request, so that none waits for another that waits for it.
        places.sort_unstable();
        places.dedup();
        places.into_iter().map(|place| Arc::clone(&self.turns[place])).collect()
    }

    fn shard(&self, words: [u32; 3]) -> MutexGuard<'_, Shard> {
        let shard = words[0] as usize % SHARDS;
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::UsedUnits;

    use super::super::limiter::CarryState;
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
            carry: 0,
            carrying: CarryState::Done,
            carried: None,
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
