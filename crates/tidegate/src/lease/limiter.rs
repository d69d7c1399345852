//! The leases of one limiter: what can be spent, what is asked for, and when to ask for more.

use tidegate_core::{Micros, Timestamp};

use super::demand::Demand;
use super::reply::{Grant, Report};
use super::terms::{Size, Terms, held_for, shortened};

/// The least lease. When the store has less for each node, requests are decided there one by one.
const LEAST: u64 = 2;
/// The most leases that are held at once: one that is spent, and the next.
const MOST_HELD: usize = 2;
/// A share has so many halves of the units that one life needed. Of what drains it has less, and more shares are taken:
/// units that are given back drain meanwhile.
const HALVES_OF_NEED: u64 = 4;
const HALVES_OF_DRAINING: u64 = 1;
/// After a refusal a node asks for a share again when this part of its life has passed.
const PART_OF_PAUSE: u64 = 8;
/// A share that would last for less than this part of its life is not worth having: its window, bucket or tick ends, and
/// what is unspent then could not be given back in time.
const PART_OF_LIFE: u64 = 8;

/// A lease that was granted and has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) ticket: u64,
    /// Units that can still be spent.
    pub(super) units: u64,
    /// When it ends, by the clock of this process.
    pub(super) ends: Micros,
    /// When the rest is to be given back.
    pub(super) due: Micros,
    /// When its units count as taken if they are given back, by the store's clock.
    pub(super) since: Timestamp,
    /// Among how many parts the limit was divided for it: one for each node and one for the store. 0 if it is no
    /// share.
    parts: u64,
}

/// A lease that the store was asked for, without a reply so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    ticket: u64,
    units: u64,
    /// The time before the question was sent.
    at: Micros,
    parts: u64,
}

/// One limiter, as far as this process has asked for it.
#[derive(Clone, Debug)]
pub(super) struct Limiter {
    pub(super) terms: Terms,
    /// The lowest ticket of a lease of this limiter; those before may be of one of this key that was dropped.
    pub(super) first_valid: u64,
    demand: Demand,
    leases: Vec<Lease>,
    asked: Option<Asked>,
    /// Units of the last lease.
    last_size: u64,
    /// What the store last reported, and when that was heard.
    report: Report,
    heard: Micros,
    /// No lease is asked for before this time, because the last question was refused or lost.
    not_before: Micros,
}

impl Limiter {
    pub(super) fn new(terms: Terms, first_valid: u64) -> Self {
        Self {
            terms,
            first_valid,
            demand: Demand::default(),
            leases: Vec::new(),
            asked: None,
            last_size: 0,
            report: Report::default(),
            heard: Micros::ZERO,
            not_before: Micros::ZERO,
        }
    }

    pub(super) fn demanded(&mut self, now: Micros, cost: u64) {
        self.demand.add(now, self.terms.life(), cost);
    }

    /// Returns the units that can be spent now.
    pub(super) fn units(&self, now: Micros) -> u64 {
        self.leases.iter().filter(|lease| now < lease.ends).map(|lease| lease.units).sum()
    }

    /// Returns how the limiter stands: as the store last reported, with what is left of the leases.
    pub(super) fn standing(&self, now: Micros) -> Report {
        let passed = Micros::from_micros(now.as_micros().saturating_sub(self.heard.as_micros()));
        let remaining = self.report.remaining.saturating_add(self.units(now));
        Report { remaining, at: self.report.at.plus(passed), ..self.report }
    }

    /// Notes what a reply of the store about this limiter reported.
    pub(super) const fn reported(&mut self, now: Micros, report: Report) {
        (self.report, self.heard) = (report, now);
    }

    /// Returns the units of a lease to ask for; `None` if one is on its way, more than half of the last one is left, too
    /// few ask, or the store has too little.
    pub(super) fn wants(&mut self, now: Micros, nodes: u64) -> Option<u64> {
        let waits = self.asked.is_some() || now < self.not_before;
        let live = self.leases.iter().filter(|lease| now < lease.ends).count();
        if waits || live >= MOST_HELD || self.units(now) > self.last_size / 2 {
            return None;
        }
        let life = self.terms.life();
        let needed = self.demand.of_one_life(now, life)?;
        let (needed, part) = match self.terms.size {
            Size::Needed => (needed, self.report.remaining / 2 / nodes.max(1)),
            Size::Part { .. } => (self.of_need(now, needed)?, self.part(nodes)),
        };
        let units = needed.min(self.terms.most()).min(part);
        (units >= LEAST).then_some(units)
    }

    /// Returns the units that a share needs until its window, bucket or tick ends; `None` if that ends too soon. Nodes
    /// that ask alike get equal shares until it is known what each needs.
    fn of_need(&mut self, now: Micros, needed: u64) -> Option<u64> {
        let is_new = self.demand.is_new(now, self.terms.life());
        let needed = if is_new { self.terms.most().saturating_mul(2) } else { needed };
        let life = self.terms.life().as_micros();
        let lasts = self.terms.left_of_width(self.standing(now).at).as_micros().min(life);
        let halves = if self.terms.drains() { HALVES_OF_DRAINING } else { HALVES_OF_NEED };
        let units = u128::from(needed) * u128::from(halves * lasts) / u128::from(2 * life.max(1));
        (lasts >= life / PART_OF_LIFE).then(|| u64::try_from(units).unwrap_or(u64::MAX))
    }

    /// Returns a node's part of what the store has left. The store keeps one as well: for requests that it decides
    /// itself, and for a node that joins.
    fn part(&self, nodes: u64) -> u64 {
        self.report.remaining / self.parts(nodes).max(1)
    }

    /// Returns among how many parts a share is divided; 0 if there are none.
    fn parts(&self, nodes: u64) -> u64 {
        match self.terms.size {
            Size::Needed => 0,
            Size::Part { among } => among.unwrap_or(nodes).max(1).saturating_add(1),
        }
    }

    /// Returns the units of the next share, which is asked for as one ends and without a request; `None` if it is no
    /// share, or nobody asked lately.
    pub(super) fn renewal(&mut self, now: Micros, nodes: u64) -> Option<u64> {
        if self.terms.size == Size::Needed { None } else { self.wants(now, nodes) }
    }

    pub(super) fn ask(&mut self, now: Micros, ticket: u64, units: u64, nodes: u64) {
        self.asked = Some(Asked { ticket, units, at: now, parts: self.parts(nodes) });
    }

    /// Takes out of a share what exceeds the part of a node now that there are more nodes; `None` if nothing does.
    pub(super) fn excess(&mut self, ticket: u64, nodes: u64) -> Option<Lease> {
        let parts = self.parts(nodes);
        let lease = self.leases.iter_mut().find(|lease| lease.ticket == ticket)?;
        if parts <= lease.parts {
            return None;
        }
        let kept = u128::from(lease.units) * u128::from(lease.parts) / u128::from(parts);
        let kept = u64::try_from(kept).unwrap_or(lease.units);
        let units = lease.units - kept;
        (lease.units, lease.parts, self.last_size) = (kept, parts, kept);
        let excess = Lease { units, ..*lease };
        self.leases.retain(|lease| lease.units > 0);
        (units > 0).then_some(excess)
    }

    /// Returns how long this node can still spend units, unless more are taken; `None` if it has none.
    pub(super) fn lasts(&self, now: Micros) -> Option<Micros> {
        let held = self.leases.iter().filter(|lease| now < lease.ends && lease.units > 0);
        let last = held.map(|lease| lease.ends.as_micros()).max()?;
        Some(Micros::from_micros(last.saturating_sub(now.as_micros())))
    }

    /// Takes the question with this ticket off the list; `None` if it is not there, because it was answered, given up
    /// or dropped.
    fn answered(&mut self, ticket: u64) -> Option<Asked> {
        let asked = self.asked.filter(|asked| asked.ticket == ticket)?;
        self.asked = None;
        Some(asked)
    }

    /// Holds the lease that was granted. It ends here as though it had been taken when the question was sent. Returns
    /// the lease; `None` if it has ended; an error if it was not waited for.
    pub(super) fn granted(
        &mut self,
        now: Micros,
        grant: &Grant,
    ) -> Result<Option<Lease>, NotAsked> {
        let asked = self.answered(grant.ticket).ok_or(NotAsked)?;
        let length = shortened(grant.end.since(grant.since));
        let (ends, due) = (asked.at.plus(length), asked.at.plus(held_for(length)));
        let since = self.terms.counted_from(grant.since);
        let Asked { ticket, units, parts, .. } = asked;
        let lease = Lease { ticket, units, ends, due, since, parts };
        self.last_size = lease.units;
        if now >= lease.ends {
            self.pause(now);
            return Ok(None);
        }
        self.hold(lease);
        Ok(Some(lease))
    }

    /// Adds a lease; those that end first are spent first.
    fn hold(&mut self, lease: Lease) {
        let place = self.leases.partition_point(|other| other.ends <= lease.ends);
        self.leases.insert(place, lease);
    }

    /// Spends `cost` units of the leases that end first, and reports what each of them spent. There must be enough. A
    /// lease without units is no longer held.
    pub(super) fn spend(&mut self, now: Micros, cost: u64, mut report: impl FnMut(Lease)) {
        let mut owed = cost;
        for lease in self.leases.iter_mut().filter(|lease| now < lease.ends) {
            let units = lease.units.min(owed);
            if units > 0 {
                (lease.units, owed) = (lease.units - units, owed - units);
                report(Lease { units, ..*lease });
            }
        }
        self.leases.retain(|lease| lease.units > 0);
    }

    /// Puts spent units back into their lease, and returns whether it takes them. A lease of which all units were spent
    /// takes them until it is due.
    pub(super) fn put_back(&mut self, now: Micros, part: Lease) -> bool {
        if part.ticket < self.first_valid {
            return false;
        }
        match self.leases.iter_mut().find(|lease| lease.ticket == part.ticket) {
            Some(lease) => lease.units += part.units,
            None if now < part.due => self.hold(part),
            None => return false,
        }
        true
    }

    /// Takes out a lease; `None` if it is not held.
    pub(super) fn take_out(&mut self, ticket: u64) -> Option<Lease> {
        let place = self.leases.iter().position(|lease| lease.ticket == ticket)?;
        Some(self.leases.remove(place))
    }

    /// Notes that the store refused the lease of this ticket, or did not reply in time.
    pub(super) fn not_granted(&mut self, now: Micros, ticket: u64) {
        if self.answered(ticket).is_some() {
            self.pause(now);
        }
    }

    const fn pause(&mut self, now: Micros) {
        let life = self.terms.life().as_micros();
        let pause = match self.terms.size {
            Size::Needed => life,
            Size::Part { .. } => life / PART_OF_PAUSE,
        };
        self.not_before = now.plus(Micros::from_micros(pause));
    }

    /// Returns the leases that were held.
    pub(super) fn into_leases(self) -> Vec<Lease> {
        self.leases
    }

    /// Returns whether this limiter can be forgotten: it has nothing, waits for nothing, and nobody asks.
    pub(super) fn is_idle(&mut self, now: Micros) -> bool {
        self.leases.is_empty()
            && self.asked.is_none()
            && self.demand.is_none(now, self.terms.life())
    }
}

/// A reply about a lease that nothing waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotAsked;
