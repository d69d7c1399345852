//! A limiter in its table, and the bytes that are accounted for it.

use tidegate_core::{Room, Timestamp};

use super::Asked;
use super::brought::{Brought, Seen};
use super::figures::{Figures, Recent};
use super::held::{Held, Own};
use crate::key::Fingerprint;
use crate::step::{One, Step};
use crate::store::memory::budget::Budget;
use crate::store::memory::overflow::Told;

/// A limiter, unless it is still to begin, and its bytes.
#[derive(Debug, Default)]
pub(super) struct Kept {
    own: Held,
    bytes: usize,
}

impl Kept {
    /// What a limiter takes in the map and the queue, growth included.
    pub(super) const BYTES: usize =
        3 * (size_of::<(Fingerprint, Self)>() + size_of::<Fingerprint>());

    /// A limiter for which so many bytes are claimed as it needs at first.
    pub(super) fn new<R: Room>(own: Own<R>, budget: &Budget) -> Self {
        let claimed = Own::<R>::need(own.figures.heap).first;
        let mut kept = Self { own: Held::new(own), bytes: 0 };
        kept.weigh(budget, claimed);
        kept
    }

    /// Bytes that are accounted for it.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes it in hand for a step over several; nobody drops it meanwhile.
    pub(super) fn take(&mut self) -> Held {
        std::mem::replace(&mut self.own, Held::InHand)
    }

    /// Puts back what was in hand, for which so many bytes more were claimed.
    pub(super) fn put_back(&mut self, own: Held, claimed: usize, budget: &Budget) {
        self.own = own;
        self.weigh(budget, claimed);
    }

    /// What it needs more for a step under these figures.
    pub(super) fn wants<R: Room>(&mut self, figures: &Figures<R>, step: Step, cost: u64) -> usize {
        let grows = step.grows(cost);
        let Some(own) = self.own.under(&figures.room) else {
            let first = Own::<R>::need(figures.heap).first.saturating_sub(self.bytes);
            return first + if grows { figures.heap.next } else { 0 };
        };
        let has_place = own.slot.as_ref().is_some_and(|state| figures.room.has_place(state));
        if grows && !has_place { figures.heap.next } else { 0 }
    }

    /// Whether it is under just these figures.
    pub(super) fn is_under<R: Room>(&mut self, room: &R) -> bool {
        self.own.under(room).is_some()
    }

    pub(super) fn copy(&self) -> Held {
        self.own.copy()
    }

    pub(super) fn is_as_good_as_new(&self, now: Timestamp) -> bool {
        !matches!(self.own, Held::InHand)
            && self.own.any().is_none_or(|own| own.is_as_good_as_new(now))
    }

    /// A step under the figures of `room`, which are those of the rule asked. `claim` tells whether there
    /// are so many bytes; `None` where there are none for a limiter that holds nothing.
    #[inline]
    pub(super) fn step<R: Room>(
        &mut self,
        asked: Asked<'_>,
        room: &R,
        now: Timestamp,
        budget: &Budget,
        recent: &mut Recent,
        claim: impl Fn(usize) -> bool,
    ) -> Option<One> {
        if self.own.under(room).is_none() {
            self.own.pass(now);
            if !leaves_a_trace(asked.step, asked.cost) {
                return Some(self.look(asked, room, now));
            }
            if let Err(one) = self.put_under(asked, room, now, budget, recent, &claim) {
                return Some(one);
            }
        }
        let own = self.own.under(room)?;
        let has_place = own.slot.as_ref().is_some_and(|state| room.has_place(state));
        let growth = if asked.step.grows(asked.cost) && !has_place { own.growth() } else { 0 };
        if !claim(growth) {
            return self.step_in_place(asked, room, now, budget);
        }
        let (one, _) = asked.step.run(room, &mut own.slot, asked.cost, now);
        if growth > 0 || own.growth() > 0 {
            self.weigh(budget, growth);
        }
        Some(one)
    }

    /// A look at what it would be under other figures, which leaves it as it is.
    #[cold]
    fn look<R: Room>(&self, asked: Asked<'_>, room: &R, now: Timestamp) -> One {
        if asked.brought {
            return Brought { held: &self.own, room, rule: asked.rule, now }.look(asked).one;
        }
        let mut slot = self.copy().state_under(room, asked.rule, now);
        asked.step.run(room, &mut slot, asked.cost, now).0
    }

    /// Carries it over to other figures, or begins it. Where there is no memory for that it is refused, for
    /// going on elsewhere it would have as much again; but what is given back is, under the figures it has.
    /// Figures that were brought are not put in force by what they deny.
    ///
    /// # Errors
    /// The answer, where it is as it was before.
    #[cold]
    fn put_under<R: Room>(
        &mut self,
        asked: Asked<'_>,
        room: &R,
        now: Timestamp,
        budget: &Budget,
        recent: &mut Recent,
        claim: &impl Fn(usize) -> bool,
    ) -> Result<(), One> {
        let seen = match asked.brought && !asked.step.is_unconditional() {
            true => Some(self.unless_denied(asked, room, now)?),
            false => None,
        };
        let figures = recent.figures(room);
        let claimed = Own::<R>::need(figures.heap).first.saturating_sub(self.bytes);
        if !claim(claimed) {
            let refusal = || Told::refusal(room, asked.cost, true).one(asked.step, now);
            return Err(self.give_back(asked, now, budget).unwrap_or_else(refusal));
        }
        self.own = match (seen, std::mem::take(&mut self.own)) {
            (Some(Seen { slot, .. }), _) => Held::new(Own { figures, slot }),
            (None, Held::Empty | Held::InHand) => Held::new(Own { figures, slot: None }),
            (None, own) => own.carried_to(asked.rule, recent, now),
        };
        self.weigh(budget, claimed);
        Ok(())
    }

    /// What it is under figures that were brought.
    ///
    /// # Errors
    /// They deny what is asked, or it is a look, which takes nothing under them.
    fn unless_denied<R: Room>(
        &self,
        asked: Asked<'_>,
        room: &R,
        now: Timestamp,
    ) -> Result<Seen<R>, One> {
        let seen = Brought { held: &self.own, room, rule: asked.rule, now }.look(asked);
        let takes = seen.one.verdict.is_allowed() && asked.step.takes(asked.cost);
        match takes || seen.has_to_begin {
            true => Ok(seen),
            false => Err(seen.one),
        }
    }

    /// A step that gives back, or reports, under the figures that it has; `None` for any other, and where
    /// nothing is used.
    #[cold]
    pub(super) fn give_back(
        &mut self,
        asked: Asked<'_>,
        now: Timestamp,
        budget: &Budget,
    ) -> Option<One> {
        let own = self.own.any_mut().filter(|_| asked.step.is_unconditional())?;
        let one = own.give_back(asked.step, asked.cost, now);
        self.weigh(budget, 0);
        one
    }

    /// A step in the memory that its state has; `None` where it holds nothing, and so may have none for
    /// a single unit.
    #[cold]
    fn step_in_place<R: Room>(
        &mut self,
        asked: Asked<'_>,
        room: &R,
        now: Timestamp,
        budget: &Budget,
    ) -> Option<One> {
        if self.is_as_good_as_new(now) {
            return None;
        }
        let own = self.own.under(room)?;
        let one = asked.step.run_in_place(room, &mut own.slot, asked.cost, now);
        self.weigh(budget, 0);
        Some(one)
    }

    /// Accounts for what it takes now; `claimed` bytes more than it had are counted already.
    fn weigh(&mut self, budget: &Budget, claimed: usize) {
        let own = self.own.any().map_or(0, |own| own.bytes());
        let bytes = Self::BYTES.saturating_add(own);
        budget.resize(self.bytes + claimed, bytes);
        self.bytes = bytes;
    }
}

/// Whether a step puts its figures in force: not one that only looks, unless it asks for a unit.
pub(super) const fn leaves_a_trace(step: Step, cost: u64) -> bool {
    step.gives_back() || step.takes(cost) || matches!(step, Step::Look)
}
