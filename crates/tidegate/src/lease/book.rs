//! The book of leases of one process: which requests it decides, and which leases are asked for and given back.

mod shares;

use std::collections::HashMap;
use std::hash::Hash;

use tidegate_core::{Micros, Timestamp};

use super::limiter::{Lease, Limiter};
use super::reply::{Grant, Report};
use super::terms::Terms;

/// The least time between two searches for idle limiters, during which other requests wait.
const LEAST_BETWEEN_SWEEPS: Micros = Micros::from_millis(100);

/// One limiter of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a, K> {
    pub(crate) key: &'a K,
    /// `None` if the rule has no leases.
    pub(crate) terms: Option<Terms>,
    pub(crate) cost: u64,
}

/// Units of a lease that a request spends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spent {
    /// The index of the limiter in the request.
    pub(crate) place: usize,
    part: Lease,
}

impl Spent {
    /// Returns the ticket of the lease, and how many of its units are spent.
    #[cfg(test)]
    pub(crate) const fn units_of(&self) -> (u64, u64) {
        (self.part.ticket, self.part.units)
    }
}

/// The decider of a request: this process or the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// It is admitted: all limiters spend leased units.
    Here(Vec<Spent>),
    /// The store decides, in one step over the limiters that have no part in these units. If it does not admit the
    /// request, they are put back ([`Book::put_back`]).
    Store(Vec<Spent>),
}

/// A lease to ask the store for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The number of the question, which its reply repeats.
    pub(crate) ticket: u64,
    pub(crate) units: u64,
    pub(crate) life: Micros,
}

/// The use of a granted lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Granted {
    /// It can be spent. What is left of it is to be given back when `due` comes ([`Book::take_out`]).
    Held {
        /// By the clock of this process.
        due: Micros,
        /// When it ends, by the same clock.
        ends: Micros,
    },
    /// Nothing waits for it: its units are to be given back, unless this reply was received before.
    NotAsked,
    /// It ended before the reply came: its units are to be given back likewise.
    Ended,
}

/// Unspent units of a lease, to give back to the store once at most. The book no longer has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unspent<K> {
    pub(crate) key: K,
    pub(crate) ticket: u64,
    pub(crate) units: u64,
    /// They are given back as though they had been taken at this time, by the store's clock.
    pub(crate) since: Timestamp,
    /// The version of the terms of the lease.
    pub(crate) version: u64,
}

/// The units of all leases so far, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Units of leases that were held.
    pub(crate) taken: u64,
    pub(crate) spent: u64,
    /// Units that were handed out to be given back.
    pub(crate) unspent: u64,
    /// Units that were put back too late to be spent or given back, or whose terms ended.
    pub(crate) expired: u64,
}

/// All leases of one process.
#[derive(Debug)]
pub(crate) struct Book<K> {
    limiters: HashMap<K, Limiter>,
    most_limiters: usize,
    next_ticket: u64,
    /// The lowest ticket that a new limiter takes units back of: those before may be of a limiter that was dropped.
    first_valid: u64,
    /// Limiters are not searched for idle ones before this time.
    next_sweep: Micros,
    counts: Counts,
}

impl<K: Clone + Eq + Hash> Book<K> {
    /// An empty book of at most `most_limiters`. The requests of others are decided by the store.
    pub(crate) fn new(most_limiters: usize) -> Self {
        Self {
            limiters: HashMap::new(),
            most_limiters,
            next_ticket: 1,
            first_valid: 1,
            next_sweep: Micros::ZERO,
            counts: Counts::default(),
        }
    }

    /// Returns what became of the units of all leases so far.
    pub(crate) const fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the units of a limiter that can be spent now.
    #[cfg(test)]
    pub(crate) fn held(&self, now: Micros, key: &K) -> u64 {
        self.limiters.get(key).map_or(0, |limiter| limiter.units(now))
    }

    /// Returns how a limiter stands: as the store last reported, with what is left of its leases, and the store's
    /// clock now.
    pub(crate) fn standing(&self, now: Micros, key: &K) -> Option<Report> {
        Some(self.limiters.get(key)?.standing(now))
    }

    /// Returns whether all limiters of a request have enough leased units.
    pub(crate) fn has_all(&self, now: Micros, asks: &[Ask<'_, K>]) -> bool {
        let has = |ask: &Ask<'_, K>| {
            let limiter = self.limiters.get(ask.key).filter(|one| Some(one.terms) == ask.terms);
            ask.cost > 0 && limiter.is_some_and(|one| one.units(now) >= ask.cost)
        };
        !asks.is_empty() && asks.iter().all(has)
    }

    /// Decides a request whose limiters all have enough leased units. Of any other request, spends the leased units of
    /// the limiters that have enough.
    pub(crate) fn decide(&mut self, now: Micros, asks: &[Ask<'_, K>]) -> Choice {
        let (mut spent, mut all) = (Vec::with_capacity(asks.len()), !asks.is_empty());
        for (place, ask) in asks.iter().enumerate() {
            all &= self.spend(now, place, ask, &mut spent);
        }
        if !all {
            return Choice::Store(spent);
        }
        self.keep(&spent);
        Choice::Here(spent)
    }

    /// Counts units as spent, because the store admitted the rest of their request.
    pub(crate) fn keep(&mut self, spent: &[Spent]) {
        self.counts.spent += spent.iter().map(|Spent { part, .. }| part.units).sum::<u64>();
    }

    /// Spends the cost of one limiter, if it has enough.
    fn spend(
        &mut self,
        now: Micros,
        place: usize,
        ask: &Ask<'_, K>,
        spent: &mut Vec<Spent>,
    ) -> bool {
        let (Some(terms), 1..) = (ask.terms, ask.cost) else { return false };
        let Some(limiter) = self.limiter(now, ask.key, terms) else { return false };
        limiter.demanded(now, ask.cost);
        if limiter.units(now) < ask.cost {
            return false;
        }
        limiter.spend(now, ask.cost, |part| spent.push(Spent { place, part }));
        true
    }

    /// Puts back units that a request spent in vain, because the store refused it or did not reply. They can be spent
    /// until the rest of their lease is given back.
    pub(crate) fn put_back(&mut self, now: Micros, asks: &[Ask<'_, K>], spent: &[Spent]) {
        for Spent { place, part } in spent {
            let limiter = asks.get(*place).and_then(|ask| self.limiters.get_mut(ask.key));
            if !limiter.is_some_and(|limiter| limiter.put_back(now, *part)) {
                self.counts.expired += part.units;
            }
        }
    }

    /// Notes what a reply of the store reported of a limiter.
    pub(crate) fn reported(&mut self, now: Micros, key: &K, report: Report) {
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
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        limiter.ask(now, ticket, units, nodes);
        Some(Wanted { ticket, units, life: limiter.terms.life() })
    }

    /// Takes the reply to a question: the store granted the lease.
    pub(crate) fn granted(&mut self, now: Micros, key: &K, grant: &Grant) -> Granted {
        let Some(limiter) = self.limiters.get_mut(key) else { return Granted::NotAsked };
        match limiter.granted(now, grant) {
            Err(_) => Granted::NotAsked,
            Ok(None) => Granted::Ended,
            Ok(Some(lease)) => {
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

    /// Takes out what is left of a lease when it is due; `None` if nothing is. A lease that has ended meanwhile is given
    /// back as well: what is given back counts by when it was taken.
    pub(crate) fn take_out(&mut self, key: &K, ticket: u64) -> Option<Unspent<K>> {
        let limiter = self.limiters.get_mut(key)?;
        let (lease, version) = (limiter.take_out(ticket)?, limiter.terms.version());
        Some(self.taken_out(key.clone(), lease, version))
    }

    /// Counts what is left of a lease that the book no longer has.
    const fn taken_out(&mut self, key: K, lease: Lease, version: u64) -> Unspent<K> {
        self.counts.unspent += lease.units;
        let Lease { ticket, units, since, .. } = lease;
        Unspent { key, ticket, units, since, version }
    }

    /// Returns whether the units of a lease that nothing waits for can be given back. They cannot if its limiter was
    /// dropped since ([`Book::drop_those`]), because what they were taken from may have been reset.
    pub(crate) fn is_valid(&self, key: &K, ticket: u64) -> bool {
        ticket >= self.limiters.get(key).map_or(self.first_valid, |limiter| limiter.first_valid)
    }

    /// Drops the leases of all limiters that `of` selects, for example because their rule changed or they were reset;
    /// returns their units. Replies to questions sent before are not waited for.
    pub(crate) fn drop_those(&mut self, of: impl Fn(&K) -> bool) -> Vec<Unspent<K>> {
        self.first_valid = self.next_ticket;
        self.take_those_out(of)
    }

    /// Like [`Book::drop_those`], for limiters that were not reset: leases that are granted later can be given back.
    pub(crate) fn take_those_out(&mut self, of: impl Fn(&K) -> bool) -> Vec<Unspent<K>> {
        let dropped: Vec<_> = self.limiters.extract_if(|key, _| of(key)).collect();
        let mut all = Vec::new();
        for (key, limiter) in dropped {
            let version = limiter.terms.version();
            for lease in limiter.into_leases() {
                all.push(self.taken_out(key.clone(), lease, version));
            }
        }
        all
    }

    /// Returns the limiter of a key, which is new if there is room for it. Under newer terms it starts fresh, and what is
    /// left of its leases expires; a request under older ones has none.
    fn limiter(&mut self, now: Micros, key: &K, terms: Terms) -> Option<&mut Limiter> {
        match self.limiters.get(key).map(|limiter| limiter.terms) {
            Some(known) if known == terms => return self.limiters.get_mut(key),
            Some(known) if known.version() > terms.version() => return None,
            Some(_) => {
                let dropped = self.drop_those(|other| other == key);
                let units = dropped.iter().map(|rest| rest.units).sum::<u64>();
                self.counts.unspent -= units;
                self.counts.expired += units;
            }
            None if self.limiters.len() >= self.most_limiters => self.sweep(now, terms.life()),
            None => {}
        }
        if self.limiters.len() >= self.most_limiters {
            return None;
        }
        let first_valid = self.first_valid;
        Some(self.limiters.entry(key.clone()).or_insert_with(|| Limiter::new(terms, first_valid)))
    }

    fn sweep(&mut self, now: Micros, life: Micros) {
        if now >= self.next_sweep {
            self.next_sweep = now.plus(life.max(LEAST_BETWEEN_SWEEPS));
            self.limiters.retain(|_, limiter| !limiter.is_idle(now));
        }
    }
}
