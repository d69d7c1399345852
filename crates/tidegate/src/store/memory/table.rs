//! What a table of limiters does, whatever its algorithm and however it keeps their states.

use std::fmt;

use tidegate_core::{Algorithm, Held, Rule, Timestamp, Verbs};

use super::budget::Budget;
use super::leaving::Leaving;
use super::preview::Preview;
use super::succession::{GenerationNumber, Moved, Succession};
use crate::clock::{Clock, Reading};
use crate::key::Fingerprint;
use crate::step::{One, Step};

impl Step {
    /// Does it with one limiter that is held, at `now`; [`Step::changes`] says whether that changed its state.
    #[inline]
    pub(super) fn run<R: Algorithm>(
        self,
        algorithm: &R,
        slot: &mut Option<R::State>,
        cost: u64,
        now: Timestamp,
    ) -> One {
        self.run_held(Held::new(algorithm, slot, cost), cost, now)
    }

    /// The same with a limiter for whose growth there is no memory.
    pub(super) fn run_in_place<R: Algorithm>(
        self,
        algorithm: &R,
        slot: &mut Option<R::State>,
        cost: u64,
        now: Timestamp,
    ) -> One {
        let one = self.run_held(Held::new(algorithm, slot, cost).in_place(), cost, now);
        One { overflow: true, ..one }
    }

    /// Whether it puts another rule in force: every step that gives back or takes, and
    /// [`Step::AskReported`]; never [`Step::Peek`].
    pub(super) const fn changes_rule(self, cost: u64) -> bool {
        self.gives_back() || self.takes(cost) || matches!(self, Self::AskReported)
    }

    #[inline]
    fn run_held<R: Algorithm>(self, mut held: Held<'_, R>, cost: u64, now: Timestamp) -> One {
        let verdict = match self {
            Self::Decide | Self::Ask => held.ask(now),
            Self::Peek | Self::AskReported => {
                held.advance(now);
                held.decide()
            }
            Self::Report => {
                held.take_reported(now);
                held.advance(now);
                held.decide()
            }
            Self::Refund => {
                held.advance(now);
                held.give_back();
                held.decide()
            }
            Self::Settle { actual } => {
                held.settle(now, cost, actual);
                held.advance(now);
                held.decide()
            }
        };
        let decision = self.wants_figures().then(|| held.report());
        One { verdict, at: now, decision, overflow: false, elsewhere: false, figures: None }
    }
}

/// One limiter's part in a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    /// Its place in the request.
    pub(super) place: usize,
    pub(super) fingerprint: Fingerprint,
    pub(super) cost: u64,
    pub(super) step: Step,
    pub(super) enforced: bool,
    /// The rule it is asked under, where the table has none: there, `None` is an unlimited one.
    pub(super) rule: Option<&'a Rule>,
    /// Whether the request supplied the rule: then only what is taken or given back puts it in force. A
    /// key's own rule is in force once it is asked for.
    pub(super) brought: bool,
    /// The generation that the step asks in.
    pub(super) generation: GenerationNumber,
}

impl<'a> Part<'a> {
    /// The only limiter of a request, under the rule of its table.
    pub(crate) const fn alone(fingerprint: Fingerprint, cost: u64, step: Step) -> Self {
        let (rule, brought, generation) = (None, false, 0);
        Self { place: 0, fingerprint, cost, step, enforced: true, rule, brought, generation }
    }

    /// The same under a rule of its own, which the request supplied or not.
    pub(crate) const fn under(self, rule: &'a Rule, brought: bool) -> Self {
        Self { rule: Some(rule), brought, ..self }
    }

    /// The step of a limiter that has no part in deciding: it gives back, or reports. An unlimited rule
    /// counts nothing, so no more either.
    pub(super) fn given_back(&self, is_unlimited: bool) -> Option<Step> {
        match self.step {
            Step::Settle { actual } if is_unlimited => {
                Some(Step::Settle { actual: actual.min(self.cost) })
            }
            step => (step.is_unconditional() && !is_unlimited).then_some(step),
        }
    }
}

/// The limiters of one variant of a rule.
///
/// Whoever is told [`Moved`] has taken nothing, and asks again in the newest generation.
pub(crate) trait Table: Migrate + fmt::Debug + Send + Sync {
    /// Whether the early part of a [`Reading`] is of use to it: not to states that are kept whole.
    fn reads_early(&self) -> bool {
        false
    }

    /// Decides and takes in the first generation, working out no figures: whether the cost was admitted.
    /// The clock comes as the parts of a [`Reading`].
    fn admits(
        &self,
        fingerprint: Fingerprint,
        cost: u64,
        early: Timestamp,
        clock: &dyn Clock,
    ) -> Result<bool, Moved>;

    /// One step with one limiter, from finding it to storing it.
    fn one(&self, part: &Part<'_>, reading: Reading<'_>) -> Result<One, Moved>;

    /// One step in the first generation with the overflow limiter, for who knows to have
    /// been there.
    fn shared(&self, cost: u64, step: Step, reading: Reading<'_>) -> Result<One, Moved>;

    /// Holds several limiters, none named twice, until the answer is dropped or released. `now` is a time at or
    /// before that of the step.
    fn hold<'a>(
        &'a self,
        parts: &[Part<'a>],
        now: Timestamp,
    ) -> Result<Box<dyn LockedLimiters + 'a>, Moved>;

    /// Reads a little of the memory that a limiter lives in, so that it is on its way; what is read
    /// means nothing.
    fn touch(&self, _fingerprint: Fingerprint) -> u64 {
        0
    }

    /// Makes one limiter as good as new, in the first generation. The overflow limiter stays as
    /// it is.
    fn forget(&self, fingerprint: Fingerprint) -> Result<(), Moved>;

    /// Drops some limiters that are idle, looking at a few and waiting for none.
    fn tidy(&self, now: Timestamp);

    /// A preview from a limiter's state as it is now.
    fn preview(&self, part: &Part<'_>, reading: Reading<'_>) -> Result<Box<dyn Preview>, Moved>;

    /// Puts a rule in force for the overflow limiter, where each limiter has its own.
    fn amend(&self, _rule: &Rule) {}

    /// What counts its limiters.
    fn budget(&self) -> &Budget;

    /// Bytes for which a single limiter has to have room, whatever the cap.
    fn bytes_of_one(&self) -> usize {
        0
    }

    /// Which generations may ask it, and which tables it succeeds.
    fn succession(&self) -> &Succession<dyn Table>;
}

/// The way of a table's limiters to the table that succeeds it.
pub(crate) trait Migrate {
    /// The limiters in one of its parts, which have numbers from 0; `None` where there are no more parts.
    fn fingerprints(&self, part: usize) -> Option<Vec<Fingerprint>>;

    /// Takes a limiter out, whose place stays claimed.
    fn take_out(&self, fingerprint: Fingerprint) -> Option<Box<dyn Leaving>>;

    /// Takes the overflow limiter out.
    fn take_overflow(&self) -> Option<Box<dyn Leaving>>;

    /// Moves a limiter here from a table that this one succeeds, unless somebody did.
    fn adopt(&self, fingerprint: Fingerprint);

    /// Moves the overflow limiter here, unless somebody did.
    fn adopt_overflow(&self);

    /// Bytes that all its limiters would take under `rule` where those are kept whole, and how many there are.
    fn weigh(&self, rule: &Rule, at: Timestamp) -> (usize, usize);

    /// Whether it has no limiter that is of any use.
    fn is_idle(&self, now: Timestamp) -> bool;
}

/// The limiters of a step in one table, under its locks.
pub(crate) trait LockedLimiters {
    /// Prepares the limiters for a step at this time.
    fn begin(&mut self, _at: Timestamp) {}
    /// Adds the limiters, each with its index in the request, to a list.
    fn held<'h>(&'h mut self, held: &mut Vec<LockedLimiter<'h>>);
    /// Stores the limiters as the step left them, drops those that are idle, and releases the locks.
    fn release(self: Box<Self>, at: Timestamp);
    /// Drops the limiters, and releases the locks.
    fn forget(self: Box<Self>);
}

/// One of the limiters under the locks of a table.
pub(crate) struct LockedLimiter<'a> {
    pub(super) place: usize,
    pub(super) verbs: Box<dyn StoreVerbs + 'a>,
}

/// The verbs of an algorithm on a locked limiter, and those that the store adds.
pub(crate) trait StoreVerbs: Verbs {
    /// Whether the limiter decided without room for its state.
    fn is_overflow(&self) -> bool;

    /// Whether the overflow limiter decided instead of the key's own.
    fn is_elsewhere(&self) -> bool;

    /// Gives back what `reserved`, which was taken, is above `actual`, or takes what it is below.
    fn settle(&mut self, now: Timestamp, reserved: u64, actual: u64);

    /// Takes its cost as usage that is reported: see [`Held::take_reported`].
    fn take_reported(&mut self, now: Timestamp);
}

impl<R: Algorithm> StoreVerbs for Held<'_, R> {
    fn is_overflow(&self) -> bool {
        false
    }

    fn is_elsewhere(&self) -> bool {
        false
    }

    fn settle(&mut self, now: Timestamp, reserved: u64, actual: u64) {
        Held::settle(self, now, reserved, actual);
    }

    fn take_reported(&mut self, now: Timestamp) {
        Held::take_reported(self, now);
    }
}
