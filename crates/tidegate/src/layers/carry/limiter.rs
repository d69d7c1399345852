//! The units in use of a limiter, as far as this node knows.

use tidegate_core::{Rule, Timestamp, Token, UsedUnits};

use crate::store::{KnownUse, is_overtaken};

/// The data that has the units of a limiter: of a server, after so many losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DataOf {
    pub(super) server: u64,
    pub(super) losses: u32,
}

impl DataOf {
    pub(super) const fn is_of(self, server: u64) -> bool {
        self.server == server
    }
}

/// The units in use of a limiter.
#[derive(Debug)]
pub(super) struct KnownLimiter {
    /// Oldest first, by the clock of the store.
    pub(super) used: Vec<UsedUnits>,
    /// The time of the last report, and of the last unit, by the clock of the store.
    pub(super) at: Timestamp,
    pub(super) last: Timestamp,
    /// When the last unit leaves, by the clock of this process.
    pub(super) until: Timestamp,
    /// The data that reported these units.
    pub(super) data: DataOf,
    /// True if they are to be carried, because the server may not have them.
    pub(super) is_lost: bool,
    /// The number of the last request that began to carry them; 0 if none did.
    pub(super) carry: u64,
    /// The state of that request.
    pub(super) carrying: CarryState,
    /// Their last carry that took the place of what the server had. In a box, because few limiters have any.
    pub(super) carried: Option<Box<CarriedUnits>>,
}

/// The state of the last request that began to carry units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CarryState {
    /// Its reply was noted.
    Done,
    /// It has no reply yet, or its reply was lost.
    UnderWay,
    /// It has no reply, and it is not known if a request before it was done, which had no reply either.
    InDoubt,
}

/// Units that were carried.
#[derive(Clone, Copy, Debug)]
pub(super) struct CarriedUnits {
    /// The server that reported them, from when on it had them, and when it reported them, by its clock.
    from: u64,
    since: Timestamp,
    reported: Timestamp,
    /// When they were carried, by the clock of the server that has them.
    at: Timestamp,
}

impl CarriedUnits {
    /// Returns whether the units of a reply are among them.
    fn has(&self, reply: &ReplyTimes) -> bool {
        self.from == reply.server && (self.since..self.reported).contains(&reply.now)
    }
}

impl KnownLimiter {
    pub(super) fn counts_at(&self, now: Timestamp) -> bool {
        now < self.until && !self.used.is_empty()
    }

    /// A limiter with units that count, of which none were known; `before` is what is left of an older entry.
    pub(super) fn new(
        rule: &Rule,
        UseReport { used, at, until, .. }: UseReport<'_>,
        data: DataOf,
        before: Option<&mut Self>,
    ) -> Option<Self> {
        let (used, last) = used.take()?;
        let used = rule.known_units(&[], used, at);
        let mut one = Self {
            used,
            at,
            last,
            until,
            data,
            is_lost: false,
            carry: 0,
            carrying: CarryState::Done,
            carried: None,
        };
        if let Some(before) = before {
            one.carry = before.carry;
            one.carrying = before.carrying;
            one.carried = before.carried.take();
        }
        Some(one)
    }

    /// Notes that a request with this number begins to carry its units.
    pub(super) fn begin_carry(&mut self, number: u64, is_again: bool) {
        self.carry = number;
        self.carrying = match self.carrying {
            CarryState::Done => CarryState::UnderWay,
            _ if is_again => self.carrying,
            _ => CarryState::InDoubt,
        };
    }

    /// Returns the carry that took units from the data that a reply is of, since the reply was asked for.
    fn carried_since(&self, reply: &ReplyTimes) -> Option<&CarriedUnits> {
        let carried = self.carried.as_deref().filter(|_| self.carry > reply.carries)?;
        let is_former = !self.data.is_of(reply.server) || reply.now < carried.at;
        is_former.then_some(carried)
    }

    /// Returns whether the units that were carried since a reply was asked for are with the units of this reply.
    pub(super) fn covers(&self, reply: &ReplyTimes) -> bool {
        self.carried_since(reply).is_some_and(|carried| carried.has(reply))
    }

    /// Returns whether a reply has units that were left out when units were carried from its data. Without a reply to the
    /// last request that carried them, because it was lost or is still on its way, the reply may have such units.
    pub(super) fn lacks(&self, reply: &ReplyTimes) -> bool {
        if self.carrying != CarryState::Done {
            return self.carry > reply.carries && !self.carried_at(reply.now).has(reply);
        }
        self.carried_since(reply).is_some() && !self.covers(reply)
    }

    /// Returns the limiter after a report, for which it was asked with what was `known` then; `None` if it stays.
    pub(super) fn after(
        &mut self,
        rule: &Rule,
        known: &KnownUse,
        UseReport { used, at, until, reply }: UseReport<'_>,
        data: DataOf,
    ) -> Option<Self> {
        let (used, last) = used.take()?;
        // Other replies wait for the request that carries, so it has carried all units.
        let is_carried = known.carried().is_some();
        let is_same = self.data == data && self.carried_since(&reply).is_none();
        let is_stored = is_carried || is_same && !self.is_lost;
        let used = rule.known_units(&self.used, used, at);
        let order = amount(&used).cmp(&amount(&self.used));
        // Of requests that were decided at one instant, the last has taken most. Data without the known units says
        // nothing of them; if it has more, these are carried.
        let stays = is_same && is_overtaken(at, self.at)
            || if is_stored { order.is_lt() && at == self.at } else { order.is_le() };
        if !is_carried && stays {
            return None;
        }
        let is_other = !self.data.is_of(reply.server) || self.carrying == CarryState::InDoubt;
        let carried = if is_carried && (reply.took_place || is_other) {
            Some(Box::new(self.carried_at(reply.now)))
        } else {
            self.carried.take()
        };
        let last = last.max(self.last);
        let until = if is_stored { until } else { until.max(self.until) };
        let carrying = if is_carried { CarryState::Done } else { self.carrying };
        let is_lost = !is_stored;
        Some(Self { used, at, last, until, data, is_lost, carry: self.carry, carrying, carried })
    }

    /// Its units as they were carried at some time.
    fn carried_at(&self, at: Timestamp) -> CarriedUnits {
        let since = self.carried.as_ref().map_or(Timestamp::EPOCH, |before| before.at);
        CarriedUnits { from: self.data.server, since, reported: self.at, at }
    }

    /// Moves units of a permit that was returned, or that lasts from `renewed` on: then as many of the oldest if it is not
    /// known.
    pub(super) fn moved(
        &mut self,
        token: Token,
        cost: u64,
        renewed: Option<Timestamp>,
        ReplyTimes { now, server, .. }: ReplyTimes,
    ) {
        // A later report is without the permit, and perhaps a report of that instant.
        if !self.data.is_of(server) || now == self.at || is_overtaken(now, self.at) {
            return;
        }
        let its = self.used.iter().position(|one| one.since.as_micros() == token.as_micros());
        let place = if renewed.is_some() { its.unwrap_or(0) } else { its.unwrap_or(usize::MAX) };
        let Some(entry) = self.used.get_mut(place) else { return };
        // Other permits may count from that time as well.
        let units = cost.min(entry.units);
        entry.units -= units;
        self.used.extend(renewed.map(|since| UsedUnits { since, units }));
        self.used.retain(|one| one.units > 0);
    }
}

/// A reply to a question.
#[derive(Clone, Copy)]
pub(super) struct ReplyTimes {
    /// The number of times that a request had begun to carry the units of a limiter when it was asked for.
    pub(super) carries: u64,
    /// When it was asked for, by the clock of this process.
    pub(super) sent: Timestamp,
    /// True if no other request carries units of its limiters now.
    pub(super) is_alone: bool,
    /// When and by which server it was decided.
    pub(super) now: Timestamp,
    pub(super) server: u64,
    /// True if the units that were carried with the question took the place of what the server had.
    pub(super) took_place: bool,
}

/// A report of the store about a limiter.
pub(super) struct UseReport<'a> {
    /// The units in use, and the time of the last. They are taken from it when they are noted.
    pub(super) used: &'a mut Option<(Vec<UsedUnits>, Timestamp)>,
    /// When it was decided, by the clock of the store.
    pub(super) at: Timestamp,
    /// When the last unit leaves, by the clock of this process.
    pub(super) until: Timestamp,
    pub(super) reply: ReplyTimes,
}

/// Which of two uses of a limiter at one instant is more.
fn amount(used: &[UsedUnits]) -> (u64, Option<Timestamp>) {
    let units = used.iter().fold(0, |sum: u64, one| sum.saturating_add(one.units));
    (units, used.last().map(|one| one.since))
}
