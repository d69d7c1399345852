//! The overflow limiter: shared by all keys for which a table has no room.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::Timestamp;

use super::budget::Budget;
use super::entry::Entry;
use super::table::Part;
use crate::clock::Reading;
use crate::rules::OnFull;
use crate::step::{One, Step};

/// The overflow limiter of a table, or none where keys without room are refused.
#[derive(Debug)]
pub(super) struct Overflow<E: Entry> {
    slot: Mutex<Shared<E>>,
    on_full: OnFull,
}

/// The limiter, and the bytes that are accounted for it.
#[derive(Debug)]
pub(super) struct Shared<E: Entry> {
    /// `None` until it is first asked.
    pub(super) entry: Option<E>,
    bytes: usize,
    closed: bool,
}

impl<E: Entry> Shared<E> {
    /// Claims the bytes that its state may take more with a step, once it is under its rule; `None` where
    /// there are none, and then it does not begin.
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

    /// Accounts for the bytes it takes now; `claimed` bytes more than it had are counted already.
    pub(super) fn weigh(&mut self, rules: &E::Rules, budget: &Budget, claimed: usize) {
        let bytes = self.entry.as_ref().map_or(0, |entry| entry.bytes(rules));
        budget.resize(self.bytes + claimed, bytes);
        self.bytes = bytes;
    }
}

impl<E: Entry> Overflow<E> {
    pub(super) fn new(on_full: OnFull) -> Self {
        Self { slot: Mutex::new(Shared { entry: None, bytes: 0, closed: false }), on_full }
    }

    /// Runs a step with it, or refuses; `None` where it is closed.
    pub(super) fn one(
        &self,
        rules: &E::Rules,
        budget: &Budget,
        part: &Part<'_>,
        reading: Reading<'_>,
    ) -> Option<One> {
        let Part { cost, step, .. } = *part;
        let refusal = || E::refusal(rules, part, true).one(step, reading.early());
        if self.on_full == OnFull::Refuse {
            return Some(refusal());
        }
        let mut slot = Some(self.lock()).filter(|slot| !slot.closed)?;
        let now = reading.anew();
        if !E::share(rules, &mut slot.entry, now) {
            return Some(refusal());
        }
        let claimed = slot.claim(rules, budget, step, cost);
        let entry =
            slot.entry.as_mut().filter(|entry| claimed.is_some() || !entry.is_idle(rules, now));
        let one = entry.and_then(|entry| match claimed {
            Some(_) => Some(entry.run(rules, step, cost, now).0),
            None => entry.run_in_place(rules, step, cost, now),
        });
        slot.weigh(rules, budget, claimed.unwrap_or(0));
        Some(One { overflow: true, elsewhere: true, ..one.unwrap_or_else(refusal) })
    }

    /// Locks it for a step over several; `None` where keys without room are refused. Its bytes are claimed,
    /// for [`Shared::weigh`] to count; `None` also where there are none left.
    pub(super) fn hold(
        &self,
        rules: &E::Rules,
        budget: &Budget,
        part: &Part<'_>,
        now: Timestamp,
    ) -> Option<(MutexGuard<'_, Shared<E>>, usize)> {
        let mut slot = (self.on_full == OnFull::Share).then(|| self.lock())?;
        if !E::share(rules, &mut slot.entry, now) {
            return None;
        }
        let claimed = slot.claim(rules, budget, part.step, part.cost)?;
        Some((slot, claimed))
    }

    /// Closes it for good; returns the limiter.
    pub(super) fn close(&self) -> Option<E> {
        let mut slot = self.lock();
        slot.closed = true;
        slot.entry.take()
    }

    /// Begins with a limiter that was another table's.
    pub(super) fn inherit(&self, rules: &E::Rules, budget: &Budget, entry: Option<E>) {
        let mut slot = self.lock();
        slot.entry = entry;
        slot.weigh(rules, budget, 0);
    }

    fn lock(&self) -> MutexGuard<'_, Shared<E>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
