//! The overflow limiter: shared by all keys for which a table has no room.

use std::sync::PoisonError;

use tidegate_core::{Rule, Timestamp};

use super::budget::Budget;
use super::entry::Entry;
use super::leaving::Leaving;
use super::succession::{Moved, Succession};
use super::sync::{Mutex, MutexGuard};
use super::table::{Part, Table};
use crate::clock::Reading;
use crate::rules::OnFull;
use crate::snapshot::Records;
use crate::step::{One, Step};

/// The overflow limiter of a table, or none if keys without room are refused.
#[derive(Debug)]
pub(super) struct Overflow<E: Entry> {
    slot: Mutex<Shared<E>>,
}

/// The limiter, and the bytes that are counted for it.
#[derive(Debug)]
pub(super) struct Shared<E: Entry> {
    /// `None` until it is first asked.
    pub(super) entry: Option<E>,
    bytes: usize,
}

/// The limiter while it is locked, and the bytes claimed for it.
pub(super) type LockedOverflow<'a, E> = (MutexGuard<'a, Shared<E>>, usize);

impl<E: Entry> Shared<E> {
    /// Claims the bytes that its state may grow by in a step, once it is under its rule. Returns `None` if there are
    /// none; then the limiter is not created.
    fn claim(&mut self, rules: &E::Rules, budget: &Budget, step: Step, cost: u64) -> Option<usize> {
        let entry = self.entry.as_ref()?;
        let need = entry.need(rules);
        let grows = step.grows(cost) && !entry.has_place(rules);
        let growth = if grows { need.next } else { 0 };
        let bytes = need.first.saturating_sub(self.bytes).max(growth);
        let claimed = budget.claim_bytes(bytes);
        self.entry.take_if(|_| !claimed && self.bytes == 0);
        claimed.then_some(bytes)
    }

    /// Counts its bytes; `claimed` more than before are counted already.
    pub(super) fn weigh(&mut self, rules: &E::Rules, budget: &Budget, claimed: usize) {
        let bytes = self.entry.as_ref().map_or(0, |entry| entry.bytes(rules));
        budget.resize(self.bytes + claimed, bytes);
        self.bytes = bytes;
    }
}

impl<E: Entry> Overflow<E> {
    pub(super) fn new() -> Self {
        Self { slot: Mutex::new(Shared { entry: None, bytes: 0 }) }
    }

    /// Runs a step on the overflow limiter, or refuses.
    ///
    /// # Errors
    /// Returns [`Moved`] if the table may not be asked any more.
    pub(super) fn one(
        &self,
        rules: &E::Rules,
        budget: &Budget,
        succession: &Succession<dyn Table>,
        part: &Part<'_>,
        reading: Reading<'_>,
    ) -> Result<One, Moved> {
        let Part { cost, step, .. } = *part;
        let refusal = || E::refusal(rules, part, true).one(reading.early());
        if budget.on_full() == OnFull::Refuse {
            return succession.check(part.generation).map(|_| refusal());
        }
        let mut slot = self.lock(rules, budget, succession, part)?;
        let now = reading.anew();
        if !E::share(rules, &mut slot.entry, now) {
            return Ok(refusal());
        }
        let claimed = slot.claim(rules, budget, step, cost);
        let entry =
            slot.entry.as_mut().filter(|entry| claimed.is_some() || !entry.is_idle(rules, now));
        let one = entry.and_then(|entry| match claimed {
            Some(_) => Some(entry.run(rules, step, cost, now)),
            None => entry.run_in_place(rules, step, cost, now),
        });
        slot.weigh(rules, budget, claimed.unwrap_or(0));
        Ok(One { overflow: true, elsewhere: true, ..one.unwrap_or_else(refusal) })
    }

    /// Locks the overflow limiter for a step over several, and claims its bytes for [`Shared::weigh`] to count.
    /// `None` if keys without room are refused, or no bytes are left.
    ///
    /// # Errors
    /// Returns [`Moved`] if the table may not be asked any more.
    pub(super) fn hold(
        &self,
        rules: &E::Rules,
        budget: &Budget,
        succession: &Succession<dyn Table>,
        part: &Part<'_>,
        now: Timestamp,
    ) -> Result<Option<LockedOverflow<'_, E>>, Moved> {
        if budget.on_full() == OnFull::Refuse {
            return Ok(None);
        }
        let mut slot = self.lock(rules, budget, succession, part)?;
        if !E::share(rules, &mut slot.entry, now) {
            return Ok(None);
        }
        let claimed = slot.claim(rules, budget, part.step, part.cost);
        Ok(claimed.map(|claimed| (slot, claimed)))
    }

    /// Moves the overflow limiter of an old table here, unless that was done.
    pub(super) fn adopt(
        &self,
        rules: &E::Rules,
        budget: &Budget,
        succession: &Succession<dyn Table>,
    ) {
        move_in(&mut self.lock_as_it_is(), rules, budget, succession);
    }

    /// Takes over the limiter of a snapshot, under `rule` from `at` on; returns whether anything of it is used.
    pub(super) fn restore(
        &self,
        rules: &E::Rules,
        budget: &Budget,
        left: Box<dyn Leaving>,
        rule: &Rule,
        at: Timestamp,
    ) -> bool {
        let mut slot = self.lock_as_it_is();
        slot.entry = E::adopt(rules, left, rule, at);
        slot.weigh(rules, budget, 0);
        slot.entry.is_some()
    }

    /// Adds the limiter to a snapshot.
    pub(super) fn save(&self, rules: &E::Rules, records: &mut Records<'_, '_>) {
        self.lock_as_it_is().entry.iter().for_each(|entry| entry.save(rules, None, records));
    }

    /// Takes the limiter out.
    pub(super) fn take(&self, budget: &Budget) -> Option<E> {
        let mut slot = self.lock_as_it_is();
        budget.resize(std::mem::take(&mut slot.bytes), 0);
        slot.entry.take()
    }

    /// Returns whether forgetting it would change no later decision.
    pub(super) fn is_idle(&self, rules: &E::Rules, now: Timestamp) -> bool {
        self.lock_as_it_is().entry.as_ref().is_none_or(|entry| entry.is_idle(rules, now))
    }

    /// Locks the overflow limiter for a step, after moving the overflow limiter of an old table here.
    fn lock(
        &self,
        rules: &E::Rules,
        budget: &Budget,
        succession: &Succession<dyn Table>,
        part: &Part<'_>,
    ) -> Result<MutexGuard<'_, Shared<E>>, Moved> {
        let mut slot = self.lock_as_it_is();
        if succession.check(part.generation)? {
            move_in(&mut slot, rules, budget, succession);
        }
        Ok(slot)
    }

    fn lock_as_it_is(&self) -> MutexGuard<'_, Shared<E>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Moves the overflow limiter of the first old table, for keys without an override, into an empty slot.
fn move_in<E: Entry>(
    slot: &mut Shared<E>,
    rules: &E::Rules,
    budget: &Budget,
    succession: &Succession<dyn Table>,
) {
    if slot.entry.is_none()
        && let Some(left) = succession.take_from_first(|old| old.take_overflow())
    {
        slot.entry = E::adopt(rules, left, &succession.rule, succession.at);
        slot.weigh(rules, budget, 0);
    }
}
