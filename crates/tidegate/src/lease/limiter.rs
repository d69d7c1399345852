//! The leases of one limiter: the units to spend, the units asked for, and the moment to ask for more.
//!
//! The book calls it under its lock. A lease is asked for (`wants`, `ask`), granted or not, spent or held for
//! requests (`take`, `decided`), and at the end closed, which takes out the rest that goes back to the store.

use tidegate_core::Micros;

use super::demand::Demand;
use super::terms::{Size, Terms, held_for, shortened};
use super::units::{Grant, GrantedLease, Rest};
use crate::store::{LimiterReport, is_overtaken};

/// The smallest lease. When the store has less for each node, requests are decided there one by one.
const LEAST: u64 = 2;
/// The maximum number of leases that are held at once: one that is spent, and the next.
const MOST_HELD: usize = 2;
/// A share has so many halves of the units that a recent life needed. Shares of a limit that drains are smaller, and
/// are renewed more often, because units drain while they are given back.
const HALVES_OF_NEED: u64 = 4;
const HALVES_OF_DRAINING: u64 = 1;
/// After a refusal a node asks for a share again when this part of its life has passed.
const PART_OF_PAUSE: u64 = 8;
/// A share that would last for less than this part of its life is not worth having: its window, bucket or tick ends, and
/// units unspent by then could not be given back in time.
const PART_OF_LIFE: u64 = 8;

/// A ticket that the store's record of the leases may still name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OpenTicket {
    ticket: u64,
    /// True if all units of its lease are spent.
    is_spent: bool,
}

/// A lease that the store was asked for, without a reply so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AskedLease {
    ticket: u64,
    units: u64,
    /// The time before the question was sent.
    at: Micros,
    parts: u64,
}

/// One limiter, as far as this process has asked for it.
#[derive(Clone, Debug)]
pub(super) struct LeasedLimiter {
    pub(super) terms: Terms,
    demand: Demand,
    leases: Vec<GrantedLease>,
    asked: Option<AskedLease>,
    /// Tickets from the question until everything of the lease is spent or given back, in their order.
    open: Vec<OpenTicket>,
    /// True if it is to be forgotten once no ticket is open, because its rule changed.
    is_closed: bool,
    /// Units of the last lease.
    last_size: u64,
    /// The last report of the store, and when it was heard.
    report: LimiterReport,
    heard: Micros,
    /// No lease is asked for before this time, because the last question was refused or lost.
    not_before: Micros,
}

impl LeasedLimiter {
    pub(super) fn new(terms: Terms) -> Self {
        Self {
            terms,
            demand: Demand::default(),
            leases: Vec::new(),
            asked: None,
            open: Vec::new(),
            is_closed: false,
            last_size: 0,
            report: LimiterReport::default(),
            heard: Micros::ZERO,
            not_before: Micros::ZERO,
        }
    }

    /// Starts again under other terms. The leases that are there are spent no more.
    pub(super) fn renew(&mut self, terms: Terms) {
        let mut before = std::mem::replace(self, Self::new(terms));
        // Kept, because requests may hold units of them, and the store still has their records.
        before.leases.iter_mut().for_each(|lease| lease.is_closed = true);
        // The question on its way is not kept: its reply finds that nothing waits for it, and its units go back.
        self.leases = before.leases;
        self.open = before.open;
    }

    pub(super) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub(super) fn demanded(&mut self, now: Micros, cost: u64) {
        self.demand.add(now, self.terms.life(), cost);
    }

    /// Returns the units that can be spent now.
    pub(super) fn units(&self, now: Micros) -> u64 {
        self.leases.iter().filter(|lease| lease.is_open(now)).map(|lease| lease.units).sum()
    }

    /// Returns the standing of the limiter: as the store last reported, with the unspent units of the leases.
    pub(super) fn standing(&self, now: Micros) -> LimiterReport {
        let passed = Micros::from_micros(now.as_micros().saturating_sub(self.heard.as_micros()));
        let remaining = self.report.remaining.saturating_add(self.units(now));
        LimiterReport { remaining, at: self.report.at.plus(passed), ..self.report }
    }

    /// Notes the report about this limiter in a reply of the store. A report that a later report has overtaken is dropped:
    /// units that were leased in between would count as left in the store and as held here.
    pub(super) fn reported(&mut self, now: Micros, report: LimiterReport) {
        let last = self.report;
        // The last of several requests that were decided at one instant leaves the fewest units.
        let is_before_last = report.at == last.at && report.remaining > last.remaining;
        if !is_before_last && !is_overtaken(report.at, last.at) {
            self.report = report;
            self.heard = now;
        }
    }

    /// Returns the units of a lease to ask for; `None` if a lease is on its way, more than half of the last lease is
    /// left, too few requests ask, or the store has too little.
    pub(super) fn wants(&mut self, now: Micros, nodes: u64) -> Option<u64> {
        let waits = self.asked.is_some() || now < self.not_before;
        let live = self.leases.iter().filter(|lease| lease.is_open(now)).count();
        // Asked for at half of the last lease, so that the next lease is here when that is spent.
        if waits || live >= MOST_HELD || self.units(now) > self.last_size / 2 {
            return None;
        }
        let life = self.terms.life();
        let needed = self.demand.of_one_life(now, life)?;
        let (needed, part) = match self.terms.size {
            // Half of the units stay at the store, for requests that it decides itself.
            Size::Needed => (needed, self.report.remaining / 2 / nodes.max(1)),
            Size::Part => (self.of_need(now, needed)?, self.part(nodes)),
        };
        let units = needed.min(self.terms.most()).min(part);
        (units >= LEAST).then_some(units)
    }

    /// Returns the units that a share needs until its window, bucket or tick ends; `None` if that ends too soon. Nodes
    /// that ask alike get equal shares until the need of each is known.
    fn of_need(&mut self, now: Micros, needed: u64) -> Option<u64> {
        let is_new = self.demand.is_new(now, self.terms.life());
        // Twice the largest lease, because a share of a limit that drains is half of the need.
        let needed = if is_new { self.terms.most().saturating_mul(2) } else { needed };
        let life = self.terms.life().as_micros();
        let lasts = self.terms.left_of_width(self.standing(now).at).as_micros().min(life);
        let halves = if self.terms.drains() { HALVES_OF_DRAINING } else { HALVES_OF_NEED };
        // In 128 bits, because the need of a new share is twice a maximum that may be any number.
        let units = u128::from(needed) * u128::from(halves * lasts) / u128::from(2 * life.max(1));
        (lasts >= life / PART_OF_LIFE).then(|| u64::try_from(units).unwrap_or(u64::MAX))
    }

    /// Returns a node's part of the units that the store has left. The store keeps a part as well: for requests that it
    /// decides itself, and for a node that joins.
    fn part(&self, nodes: u64) -> u64 {
        self.report.remaining / self.parts(nodes).max(1)
    }

    /// Returns among how many parts a share is divided; 0 if there are none.
    fn parts(&self, nodes: u64) -> u64 {
        match self.terms.size {
            Size::Needed => 0,
            Size::Part => nodes.max(1).saturating_add(1),
        }
    }

    /// Returns the units of the next share, which is asked for as one ends and without a request; `None` if it is no
    /// share, or no request asked lately.
    pub(super) fn renewal(&mut self, now: Micros, nodes: u64) -> Option<u64> {
        if self.terms.size == Size::Needed { None } else { self.wants(now, nodes) }
    }

    /// Notes that a lease is asked for. Returns the lowest ticket that is open.
    pub(super) fn ask(&mut self, now: Micros, ticket: u64, units: u64, nodes: u64) -> u64 {
        self.asked = Some(AskedLease { ticket, units, at: now, parts: self.parts(nodes) });
        // A request has asked under terms that hold now, so the limiter is not forgotten after all.
        self.is_closed = false;
        self.open.push(OpenTicket { ticket, is_spent: false });
        self.open.first().map_or(ticket, |first| first.ticket)
    }

    /// Notes that the store's record of this ticket is not asked for again.
    pub(super) fn finished(&mut self, ticket: u64) {
        self.open.retain(|open| open.ticket != ticket);
    }

    /// Takes the units above a node's part out of a share, now that there are more nodes; `None` if there are no such
    /// units.
    pub(super) fn excess(&mut self, ticket: u64, nodes: u64) -> Option<Rest> {
        let parts = self.parts(nodes);
        let lease = self.leases.iter_mut().find(|lease| lease.ticket == ticket)?;
        if parts <= lease.parts || lease.is_closed || lease.gives_back {
            return None;
        }
        // Rounded down: this node keeps no unit above its part.
        let kept = u128::from(lease.units) * u128::from(lease.parts) / u128::from(parts);
        let kept = u64::try_from(kept).unwrap_or(lease.units);
        let units = lease.units - kept;
        // Made before the lease changes: it says how many of the units counted so far stay taken.
        let excess = GrantedLease { units, ..*lease }.rest();
        lease.units = kept;
        lease.parts = parts;
        self.last_size = kept;
        lease.counted -= units;
        lease.gives_back = units > 0;
        self.drop_spent();
        (units > 0).then_some(excess)
    }

    /// Notes that the units above a share are back, or lost. If the lease was closed in between, and no request holds
    /// units of it, it is taken out.
    pub(super) fn excess_is_back(&mut self, ticket: u64) -> Option<Rest> {
        let place = self.leases.iter().position(|lease| lease.ticket == ticket)?;
        self.leases[place].gives_back = false;
        self.taken_out_if_closed(place)
    }

    /// Returns how long this node can still spend units, unless more are taken; `None` if it has none.
    pub(super) fn lasts(&self, now: Micros) -> Option<Micros> {
        let held = self.leases.iter().filter(|lease| lease.for_cost(now, 1) > 0);
        let last = held.map(|lease| lease.ends.as_micros()).max()?;
        Some(Micros::from_micros(last.saturating_sub(now.as_micros())))
    }

    /// Takes the question with this ticket off the list; `None` if it is not there, because it was answered, given up
    /// or dropped.
    fn answered(&mut self, ticket: u64) -> Option<AskedLease> {
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
    ) -> Result<Option<GrantedLease>, NotAsked> {
        let asked = self.answered(grant.ticket).ok_or(NotAsked)?;
        let length = shortened(grant.end.since(grant.since));
        // From before the question: the store took the units later, so they end here before they end there.
        let ends = asked.at.plus(length);
        let due = asked.at.plus(held_for(length));
        let earlier = self.terms.counts_earlier();
        let AskedLease { ticket, units, parts, .. } = asked;
        let lease = GrantedLease {
            ticket,
            since: grant.since,
            units,
            held: 0,
            counted: units,
            ends,
            due,
            earlier,
            parts,
            gives_back: false,
            is_closed: false,
        };
        self.last_size = lease.units;
        if now >= lease.ends {
            // The reply took as long as a lease lives, so the next lease would end before its reply as well.
            self.pause(now);
            return Ok(None);
        }
        // Leases that end first are spent first.
        let place = self.leases.partition_point(|other| other.ends <= lease.ends);
        self.leases.insert(place, lease);
        Ok(Some(lease))
    }

    /// Takes `cost` units out of the leases that end first, and reports each lease with its units. There must be enough.
    /// The units are spent, or held until [`LeasedLimiter::decided`].
    pub(super) fn take(
        &mut self,
        now: Micros,
        cost: u64,
        holds: bool,
        mut report: impl FnMut(&GrantedLease, u64),
    ) {
        let mut owed = cost;
        let mut is_empty = false;
        for lease in &mut self.leases {
            let units = lease.for_cost(now, owed);
            if units > 0 {
                lease.units -= units;
                owed -= units;
                if holds {
                    lease.held += units;
                }
                is_empty |= lease.units == 0;
                report(lease, units);
            }
        }
        // Leases are searched only when one may be dropped: this runs for every request.
        if is_empty && !holds {
            self.drop_spent();
        }
    }

    /// Drops leases whose units are all spent.
    fn drop_spent(&mut self) {
        let Self { leases, open, .. } = self;
        leases.retain(|lease| {
            let stays = lease.units > 0 || !lease.is_at_rest();
            if !stays {
                // Its ticket stays open until the lease is due, when the task that waits for that ends it.
                let own = open.iter_mut().find(|open| open.ticket == lease.ticket);
                own.into_iter().for_each(|open| open.is_spent = true);
            }
            stays
        });
    }

    /// Ends the holding of units: they are spent, or return to their lease. If the lease was closed and no request
    /// holds units of it any more, it is taken out.
    pub(super) fn decided(&mut self, ticket: u64, units: u64, is_spent: bool) -> Option<Rest> {
        let place = self.leases.iter().position(|lease| lease.ticket == ticket)?;
        let lease = &mut self.leases[place];
        lease.held = lease.held.saturating_sub(units);
        if !is_spent {
            lease.units += units;
        }
        self.taken_out_if_closed(place)
    }

    fn taken_out_if_closed(&mut self, place: usize) -> Option<Rest> {
        if self.leases[place].is_closed && self.leases[place].is_at_rest() {
            return Some(self.leases.remove(place).rest());
        }
        self.drop_spent();
        None
    }

    /// Closes a lease: none of its units is spent from now on. Takes out the unspent units; `None` while requests hold
    /// units of it or some are on their way back, and if it is not here.
    pub(super) fn close(&mut self, ticket: u64) -> Option<Rest> {
        let Some(place) = self.leases.iter().position(|lease| lease.ticket == ticket) else {
            let is_spent = self.open.iter().any(|open| open.ticket == ticket && open.is_spent);
            // No units go back, but the caller still has to end the ticket of a spent lease.
            let nothing = Rest { ticket, units: 0, kept: 0, earlier: Micros::ZERO };
            return is_spent.then_some(nothing);
        };
        self.leases[place].is_closed = true;
        self.leases[place].is_at_rest().then(|| self.leases.remove(place).rest())
    }

    /// Closes all leases. Replies to questions sent before are not waited for.
    pub(super) fn close_all(&mut self) -> Vec<Rest> {
        self.asked = None;
        self.is_closed = true;
        // Collected first, because closing takes leases out of the list.
        let tickets: Vec<_> = self.leases.iter().map(|lease| lease.ticket).collect();
        tickets.into_iter().filter_map(|ticket| self.close(ticket)).collect()
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
            Size::Part => life / PART_OF_PAUSE,
        };
        self.not_before = now.plus(Micros::from_micros(pause));
    }

    /// Returns whether this limiter can be forgotten: it has nothing, waits for nothing, and no request asks.
    pub(super) fn is_idle(&mut self, now: Micros) -> bool {
        self.leases.is_empty()
            && self.open.is_empty()
            && (self.is_closed || self.demand.is_none(now, self.terms.life()))
    }
}

/// A reply about a lease that nothing waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotAsked;
