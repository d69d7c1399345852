//! What is told in a step over several of a limiter that has no part in deciding: its figures are unlimited,
//! or there is no room or no memory for it.

use tidegate_core::{Decision, Outcome, Room, Timestamp};

use super::PlannedPart;
use super::hand::{AnyHand, Home};
use super::kept::Kept;
use crate::key::Fingerprint;
use crate::step::{One, Step, UNLIMITED};
use crate::store::memory::budget::Budget;
use crate::store::memory::overflow::Told;
use crate::store::memory::table::{Holding, Part};

/// One that decides nothing; what is given back to it is, under the figures that it has.
pub(super) struct Bystander<'a> {
    asked: PlannedPart<'a>,
    told: Told,
    /// Whether its figures are unlimited, and so tell nothing of its state.
    unlimited: bool,
}

impl<'a> Bystander<'a> {
    /// Of unlimited figures: only what was reserved before is given back, and nothing is counted.
    pub(super) const fn unlimited(asked: PlannedPart<'a>) -> Self {
        let enforced = asked.part.enforced;
        let told = Told { decision: UNLIMITED, enforced, overflow: false, elsewhere: false };
        Self { asked, told, unlimited: true }
    }

    /// A refusal, for want of room or memory.
    pub(super) fn refused<R: Room>(asked: PlannedPart<'a>, room: &R) -> Self {
        let Part { cost, enforced, .. } = asked.part;
        Self { asked, told: Told::refusal(room, cost, enforced), unlimited: false }
    }

    /// What a key without room is told that is asked for more than its figures ever admit.
    pub(super) fn never(asked: PlannedPart<'a>, never: One) -> Self {
        // Where no figures were asked for, none are read.
        let untold = Decision { outcome: Outcome::Never, ..UNLIMITED };
        let decision = never.decision.unwrap_or(untold);
        Self { asked, told: Told::instead(decision, asked.part.enforced), unlimited: false }
    }

    /// What is done with it if it is there.
    const fn step(&self) -> Option<Step> {
        let Part { step, cost, .. } = self.asked.part;
        match (step, self.unlimited) {
            (Step::Settle { actual }, true) => {
                let actual = if actual < cost { actual } else { cost };
                Some(Step::Settle { actual })
            }
            (_, false) if step.is_unconditional() => Some(step),
            _ => None,
        }
    }
}

impl AnyHand for Bystander<'_> {
    fn print(&self) -> Fingerprint {
        self.asked.part.print
    }

    fn begin(&mut self, kept: Option<&mut Kept>, budget: &Budget, at: Timestamp) {
        let Some((kept, step)) = kept.zip(self.step()) else { return };
        let asked = super::Asked { step, ..self.asked.asked() };
        let one = kept.give_back(asked, at, budget).filter(|_| !self.unlimited);
        if let Some(decision) = one.and_then(|one| one.decision) {
            (self.told.decision, self.told.elsewhere) = (decision, false);
        }
    }

    fn hold(&mut self) -> Holding<'_> {
        Holding { place: self.asked.part.place, verbs: Box::new(self.told) }
    }

    fn end(self: Box<Self>, _home: Home<'_>, _at: Timestamp) {}

    fn forget(self: Box<Self>, home: Home<'_>) {
        home.shard.forget(self.print(), home.budget);
    }
}
