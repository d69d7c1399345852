//! What is for keys without room: the limiter they share, or a refusal.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::{Decision, Held, Outcome, Room, Timestamp, Verbs, Verdict};

use super::budget::{Budget, Need};
use super::table::Grip;
use crate::clock::Reading;
use crate::rules::OnFull;
use crate::step::{One, Step};

/// The limiter shared by all keys for which a table has no room.
#[derive(Debug)]
pub(super) struct Shared<R: Room> {
    slot: Mutex<Overflow<R>>,
    on_full: OnFull,
    need: Need,
}

/// Its state, and the bytes that are accounted for it.
#[derive(Debug)]
pub(super) struct Overflow<R: Room> {
    pub(super) state: Option<R::State>,
    bytes: usize,
    closed: bool,
}

impl<R: Room> Overflow<R> {
    /// Accounts for what the state takes now; `claimed` bytes more than it had are counted already.
    pub(super) fn weigh(&mut self, room: &R, budget: &Budget, claimed: usize) {
        let heap = self.state.as_ref().map_or(0, |state| room.heap_bytes(state));
        let bytes = usize::try_from(heap).unwrap_or(usize::MAX / 2);
        budget.resize(self.bytes + claimed, bytes);
        self.bytes = bytes;
    }
}

impl<R: Room> Shared<R> {
    /// As new; `need` is what its state takes beside its own size.
    pub(super) fn new(on_full: OnFull, need: Need) -> Self {
        let slot = Mutex::new(Overflow { state: None, bytes: 0, closed: false });
        Self { slot, on_full, need }
    }

    /// A step with it; `None` when it is closed. A key beyond the table asks for `step.beyond(cost)`.
    pub(super) fn one(
        &self,
        room: &R,
        budget: &Budget,
        cost: u64,
        step: Step,
        reading: Reading<'_>,
    ) -> Option<One> {
        let refusal = || Told::refusal(room, cost, true).one(step, reading.early());
        if self.on_full == OnFull::Refuse {
            return Some(refusal());
        }
        let mut slot = self.lock().filter(|slot| !slot.closed)?;
        let now = reading.anew();
        let claimed = self.claim(&slot, budget);
        let one = match claimed {
            Some(_) => step.run(room, &mut slot.state, cost, now).0,
            None if slot.state.is_some() => step.run_in_place(room, &mut slot.state, cost, now),
            None => refusal(),
        };
        slot.weigh(room, budget, claimed.unwrap_or(0));
        Some(One { overflow: true, elsewhere: true, ..one })
    }

    /// Holds it for a step over several; `None` where keys without room are refused. Its bytes are
    /// claimed, which are for [`Overflow::weigh`] to count; `None` for those when there are none left.
    pub(super) fn hold(&self, budget: &Budget) -> Option<(MutexGuard<'_, Overflow<R>>, usize)> {
        let slot = (self.on_full == OnFull::Share).then(|| self.lock())??;
        let claimed = self.claim(&slot, budget)?;
        Some((slot, claimed))
    }

    /// Closes it for good; answers its state.
    pub(super) fn close(&self) -> Option<R::State> {
        let mut slot = self.lock()?;
        slot.closed = true;
        slot.state.take()
    }

    /// Begins with a state that was another's.
    pub(super) fn inherit(&self, room: &R, budget: &Budget, state: Option<R::State>) {
        if let Some(mut slot) = self.lock() {
            slot.state = state;
            slot.weigh(room, budget, 0);
        }
    }

    fn lock(&self) -> Option<MutexGuard<'_, Overflow<R>>> {
        Some(self.slot.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Claims what its state may take more with the next unit.
    fn claim(&self, slot: &Overflow<R>, budget: &Budget) -> Option<usize> {
        let bytes = if slot.state.is_some() { self.need.next } else { self.need.first };
        budget.claim_bytes(bytes).then_some(bytes)
    }
}

/// The verbs of one that has said all it has to say, and decides nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub(super) decision: Decision,
    pub(super) enforced: bool,
    pub(super) overflow: bool,
    pub(super) elsewhere: bool,
}

impl Told {
    /// That there is no room for a key, and that it may not share: come back a window later, when every
    /// limiter that was not asked meanwhile is as good as new.
    pub(super) fn refusal<R: Room>(room: &R, cost: u64, enforced: bool) -> Self {
        let outcome = match cost {
            0 => Outcome::Allow { delay: Default::default() },
            _ => Outcome::Deny { retry_after: room.window() },
        };
        let decision =
            Decision { outcome, limit: room.limit(), remaining: 0, reset_after: room.window() };
        Self::instead(decision, enforced)
    }

    /// What is decided in place of a limiter for which there is no room or no memory.
    pub(super) const fn instead(decision: Decision, enforced: bool) -> Self {
        Self { decision, enforced, overflow: true, elsewhere: true }
    }

    /// The same as the answer of a step.
    pub(super) fn one(self, step: Step, at: Timestamp) -> One {
        let Self { decision, overflow, elsewhere, .. } = self;
        let told = step.wants_figures().then_some(decision);
        let verdict = decision.verdict();
        One { verdict, decision: told, overflow, elsewhere, ..One::unlimited(at) }
    }
}

impl Verbs for Told {
    fn advance(&mut self, _now: Timestamp) {}

    fn decide(&mut self) -> Verdict {
        self.decision.verdict()
    }

    fn verdict(&self) -> Verdict {
        self.decision.verdict()
    }

    fn take(&mut self) {}

    fn give_back(&mut self) {}

    fn report(&self) -> Decision {
        self.decision
    }

    fn is_enforced(&self) -> bool {
        self.enforced
    }
}

impl Grip for Told {
    fn is_overflow(&self) -> bool {
        self.overflow
    }

    fn is_elsewhere(&self) -> bool {
        self.elsewhere
    }

    fn settle(&mut self, _now: Timestamp, _reserved: u64, _actual: u64) {}

    fn take_reported(&mut self, _now: Timestamp) {}
}

/// A limiter in hand where there is no room.
pub(super) struct Pressed<'a, R: Room> {
    held: Held<'a, R>,
    gives_back: bool,
}

impl<'a, R: Room> Pressed<'a, R> {
    /// The shared one, for a key that has none of its own: it gives nothing back.
    pub(super) const fn shared(held: Held<'a, R>) -> Self {
        Self { held, gives_back: false }
    }

    /// The key's own, which has no memory to grow and goes on in what it has.
    pub(super) const fn cramped(held: Held<'a, R>) -> Self {
        Self { held: held.in_place(), gives_back: true }
    }
}

impl<R: Room> Verbs for Pressed<'_, R> {
    fn advance(&mut self, now: Timestamp) {
        self.held.advance(now);
    }

    fn decide(&mut self) -> Verdict {
        self.held.decide()
    }

    fn verdict(&self) -> Verdict {
        self.held.verdict()
    }

    fn take(&mut self) {
        self.held.take();
    }

    fn give_back(&mut self) {
        if self.gives_back {
            self.held.give_back();
        }
    }

    fn report(&self) -> Decision {
        self.held.report()
    }

    fn is_enforced(&self) -> bool {
        self.held.is_enforced()
    }
}

impl<R: Room> Grip for Pressed<'_, R> {
    fn is_overflow(&self) -> bool {
        true
    }

    fn is_elsewhere(&self) -> bool {
        !self.gives_back
    }

    fn settle(&mut self, now: Timestamp, reserved: u64, actual: u64) {
        if actual > reserved || self.gives_back {
            self.held.settle(now, reserved, actual);
        }
    }

    fn take_reported(&mut self, now: Timestamp) {
        self.held.take_reported(now);
    }
}
