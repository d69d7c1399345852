//! The book of leases of one process: which requests it decides, and which leases are asked for and given back.
//!
//! The layer `Leases` asks it about each request ([`Book::decide`]), and tells it each report of the store, each
//! reply to a question for a lease, and the time when a lease is due. The folder has its other verbs: `give_back`
//! for the end of holds and leases, `shares` for shares of a limit.

mod give_back;
mod shares;

use std::collections::HashMap;
use std::hash::Hash;

use tidegate_core::{Micros, Timestamp};

use super::limiter::LeasedLimiter;
use super::terms::Terms;
use super::units::Grant;
use crate::store::{LimiterReport, Wanted};

/// The shortest time between two searches for idle limiters, during which other requests wait.
const LEAST_BETWEEN_SWEEPS: Micros = Micros::from_millis(100);

/// One limiter of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BookAsk<'a, K> {
    pub(crate) key: &'a K,
    /// `None` if the rule has no leases.
    pub(crate) terms: Option<Terms>,
    pub(crate) cost: u64,
}

/// Units of a lease that a request spends or holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leased {
    /// The index of the limiter in the request.
    pub(crate) place: usize,
    pub(super) ticket: u64,
    /// When the store took them, by the store's clock.
    pub(crate) since: Timestamp,
    pub(super) units: u64,
}

impl Leased {
    /// Returns when the store took the oldest of the units of one limiter; `None` if they are none.
    pub(crate) fn oldest(all: &[Self], place: usize) -> Option<Timestamp> {
        all.iter().filter(|part| part.place == place).map(|part| part.since).min()
    }
}

/// The decider of a request: this process or the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// It is admitted: all limiters spend leased units.
    Here(Vec<Leased>),
    /// The store decides, in one step over the limiters that have no part in these units. They are held until then:
    /// spent if the request is admitted ([`Book::commit`]), and else released ([`Book::release`]).
    Store(Vec<Leased>),
}

/// The use of a granted lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Granted {
    /// It can be spent. Its unspent units are to be given back when `due` comes ([`Book::close`]).
    Held {
        /// By the clock of this process.
        due: Micros,
        /// When it ends, by the same clock.
        ends: Micros,
    },
    /// Nothing waits for it: its units are to be given back, unless this reply was received before.
    NotAsked,
    /// It ended before the reply came: its units are to be given back as well.
    Ended,
}

/// The units of all leases so far, by their fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseCounts {
    /// Units of leases that could be spent here.
    pub(crate) taken: u64,
    pub(crate) spent: u64,
    /// Units that were handed out to be given back.
    pub(crate) unspent: u64,
}

/// All leases of one process.
#[derive(Debug)]
pub(crate) struct Book<K> {
    limiters: HashMap<K, LeasedLimiter>,
    most_limiters: usize,
    next_ticket: u64,
    /// Limiters are not searched for idle ones before this time.
    next_sweep: Micros,
    counts: LeaseCounts,
}

impl<K: Clone + Eq + Hash> Book<K> {
    /// An empty book of at most `most_limiters`. The requests of others are decided by the store.
    pub(crate) fn new(most_limiters: usize) -> Self {
        Self {
            limiters: HashMap::new(),
            most_limiters,
            next_ticket: 1,
            next_sweep: Micros::ZERO,
            counts: LeaseCounts::default(),
        }
    }

    /// Returns the fate of the units of all leases so far.
    pub(crate) const fn counts(&self) -> LeaseCounts {
        self.counts
    }

    /// Returns the standing of a limiter: as the store last reported, with the unspent units of its leases, and the
    /// store's clock now.
    pub(crate) fn standing(&self, now: Micros, key: &K) -> Option<LimiterReport> {
        Some(self.limiters.get(key)?.standing(now))
    }

    /// Returns whether a limiter of a request has enough leased units.
    pub(crate) fn has(&self, now: Micros, ask: &BookAsk<'_, K>) -> bool {
        let limiter = self.limiters.get(ask.key).filter(|one| Some(one.terms) == ask.terms);
        ask.cost > 0 && limiter.is_some_and(|one| one.units(now) >= ask.cost)
    }

    /// Returns whether all limiters of a request have enough leased units.
    #[cfg(feature = "redis")]
    pub(crate) fn has_all(&self, now: Micros, asks: &[BookAsk<'_, K>]) -> bool {
        !asks.is_empty() && asks.iter().all(|ask| self.has(now, ask))
    }

    /// Decides a request whose limiters all have enough leased units. Of any other request, holds leased units of the
    /// limiters that have enough.
    pub(crate) fn decide(&mut self, now: Micros, asks: &[BookAsk<'_, K>]) -> Choice {
        let mut all = !asks.is_empty();
        // All of them, also after one that has too few: each notes the demand.
        for ask in asks {
            all &= self.is_demanded(now, ask);
        }
        let mut leased = Vec::with_capacity(asks.len());
        // The only limiter has too few units, so no other limiter has units to hold.
        if !all && asks.len() < 2 {
            return Choice::Store(leased);
        }
        for (place, ask) in asks.iter().enumerate() {
            // A limiter with too few units keeps them all: the store decides its whole cost.
            if !all && !self.has(now, ask) {
                continue;
            }
            let Some(limiter) = self.limiters.get_mut(ask.key) else { continue };
            // Held and not spent if the store still decides a part: it may refuse.
            limiter.take(now, ask.cost, !all, |lease, units| {
                leased.push(Leased { place, ticket: lease.ticket, since: lease.since, units });
            });
        }
        if !all {
            return Choice::Store(leased);
        }
        self.counts.spent += leased.iter().map(|part| part.units).sum::<u64>();
        Choice::Here(leased)
    }

    /// Notes that a limiter is asked, and returns whether it has enough leased units.
    fn is_demanded(&mut self, now: Micros, ask: &BookAsk<'_, K>) -> bool {
        let (Some(terms), 1..) = (ask.terms, ask.cost) else { return false };
        let Some(limiter) = self.limiter(now, ask.key, terms) else { return false };
        limiter.demanded(now, ask.cost);
        limiter.units(now) >= ask.cost
    }

    /// Notes the report about a limiter in a reply of the store.
    pub(crate) fn reported(&mut self, now: Micros, key: &K, report: LimiterReport) {
        if let Some(limiter) = self.limiters.get_mut(key) {
            limiter.reported(now, report);
        }
    }

    /// Returns a lease to ask the store for, after a request was decided. `nodes` share the limiter. The question is
    /// sent after `now`.
    pub(crate) fn wants(&mut self, now: Micros, key: &K, nodes: u64) -> Option<Wanted> {
        let units = self.limiters.get_mut(key)?.wants(now, nodes)?;
        self.ask(now, key, units, nodes)
    }

    fn ask(&mut self, now: Micros, key: &K, units: u64, nodes: u64) -> Option<Wanted> {
        let limiter = self.limiters.get_mut(key)?;
        // Tickets of all limiters are from one count, so that a late reply never names a newer question.
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let oldest = limiter.ask(now, ticket, units, nodes);
        Some(Wanted {
            ticket,
            oldest,
            units,
            life: limiter.terms.life(),
            earlier: limiter.terms.counts_earlier(),
        })
    }

    /// Takes the reply to a question: the store granted the lease.
    pub(crate) fn granted(&mut self, now: Micros, key: &K, grant: &Grant) -> Granted {
        let Some(limiter) = self.limiters.get_mut(key) else { return Granted::NotAsked };
        match limiter.granted(now, grant) {
            Err(_) => Granted::NotAsked,
            Ok(None) => Granted::Ended,
            Ok(Some(lease)) => {
                // A lease that ended on its way was never there to be spent, so it is not counted.
                self.counts.taken += lease.units;
                Granted::Held { due: lease.due, ends: lease.ends }
            }
        }
    }

    /// Takes the reply to a question: the store did not grant the lease. Also if no reply came in time.
    pub(crate) fn not_granted(&mut self, now: Micros, key: &K, ticket: u64) {
        if let Some(limiter) = self.limiters.get_mut(key) {
            limiter.not_granted(now, ticket);
        }
    }

    /// Returns the limiter of a key, which is new if there is space for it. Under newer terms it starts again; a request
    /// under older ones has none.
    fn limiter(&mut self, now: Micros, key: &K, terms: Terms) -> Option<&mut LeasedLimiter> {
        match self.limiters.get(key).map(|limiter| limiter.terms) {
            Some(known) if known == terms => return self.limiters.get_mut(key),
            // A request under an older policy does not take the leases of the newer terms.
            Some(known) if known.version() > terms.version() => return None,
            Some(_) => {
                let limiter = self.limiters.get_mut(key)?;
                limiter.renew(terms);
                return Some(limiter);
            }
            None if self.limiters.len() >= self.most_limiters => self.sweep(now, terms.life()),
            None => {}
        }
        // The sweep may have found no idle limiter.
        if self.limiters.len() >= self.most_limiters {
            return None;
        }
        Some(self.limiters.entry(key.clone()).or_insert_with(|| LeasedLimiter::new(terms)))
    }

    fn sweep(&mut self, now: Micros, life: Micros) {
        if now >= self.next_sweep {
            // A limiter becomes idle only after a life without requests, so a search before that would find few
            // more.
            self.next_sweep = now.plus(life.max(LEAST_BETWEEN_SWEEPS));
            self.limiters.retain(|_, limiter| !limiter.is_idle(now));
        }
    }
}

#[cfg(test)]
impl Leased {
    /// Returns the ticket of the lease, and how many of its units are spent or held.
    pub(crate) const fn units_of(&self) -> (u64, u64) {
        (self.ticket, self.units)
    }
}

#[cfg(test)]
impl<K: Clone + Eq + Hash> Book<K> {
    /// Returns the units of a limiter that can be spent now.
    pub(crate) fn held(&self, now: Micros, key: &K) -> u64 {
        self.limiters.get(key).map_or(0, |limiter| limiter.units(now))
    }
}
