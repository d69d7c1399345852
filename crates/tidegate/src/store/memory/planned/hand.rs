//! One limiter in hand for a step over several, under the figures that it is asked under.

use std::sync::Arc;

use tidegate_core::{Decision, Held as Taking, Room, Rule, Timestamp, Verbs, Verdict};

use super::PlannedPart;
use super::brought::{Brought, Seen};
use super::figures::Figures;
use super::held::{Held, Own};
use super::kept::{Kept, leaves_a_trace};
use super::shard::Shard;
use crate::key::Fingerprint;
use crate::store::memory::budget::Budget;
use crate::store::memory::overflow::Pressed;
use crate::store::memory::table::{Grip, Holding, Part};

/// Where a limiter in hand belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// In its shard.
    There,
    /// The same, and there is no memory for a unit more.
    Cramped,
    /// In its shard, where a place is claimed for it.
    Claimed,
    /// Nowhere: it leaves nothing behind with this step.
    Absent,
    /// It is the one that keys without room share.
    Overflow,
}

/// What becomes of the figures that it was under before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    /// They are just those that are asked about.
    InForce,
    /// Those that are asked about take their place.
    Follow,
    /// They stay: it is looked at under others.
    Look,
    /// The same for figures that the request brought; if something is taken they take the place, where
    /// the step is one that does.
    Try { commits: bool },
}

/// A limiter in hand, whatever its figures.
pub(super) trait AnyHand {
    /// The key it is for.
    fn print(&self) -> Fingerprint;

    /// Comes under the figures that are asked about; `kept` is what is in the table of it.
    fn begin(&mut self, kept: Option<&mut Kept>, budget: &Budget, at: Timestamp);

    /// The verbs.
    fn hold(&mut self) -> Holding<'_>;

    /// Stores what was done.
    fn end(self: Box<Self>, home: Home<'_>, at: Timestamp);

    /// Lets go of it as it was, forgotten where it is the key's own.
    fn forget(self: Box<Self>, home: Home<'_>);
}

/// Where limiters in hand are put back.
pub(super) struct Home<'a> {
    pub(super) shard: &'a mut Shard,
    pub(super) overflow: Option<&'a mut Kept>,
    pub(super) budget: &'a Budget,
}

/// A limiter, or the place for one, under the figures of a room.
pub(super) struct Hand<'a, R: Room> {
    asked: PlannedPart<'a>,
    /// The rule of the figures, where that is not the one asked about: the usual plan.
    usual: Option<Arc<Rule>>,
    figures: Arc<Figures<R>>,
    standing: Standing,
    course: Course,
    /// Bytes claimed for what it may take more with this step.
    claimed: usize,
    /// The limiter as it was, under the figures it was under.
    held: Held,
    /// Its state under the figures that are asked about.
    slot: Option<R::State>,
    /// What figures that were brought are told where they deny.
    denied: Option<Decision>,
    /// Whether figures that were tried come in force.
    comes_in_force: bool,
    /// Whether the step was run; else it is as it was.
    begun: bool,
}

impl<'a, R: Room> Hand<'a, R> {
    /// The place for one that is not there, and may be in the end.
    pub(super) fn new(
        asked: PlannedPart<'a>,
        figures: Arc<Figures<R>>,
        standing: Standing,
    ) -> Self {
        Self {
            asked,
            usual: None,
            figures,
            standing,
            course: Course::Follow,
            claimed: 0,
            held: Held::Empty,
            slot: None,
            denied: None,
            comes_in_force: false,
            begun: false,
        }
    }

    /// One that is there, with what was claimed for it.
    pub(super) fn taken(
        asked: PlannedPart<'a>,
        figures: Arc<Figures<R>>,
        standing: Standing,
        mut held: Held,
        claimed: usize,
    ) -> Self {
        let course = course(&asked, held.under(&figures.room).is_some());
        Self { course, claimed, held, ..Self::new(asked, figures, standing) }
    }

    /// The one that keys without room share, under the usual plan.
    pub(super) fn overflow(
        asked: PlannedPart<'a>,
        usual: &Arc<Rule>,
        figures: Arc<Figures<R>>,
        held: Held,
        claimed: usize,
    ) -> Self {
        let taken = Self::taken(asked, figures, Standing::Overflow, held, claimed);
        Self { usual: Some(Arc::clone(usual)), ..taken }
    }

    /// It comes under figures that were brought only if it takes something under them.
    fn try_under(&mut self, commits: bool, at: Timestamp) {
        let brought =
            Brought { held: &self.held, room: &self.figures.room, rule: self.asked.rule, now: at };
        let Seen { one, slot, has_to_begin } = brought.look(self.asked.asked());
        self.denied = one.decision.filter(|_| one.verdict == Verdict::Deny && !has_to_begin);
        self.comes_in_force = commits && has_to_begin;
        self.slot = slot;
    }

    /// The limiter as the step leaves it.
    fn left(&mut self) -> Held {
        let (mut held, slot) = (std::mem::take(&mut self.held), self.slot.take());
        match self.course {
            Course::InForce => {
                if let Some(own) = held.under(&self.figures.room) {
                    own.slot = slot;
                }
                held
            }
            Course::Follow => Held::new(self.own(slot)),
            Course::Try { .. } if self.comes_in_force => Held::new(self.own(slot)),
            Course::Look | Course::Try { .. } => held,
        }
    }

    /// Lets go of one with which no step was run.
    fn leave(self, home: Home<'_>) {
        let (print, claimed) = (self.asked.part.print, self.claimed);
        match self.standing {
            Standing::There | Standing::Cramped => {
                if let Some((kept, _)) = home.shard.get_mut(print) {
                    kept.put_back(self.held, claimed, home.budget);
                }
            }
            Standing::Overflow => {
                if let Some(kept) = home.overflow {
                    kept.put_back(self.held, claimed, home.budget);
                }
            }
            Standing::Claimed => {
                home.budget.resize(Own::<R>::need(self.figures.heap).first, 0);
                home.budget.release(1);
            }
            Standing::Absent => {}
        }
    }

    fn own(&self, slot: Option<R::State>) -> Own<R> {
        Own { figures: Arc::clone(&self.figures), slot }
    }
}

fn course(asked: &PlannedPart<'_>, in_force: bool) -> Course {
    let Part { step, cost, .. } = asked.part;
    match (in_force, leaves_a_trace(step, cost)) {
        (true, _) => Course::InForce,
        (false, commits) if asked.brought && !step.is_unconditional() => Course::Try { commits },
        (false, true) => Course::Follow,
        (false, false) => Course::Look,
    }
}

impl<R: Room> AnyHand for Hand<'_, R> {
    fn print(&self) -> Fingerprint {
        self.asked.part.print
    }

    fn begin(&mut self, _kept: Option<&mut Kept>, _budget: &Budget, at: Timestamp) {
        self.begun = true;
        let rule = self.usual.as_deref().unwrap_or(self.asked.rule);
        let room = &self.figures.room;
        match self.course {
            Course::InForce => {
                self.slot = self.held.under(room).and_then(|own| own.slot.take());
            }
            Course::Follow => {
                self.slot = std::mem::take(&mut self.held).state_under(room, rule, at);
            }
            Course::Look => {
                self.held.pass(at);
                self.slot = self.held.copy().state_under(room, rule, at);
            }
            Course::Try { commits } => {
                self.held.pass(at);
                self.try_under(commits, at);
            }
        }
    }

    fn hold(&mut self) -> Holding<'_> {
        let Part { place, cost, enforced, .. } = self.asked.part;
        let held = Taking::new(&self.figures.room, &mut self.slot, cost);
        let held = if enforced { held } else { held.shadow() };
        let verbs: Box<dyn Grip + '_> = match (self.standing, self.course) {
            (Standing::Overflow, _) => Box::new(Pressed::shared(held)),
            (Standing::Cramped, _) => Box::new(Pressed::cramped(held)),
            (_, Course::Try { commits }) => {
                let comes_in_force = &mut self.comes_in_force;
                Box::new(Trying { held, denied: self.denied, commits, comes_in_force })
            }
            _ => Box::new(held),
        };
        Holding { place, verbs }
    }

    fn end(mut self: Box<Self>, home: Home<'_>, at: Timestamp) {
        if !self.begun {
            return self.leave(home);
        }
        let (print, claimed) = (self.print(), self.claimed);
        match self.standing {
            Standing::There | Standing::Cramped => {
                let left = self.left();
                if let Some((kept, _)) = home.shard.get_mut(print) {
                    kept.put_back(left, claimed, home.budget);
                }
            }
            Standing::Claimed => {
                let slot = self.slot.take();
                home.shard.add(print, self.own(slot), home.budget, at);
            }
            Standing::Overflow => {
                let left = self.left();
                if let Some(kept) = home.overflow {
                    kept.put_back(left, claimed, home.budget);
                }
            }
            Standing::Absent => {}
        }
    }

    fn forget(self: Box<Self>, home: Home<'_>) {
        match self.standing {
            Standing::There | Standing::Cramped => {
                home.budget.resize(self.claimed, 0);
                home.shard.forget(self.print(), home.budget);
            }
            _ => self.leave(home),
        }
    }
}

/// The verbs of a limiter under figures that come in force with what is taken under them.
struct Trying<'h, R: Room> {
    held: Taking<'h, R>,
    denied: Option<Decision>,
    commits: bool,
    comes_in_force: &'h mut bool,
}

impl<R: Room> Verbs for Trying<'_, R> {
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
        *self.comes_in_force |= self.commits;
    }

    fn give_back(&mut self) {
        self.held.give_back();
    }

    fn report(&self) -> Decision {
        self.denied.unwrap_or_else(|| self.held.report())
    }

    fn is_enforced(&self) -> bool {
        self.held.is_enforced()
    }
}

impl<R: Room> Grip for Trying<'_, R> {
    fn is_overflow(&self) -> bool {
        false
    }

    fn is_elsewhere(&self) -> bool {
        false
    }

    fn settle(&mut self, now: Timestamp, reserved: u64, actual: u64) {
        self.held.settle(now, reserved, actual);
    }

    fn take_reported(&mut self, now: Timestamp) {
        self.held.take_reported(now);
    }
}
