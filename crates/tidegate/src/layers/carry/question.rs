//! A question about limiters, which is asked again until its reply is of the data that the store has.
//!
//! Units are carried by one request at a time: a second might know of units that have come back since, and take them once
//! more. A reply that comes after units were carried may be of the data that the store has lost. If its own units were not
//! carried, it counts for nothing, and the question is asked again.

use std::sync::Arc;
use std::{iter, mem};

use tidegate_core::{Micros, Timestamp};
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout_at};

use super::Carry;
use super::limiter::{DataOf, ReplyTimes};
use crate::clock::Clock;
use crate::inline_list::InlineList;
use crate::store::{KeyAsk, KnownUse, LimiterPlaces, Store, StoreError, StoredData};

/// A question about limiters.
pub(super) struct CarryQuestion<'a, S> {
    layer: &'a Carry<S>,
    asks: &'a [KeyAsk],
    leased: &'a [Option<Micros>],
    deadline: Instant,
    /// The knowledge with which the limiters are asked.
    known: InlineList<KnownUse>,
    /// The number of times that a request had begun to carry the units of a limiter when the knowledge was read.
    carries: u64,
    /// When they are asked, by the clock of this process.
    sent: Timestamp,
    /// Held while this question carries units, and while no other may.
    pub(super) turns: Option<Vec<OwnedMutexGuard<()>>>,
    /// For each limiter that a server lacks, the data that had the units.
    had: InlineList<Option<DataOf>>,
    /// The limiters that it carried although a reply says that another is lost.
    carried: LimiterPlaces,
}

impl<'a, S: Store> CarryQuestion<'a, S> {
    pub(super) fn new(
        layer: &'a Carry<S>,
        asks: &'a [KeyAsk],
        leased: &'a [Option<Micros>],
        deadline: Instant,
    ) -> Self {
        Self {
            layer,
            asks,
            leased,
            deadline,
            known: InlineList::new(),
            carries: 0,
            sent: Timestamp::EPOCH,
            turns: None,
            had: InlineList::new(),
            carried: LimiterPlaces::NONE,
        }
    }

    /// The return of units, which is asked without knowledge. Its reply may be of any former data.
    pub(super) fn of_units_that_come_back(layer: &'a Carry<S>, asks: &'a [KeyAsk]) -> Self {
        let host = layer.inner.host();
        Self { sent: host.now(), ..Self::new(layer, asks, &[], host.deadline()) }
    }

    /// The knowledge with which the limiters are asked.
    pub(super) fn known(&self) -> &[KnownUse] {
        &self.known
    }

    /// Brings the knowledge up to date. With a turn, the units that it knows to be lost are carried from now on; the turn
    /// ends if there are none.
    fn look(&mut self) {
        // First the number: a request that begins to carry units later has a higher number.
        self.carries = self.layer.known.carries();
        self.sent = self.layer.inner.host().now();
        self.known.clear();
        self.had.clear();
        let alone = self.turns.is_some();
        for (ask, keeps_newer) in with_newer(self.layer, self.asks, self.leased) {
            self.known.push(self.layer.known.known(ask, keeps_newer, self.sent, alone));
        }
        if !self.carries_units() {
            self.turns = None;
        } else if alone {
            self.carries = self.layer.known.carries();
        }
    }

    fn carries_units(&self) -> bool {
        self.known.iter().any(|known| known.carried().is_some())
    }

    /// Begins to ask; with units that are carried, once no other request carries any.
    ///
    /// # Errors
    /// Its turn did not come by the deadline.
    pub(super) async fn begin(&mut self) -> Result<(), StoreError> {
        if self.known.is_empty() {
            self.look();
        }
        if self.carries_units() && self.turns.is_none() {
            self.take_turns().await?;
            self.look();
        }
        Ok(())
    }

    /// Returns whether a reply that was decided at `now` is the answer. If not, the question is to be asked again. A reply
    /// that `stands` is the answer in any case, unless a limiter is lost.
    ///
    /// # Errors
    /// Its turn did not come by the deadline.
    pub(super) async fn is_answered(
        &mut self,
        now: Timestamp,
        data: StoredData,
        stands: bool,
    ) -> Result<bool, StoreError> {
        let was_alone = self.turns.is_some();
        if data.is_lost {
            self.carried = self.carried.and(data.carried);
            if !was_alone {
                self.take_turns().await?;
            }
            if was_alone || !self.others_carried() {
                self.begin_carry(data.server);
            } else {
                self.known.clear();
            }
            return Ok(false);
        }
        if was_alone || !self.others_carried() {
            return Ok(true);
        }
        match self.take_turns().await {
            Ok(()) => {}
            Err(_) if stands => return Ok(true),
            // The store has done it.
            Err(_) => return Err(StoreError::Timeout),
        }
        let reply = self.reply(now, data);
        if stands || !self.asks.iter().any(|ask| self.layer.known.lacks(ask, &reply)) {
            return Ok(true);
        }
        self.known.clear();
        Ok(false)
    }

    /// Waits, after a reply that stands in any case, for a request that carries units of the limiters: its own report
    /// would replace the units of this reply.
    ///
    /// # Errors
    /// The other request had not ended by the deadline.
    pub(super) async fn waits_for_others(&mut self) -> Result<(), StoreError> {
        if self.others_carried() { self.take_turns().await } else { Ok(()) }
    }

    /// Notes what the last reply proves of the data of its server. Returns the limiters that this question has carried.
    pub(super) fn end(&self, data: StoredData) -> LimiterPlaces {
        let carried = self.carried.and(data.carried);
        self.layer.note_carried(carried, data, &self.had, &self.known);
        carried
    }

    /// A reply that was decided at `now`.
    pub(super) const fn reply(&self, now: Timestamp, data: StoredData) -> ReplyTimes {
        ReplyTimes {
            carries: self.carries,
            sent: self.sent,
            is_alone: self.turns.is_some(),
            now,
            server: data.server,
            took_place: false,
        }
    }

    /// Returns whether another request began to carry units of the limiters since they were asked.
    fn others_carried(&self) -> bool {
        self.layer.known.has_carried(self.asks, self.carries)
    }

    /// Waits until no other request carries units of the limiters.
    async fn take_turns(&mut self) -> Result<(), StoreError> {
        let turns = self.layer.known.turns(self.asks);
        let free = turns.iter().map(|turn| Arc::clone(turn).try_lock_owned().ok());
        self.turns = free.collect();
        if self.turns.is_some() {
            return Ok(());
        }
        let deadline = self.deadline;
        // In a task of the host, because the caller may have a runtime without a timer.
        let taken = self.layer.inner.host().spawn(async move {
            let mut taken = Vec::with_capacity(turns.len());
            for turn in turns {
                taken.push(timeout_at(deadline, turn.lock_owned()).await.ok()?);
            }
            Some(taken)
        });
        self.turns = taken.await.ok().flatten();
        self.turns.as_ref().map(|_| ()).ok_or(StoreError::Overloaded { together: true })
    }

    /// Notes what is to be carried with the limiters. All of them are carried, also if the server lacks only some, so
    /// that it is asked once more and not again for each.
    fn begin_carry(&mut self, server: u64) {
        self.sent = self.layer.inner.host().now();
        self.known.clear();
        let before = mem::take(&mut self.had);
        let all = with_newer(self.layer, self.asks, self.leased);
        for (place, (ask, keeps_newer)) in all.enumerate() {
            let (known, had) = self.layer.known.begin_carry(ask, keeps_newer, server, self.sent);
            self.known.push(known);
            self.had.push(had.or_else(|| before.get(place).copied().flatten()));
        }
        self.carries = self.layer.known.carries();
    }
}

/// Each limiter, and whether a stored state stays if its last unit is newer than the known units. Such a state may have
/// lost units all the same. But units of leases come back all the time, and no node hears when another gives them back; and
/// where each unit has a time of its own, older units would take the place of newer.
fn with_newer<'a, S>(
    layer: &Carry<S>,
    asks: &'a [KeyAsk],
    leased: &[Option<Micros>],
) -> impl Iterator<Item = (&'a KeyAsk, bool)> {
    let leased = leased.iter().map(Option::is_some).chain(iter::repeat(false));
    asks.iter().zip(leased).map(|(ask, has_leases)| {
        let rule = ask.rule_in(&layer.generation.policy);
        let have_times = rule.is_some_and(|rule| rule.spec().algorithm.units_have_times());
        (ask, has_leases || have_times)
    })
}
