//! What is told in a step over several of a limiter that has no part in deciding: its figures are unlimited,
//! or there is no room or no memory for it.

use tidegate_core::{Decision, Outcome, Room, Timestamp, Verbs, Verdict};

use super::PlannedPart;
use super::hand::{AnyHand, Home};
use super::kept::Kept;
use crate::key::Fingerprint;
use crate::limiter::UNLIMITED;
use crate::store::memory::budget::Budget;
use crate::store::memory::shared::Refusal;
use crate::store::memory::table::{Grip, Holding, One, Part, Step};

/// One that decides nothing; what is given back to it is, under the figures that it has.
pub(super) struct Told<'a> {
    asked: PlannedPart<'a>,
    telling: Telling,
    /// Whether its figures are unlimited, and so tell nothing of its state.
    unlimited: bool,
}

impl<'a> Told<'a> {
    /// Of unlimited figures: only what was reserved before is given back, and nothing is counted.
    pub(super) const fn unlimited(asked: PlannedPart<'a>) -> Self {
        let enforced = asked.part.enforced;
        let telling =
            Telling { decision: UNLIMITED, enforced, overloaded: false, elsewhere: false };
        Self { asked, telling, unlimited: true }
    }

    /// A refusal, for want of room or memory.
    pub(super) fn refused<R: Room>(asked: PlannedPart<'a>, room: &R) -> Self {
        let Part { cost, enforced, .. } = asked.part;
        let decision = Refusal::of(room, cost, enforced).report();
        Self::of(asked, decision)
    }

    /// What a key without room is told that is asked for more than its figures ever admit.
    pub(super) fn never(asked: PlannedPart<'a>, never: One) -> Self {
        // Where no figures were asked for, none are read.
        let untold = Decision { outcome: Outcome::Never, ..UNLIMITED };
        Self::of(asked, never.decision.unwrap_or(untold))
    }

    const fn of(asked: PlannedPart<'a>, decision: Decision) -> Self {
        let enforced = asked.part.enforced;
        let telling = Telling { decision, enforced, overloaded: true, elsewhere: true };
        Self { asked, telling, unlimited: false }
    }

    /// What is done with it if it is there.
    const fn step(&self) -> Option<Step> {
        let Part { step, cost, .. } = self.asked.part;
        match (step, self.unlimited) {
            (Step::Settle { actual }, true) => {
                let actual = if actual < cost { actual } else { cost };
                Some(Step::Settle { actual })
            }
            (Step::Settle { .. } | Step::Refund, false) => Some(step),
            _ => None,
        }
    }
}

impl AnyHand for Told<'_> {
    fn print(&self) -> Fingerprint {
        self.asked.part.print
    }

    fn begin(&mut self, kept: Option<&mut Kept>, budget: &Budget, at: Timestamp) {
        let Some((kept, step)) = kept.zip(self.step()) else { return };
        let asked = super::Asked { step, ..self.asked.asked() };
        let one = kept.give_back(asked, at, budget).filter(|_| !self.unlimited);
        if let Some(decision) = one.and_then(|one| one.decision) {
            (self.telling.decision, self.telling.elsewhere) = (decision, false);
        }
    }

    fn hold(&mut self) -> Holding<'_> {
        Holding { place: self.asked.part.place, verbs: Box::new(self.telling) }
    }

    fn end(self: Box<Self>, _home: Home<'_>, _at: Timestamp) {}

    fn forget(self: Box<Self>, home: Home<'_>) {
        home.shard.forget(self.print(), home.budget);
    }
}

/// The verbs of a limiter that has said all it has to say.
#[derive(Clone, Copy)]
struct Telling {
    decision: Decision,
    enforced: bool,
    overloaded: bool,
    elsewhere: bool,
}

impl Verbs for Telling {
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

impl Grip for Telling {
    fn is_overloaded(&self) -> bool {
        self.overloaded
    }

    fn is_elsewhere(&self) -> bool {
        self.elsewhere
    }

    fn settle(&mut self, _now: Timestamp, _reserved: u64, _actual: u64) {}
}
