//! Parts of every table of limited rules: values, caps, and the overflow limiter, which keys without room share.
//!
//! The overflow limiter is an entry like any other, under a lock of its own, which is taken after the locks of
//! parts.

use std::sync::{Arc, PoisonError};

use tidegate_core::Timestamp;

use super::budget::Budget;
use super::entry::{Entry, TableRules as _};
use super::leaving::Left;
use super::succession::{Moved, Succession};
use super::sync::{Mutex, MutexGuard};
use super::table::{Overflow, Part, Restored, Table};
use crate::clock::Reading;
use crate::rules::OnFull;
use crate::snapshot::Records;
use crate::step::One;

/// The parts of a table that do not depend on how it keeps its limiters. There is no overflow limiter if keys without room are refused.
#[derive(Debug)]
pub(super) struct Common<E: Entry> {
    pub(super) rules: E::Rules,
    pub(super) budget: Arc<Budget>,
    pub(super) succession: Succession<dyn Table>,
    overflow: Mutex<Shared<E>>,
}

/// The overflow limiter, and the bytes that are counted for it.
#[derive(Debug)]
pub(super) struct Shared<E: Entry> {
    /// `None` until it is first asked.
    pub(super) entry: Option<E>,
    bytes: usize,
}

/// The overflow limiter while it is locked, and the bytes claimed for it.
pub(super) type LockedOverflow<'a, E> = (MutexGuard<'a, Shared<E>>, usize);

impl<E: Entry> Common<E> {
    pub(super) fn new(
        rules: E::Rules,
        budget: Arc<Budget>,
        succession: Succession<dyn Table>,
    ) -> Self {
        let overflow = Mutex::new(Shared { entry: None, bytes: 0 });
        Self { rules, budget, succession, overflow }
    }

    /// Turns a limiter into one that leaves this table.
    pub(super) fn leaving(&self, entry: E) -> Option<Left> {
        Some(Left { rule: self.succession.rule.clone(), state: entry.into_state()? })
    }

    /// Locks the overflow limiter for a step over several, and claims its bytes for [`Common::weigh_overflow`] to count.
    /// `None` if keys without room are refused, or no bytes are left.
    ///
    /// # Errors
    /// Returns [`Moved`] if the table may not be asked any more.
    pub(super) fn hold_overflow(
        &self,
        part: &Part<'_>,
        now: Timestamp,
    ) -> Result<Option<LockedOverflow<'_, E>>, Moved> {
        if self.budget.on_full() == OnFull::Refuse {
            return Ok(None);
        }
        let mut slot = self.lock_overflow(part)?;
        if !self.rules.share(&mut slot.entry, now) {
            return Ok(None);
        }
        let claimed = self.claim_overflow(&mut slot, part);
        Ok(claimed.map(|claimed| (slot, claimed)))
    }

    /// Takes over the overflow limiter of a snapshot.
    pub(super) fn restore_overflow(&self, left: Left, at: Timestamp) -> Restored {
        let mut slot = self.lock_overflow_as_it_is();
        slot.entry = self.rules.adopt(left, at);
        self.weigh_overflow(&mut slot, 0);
        if slot.entry.is_some() { Restored::Kept } else { Restored::Idle }
    }

    /// Adds the overflow limiter to a snapshot.
    pub(super) fn save_overflow(&self, now: Timestamp, records: &mut Records<'_, '_>) {
        let slot = self.lock_overflow_as_it_is();
        slot.entry.iter().for_each(|entry| entry.save(&self.rules, None, now, records));
    }

    /// Returns whether forgetting the overflow limiter would change no later decision.
    pub(super) fn is_overflow_idle(&self, now: Timestamp) -> bool {
        let slot = self.lock_overflow_as_it_is();
        slot.entry.as_ref().is_none_or(|entry| entry.is_idle(&self.rules, now))
    }

    /// Counts the bytes of the overflow limiter; `claimed` more than before are counted already.
    pub(super) fn weigh_overflow(&self, slot: &mut Shared<E>, claimed: usize) {
        let bytes = slot.entry.as_ref().map_or(0, |entry| entry.bytes(&self.rules));
        self.budget.resize(slot.bytes + claimed, bytes);
        slot.bytes = bytes;
    }

    /// Claims the bytes that the overflow limiter may grow by in a step, once it is under its rule. Returns `None` if
    /// there are none; then the limiter is not created.
    fn claim_overflow(&self, slot: &mut Shared<E>, part: &Part<'_>) -> Option<usize> {
        let entry = slot.entry.as_ref()?;
        let need = entry.need(&self.rules);
        // A new limiter needs its first bytes, and these include the next unit.
        let growth = if part.step.grows(part.cost) { need.next } else { 0 };
        let bytes = need.first.saturating_sub(slot.bytes).max(growth);
        let claimed = self.budget.claim_bytes(bytes);
        // Only the step that would create the overflow limiter finds it without counted bytes.
        slot.entry.take_if(|_| !claimed && slot.bytes == 0);
        claimed.then_some(bytes)
    }

    /// Locks the overflow limiter for a step, after moving the overflow limiter of an old table here.
    fn lock_overflow(&self, part: &Part<'_>) -> Result<MutexGuard<'_, Shared<E>>, Moved> {
        let mut slot = self.lock_overflow_as_it_is();
        if self.succession.check(part.generation)? {
            self.move_overflow(&mut slot);
        }
        Ok(slot)
    }

    fn lock_overflow_as_it_is(&self) -> MutexGuard<'_, Shared<E>> {
        self.overflow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the overflow limiter of the first old table, for keys without an override, into an empty slot.
    fn move_overflow(&self, slot: &mut Shared<E>) {
        if slot.entry.is_none()
            && let Some(left) = self.succession.take_from_first(|old| old.overflow().take_out())
        {
            slot.entry = self.rules.adopt(left, self.succession.at);
            self.weigh_overflow(slot, 0);
        }
    }
}

impl<E: Entry> Overflow for Common<E> {
    fn one(&self, part: &Part<'_>, reading: Reading<'_>) -> Result<One, Moved> {
        let Part { cost, step, .. } = *part;
        let rules = &self.rules;
        let refusal = || One::instead(rules.refusal(part, true), reading.early());
        if self.budget.on_full() == OnFull::Refuse {
            return self.succession.check(part.generation).map(|_| refusal());
        }
        let mut slot = self.lock_overflow(part)?;
        let now = reading.anew();
        if !rules.share(&mut slot.entry, now) {
            return Ok(refusal());
        }
        // Without memory, a limiter in use still decides, and keeps new units more coarsely.
        let claimed = self.claim_overflow(&mut slot, part);
        let entry =
            slot.entry.as_mut().filter(|entry| claimed.is_some() || !entry.is_idle(rules, now));
        let one = entry.map(|entry| entry.run(rules, step, cost, now, claimed.is_none()));
        self.weigh_overflow(&mut slot, claimed.unwrap_or(0));
        Ok(one.unwrap_or_else(refusal).by_overflow(true))
    }

    fn adopt(&self) {
        self.move_overflow(&mut self.lock_overflow_as_it_is());
    }

    fn take_out(&self) -> Option<Left> {
        let mut slot = self.lock_overflow_as_it_is();
        self.budget.resize(std::mem::take(&mut slot.bytes), 0);
        slot.entry.take().and_then(|entry| self.leaving(entry))
    }
}
