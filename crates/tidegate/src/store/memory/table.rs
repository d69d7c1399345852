//! What a table of limiters does, whatever its algorithm and however it keeps their states.

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Algorithm, Held, Packing, Rule, Timestamp, Verbs};

use super::budget::Budget;
use super::later::Later;
use super::preview::{Preview, preview_of_none};
use crate::clock::{Clock, Reading};
use crate::key::Fingerprint;
use crate::rules::OnFull;
use crate::step::{One, Step};

impl Step {
    /// Does it with one limiter that is held, at `now`; answers also whether its state may have changed.
    #[inline]
    pub(super) fn run<R: Algorithm>(
        self,
        algorithm: &R,
        slot: &mut Option<R::State>,
        cost: u64,
        now: Timestamp,
    ) -> (One, bool) {
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
        let (one, _) = self.run_held(Held::new(algorithm, slot, cost).in_place(), cost, now);
        One { overflow: true, ..one }
    }

    /// Whether it puts another rule in force: not one that only looks, unless it asks for a unit.
    pub(super) const fn changes_rule(self, cost: u64) -> bool {
        self.gives_back() || self.takes(cost) || matches!(self, Self::Look)
    }

    #[inline]
    fn run_held<R: Algorithm>(
        self,
        mut held: Held<'_, R>,
        cost: u64,
        now: Timestamp,
    ) -> (One, bool) {
        let (verdict, changed) = match self {
            Self::Decide | Self::Ask => {
                let verdict = held.ask(now);
                (verdict, verdict.is_allowed() && cost > 0)
            }
            Self::Peek | Self::Look => {
                held.advance(now);
                (held.decide(), false)
            }
            Self::Report => {
                held.take_reported(now);
                held.advance(now);
                (held.decide(), true)
            }
            Self::Refund => {
                held.advance(now);
                held.give_back();
                (held.decide(), true)
            }
            Self::Settle { actual } => {
                held.settle(now, cost, actual);
                held.advance(now);
                (held.decide(), true)
            }
        };
        let decision = self.wants_figures().then(|| held.report());
        let (overflow, elsewhere, figures) = (false, false, None);
        (One { verdict, at: now, decision, overflow, elsewhere, figures }, changed)
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
}

impl<'a> Part<'a> {
    /// The only limiter of a request, under the rule of its table.
    pub(crate) const fn alone(fingerprint: Fingerprint, cost: u64, step: Step) -> Self {
        Self { place: 0, fingerprint, cost, step, enforced: true, rule: None, brought: false }
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
pub(crate) trait Table: fmt::Debug + Send + Sync {
    /// Whether the early part of a [`Reading`] is of use to it: not to states that are kept whole.
    fn reads_early(&self) -> bool {
        false
    }

    /// Decides and takes, working out no figures: whether the cost was admitted.
    /// The clock comes as the parts of a [`Reading`].
    fn admits(
        &self,
        fingerprint: Fingerprint,
        cost: u64,
        early: Timestamp,
        clock: &dyn Clock,
    ) -> bool;

    /// One step with one limiter, from finding it to storing it.
    fn one(&self, part: &Part<'_>, reading: Reading<'_>) -> One;

    /// One step with the limiter that keys without room share, for who knows to have been there.
    fn shared(&self, cost: u64, step: Step, reading: Reading<'_>) -> One;

    /// Holds several limiters, none named twice, until the answer is dropped or released; `None`, and
    /// nothing is held, where a part of it is closed. `now` is a time at or before that of the step.
    fn hold<'a>(&'a self, parts: &[Part<'a>], now: Timestamp) -> Option<Box<dyn Hold + 'a>>;

    /// Reads a little of the memory that a limiter lives in, so that it is on its way; what is read
    /// means nothing.
    fn touch(&self, _print: Fingerprint) -> u64 {
        0
    }

    /// Makes one limiter as good as new. The one that keys without room share stays as it is.
    fn forget(&self, fingerprint: Fingerprint);

    /// Drops some limiters that are idle, looking at a few and waiting for none.
    fn tidy(&self, now: Timestamp);

    /// Limiters in existence.
    fn keys(&self) -> usize;

    /// A preview from a limiter's state as it is now.
    fn preview(&self, part: &Part<'_>, reading: Reading<'_>) -> Box<dyn Preview>;

    /// Puts a rule in force for the limiter that keys without room share, where each limiter has its own.
    fn amend(&self, _rule: &Rule) {}

    /// Closes it for good, one part after another; whoever meets a closed part waits for what follows.
    /// Returns its limiters; `None` where each has a rule of its own, and none follows.
    fn close(&self) -> Option<Box<dyn Legacy + '_>>;
}

impl Later<dyn Table> {
    /// [`Table::admits`] of the table in force.
    pub(crate) fn admits(&self, fingerprint: Fingerprint, cost: u64, reading: Reading<'_>) -> bool {
        self.with(|table| {
            table.is_none_or(|table| {
                table.admits(fingerprint, cost, reading.early(), reading.clock())
            })
        })
    }

    /// [`Table::one`] of the table in force.
    pub(crate) fn one(&self, part: &Part<'_>, reading: Reading<'_>) -> One {
        let current = self.read();
        let one = match &current.limiters {
            Some(table) => table.one(part, reading),
            None => One::unlimited(reading.early()),
        };
        One { figures: current.rule.clone(), ..one }
    }

    /// [`Table::shared`] of the table in force.
    pub(crate) fn shared(&self, cost: u64, step: Step, reading: Reading<'_>) -> One {
        self.with(|table| match table {
            Some(table) => table.shared(cost, step, reading),
            None => One::unlimited(reading.early()),
        })
    }

    /// [`Table::ahead`] of the table in force.
    pub(crate) fn preview(&self, part: &Part<'_>, reading: Reading<'_>) -> Box<dyn Preview> {
        self.with(|table| table.map_or_else(preview_of_none, |table| table.preview(part, reading)))
    }

    /// [`Table::forget`] of the table in force.
    pub(crate) fn forget(&self, fingerprint: Fingerprint) {
        self.with(|table| table.iter().for_each(|table| table.forget(fingerprint)));
    }

    /// [`Table::tidy`] of the table in force.
    pub(super) fn tidy(&self, now: Timestamp) {
        let current = self.try_read();
        let table = current.as_ref().and_then(|current| current.limiters.as_ref());
        table.iter().for_each(|table| table.tidy(now));
    }

    /// [`Table::keys`] of the table in force.
    pub(crate) fn keys(&self) -> usize {
        self.with(|table| table.map_or(0, |table| table.keys()))
    }
}

/// Limiters that nobody else can touch.
pub(crate) trait Hold {
    /// The step is to be run at this time: what has to be done before, is.
    fn begin(&mut self, _at: Timestamp) {}
    /// The limiters, each with its place in the request.
    fn held(&mut self) -> Vec<Holding<'_>>;
    /// Stores what was done with them, but for limiters that are idle, and lets go.
    fn release(self: Box<Self>, at: Timestamp);
    /// Lets go, the limiters forgotten.
    fn forget(self: Box<Self>);
}

/// One limiter of a [`Hold`].
pub(crate) struct Holding<'a> {
    pub(super) place: usize,
    pub(super) verbs: Box<dyn Grip + 'a>,
}

/// The verbs of a limiter in hand, and what the store adds to them.
pub(crate) trait Grip: Verbs {
    /// Whether there was no room for what it decided.
    fn is_overflow(&self) -> bool;

    /// Whether it is not the key's own limiter that decided.
    fn is_elsewhere(&self) -> bool;

    /// Gives back what `reserved`, which was taken, is above `actual`, or takes what it is below.
    fn settle(&mut self, now: Timestamp, reserved: u64, actual: u64);

    /// Takes its cost as usage that is reported: see [`Held::take_reported`].
    fn take_reported(&mut self, now: Timestamp);
}

impl<R: Algorithm> Grip for Held<'_, R> {
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

/// All limiters of a closed table, whatever their algorithm. `now` is a time at or after the last unit taken from them.
pub(crate) trait Legacy {
    /// How many there are.
    fn limiters(&self) -> usize;

    /// Under whose caps they were.
    fn budget(&self) -> &Arc<Budget>;

    /// Bytes that they would take under `rule`, where states are kept whole; else 0.
    fn bytes_under(&self, rule: &Rule, build: &Build<'_>, now: Timestamp) -> usize;

    /// What follows under `rule`; nothing where that is unlimited.
    fn pass_on(self: Box<Self>, rule: &Rule, build: &Build<'_>, now: Timestamp) -> Heir;

    /// What follows under the old rule.
    fn stay(self: Box<Self>, build: &Build<'_>, now: Timestamp) -> Heir;
}

/// The table that follows one that was closed.
#[derive(Debug, Default)]
pub(crate) struct Heir {
    /// `None` where the rule is unlimited.
    pub(super) table: Option<Box<dyn Table>>,
    /// How many limiters it took over.
    pub(super) limiters: usize,
}

/// What a table is built with.
#[derive(Clone, Debug)]
pub(crate) struct Build<'a> {
    /// What packed times count from; `None` where the clock may step back.
    pub(super) base: Option<Timestamp>,
    pub(super) budget: &'a Arc<Budget>,
    pub(super) on_full: OnFull,
    /// What decides once the table is closed.
    pub(super) later: Arc<Later<dyn Table>>,
}

impl Build<'_> {
    /// Whether the states of an algorithm are packed.
    pub(super) fn packs<R: Algorithm>(&self, algorithm: &R) -> bool {
        self.base.is_some() && algorithm.packing() == Packing::One
    }
}
