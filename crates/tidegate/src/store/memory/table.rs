//! What a table of limiters does, whatever its algorithm and however it keeps their states.

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Decision, Held, Room, Rule, Timestamp, Verbs, Verdict};

use super::ahead::{Ahead, ahead_of_none};
use super::estate::Legacy;
use super::later::Later;
use crate::clock::{Clock, Reading};
use crate::key::Fingerprint;

/// What is to be done with the limiters a request meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Decide and take; no figures.
    Decide,
    /// Decide and take, with figures.
    Ask,
    /// Decide only, with figures.
    Peek,
    /// Decide like [`Step::Ask`], and take nothing: a look at a limiter whose usage is reported.
    Look,
    /// Take, even into debt, and decide about one unit more, with figures: usage that is reported.
    Report,
    /// Give back, with figures.
    Refund,
    /// Give back what the cost, which was taken, is above `actual`, or take what it is below, even into
    /// debt; with figures.
    Settle {
        /// What the request turned out to cost.
        actual: u64,
    },
}

impl Step {
    /// Whether a limiter that does not exist yet begins with this step.
    pub(super) const fn begins(self, cost: u64) -> bool {
        match self {
            Self::Decide | Self::Ask | Self::Look => true,
            Self::Peek | Self::Refund => false,
            Self::Report => cost > 0,
            Self::Settle { actual } => actual > cost,
        }
    }

    /// Whether it may leave units behind, which need room.
    pub(super) const fn takes(self, cost: u64) -> bool {
        match self {
            Self::Settle { .. } => self.begins(cost),
            Self::Look => false,
            _ => self.begins(cost) && cost > 0,
        }
    }

    /// Whether it is to have memory for a unit more: one that only looks is answered as though it took.
    pub(super) const fn grows(self, cost: u64) -> bool {
        matches!(self, Self::Peek | Self::Look) && cost > 0 || self.takes(cost)
    }

    /// Whether it may take beyond the limit: its debt may be too large for a packed state.
    pub(super) const fn owes(self, cost: u64) -> bool {
        matches!(self, Self::Settle { .. } | Self::Report) && self.takes(cost)
    }

    /// The same for a key without a limiter of its own, with the one that such keys share: nothing is
    /// given back there, for nobody knows whether it was taken there.
    pub(super) const fn beyond(self, cost: u64) -> Self {
        match self {
            Self::Refund => Self::Peek,
            Self::Settle { .. } if !self.takes(cost) => Self::Peek,
            other => other,
        }
    }

    /// Whether it refuses nothing: what it gives back, or takes, is done whatever the limiter holds.
    pub(crate) const fn is_unconditional(self) -> bool {
        matches!(self, Self::Refund | Self::Settle { .. } | Self::Report)
    }

    /// Whether it may leave a limiter with more to give than before.
    pub(crate) const fn gives_back(self) -> bool {
        matches!(self, Self::Refund | Self::Settle { .. })
    }

    /// Whether figures are asked for.
    pub(super) const fn wants_figures(self) -> bool {
        !matches!(self, Self::Decide)
    }

    /// Does it with one limiter that is held, at `now`; answers also whether its state may have changed.
    #[inline]
    pub(super) fn run<R: Room>(
        self,
        room: &R,
        slot: &mut Option<R::State>,
        cost: u64,
        now: Timestamp,
    ) -> (One, bool) {
        self.run_held(Held::new(room, slot, cost), cost, now)
    }

    /// The same with a limiter for whose growth there is no memory.
    pub(super) fn run_in_place<R: Room>(
        self,
        room: &R,
        slot: &mut Option<R::State>,
        cost: u64,
        now: Timestamp,
    ) -> One {
        let (one, _) = self.run_held(Held::new(room, slot, cost).in_place(), cost, now);
        One { overflow: true, ..one }
    }

    #[inline]
    fn run_held<R: Room>(self, mut held: Held<'_, R>, cost: u64, now: Timestamp) -> (One, bool) {
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
pub(crate) struct Part {
    /// Its place in the request.
    pub(super) place: usize,
    pub(super) print: Fingerprint,
    pub(super) cost: u64,
    pub(super) step: Step,
    pub(super) enforced: bool,
}

/// What one limiter answered.
#[derive(Clone, Debug)]
pub(crate) struct One {
    pub(crate) verdict: Verdict,
    pub(crate) at: Timestamp,
    /// `None` where no figures were asked for, or the rule is unlimited.
    pub(crate) decision: Option<Decision>,
    /// There was no room: the key shares a limiter with others, or was refused, or its limiter goes on
    /// with coarser times.
    pub(crate) overflow: bool,
    /// It was not the key's own limiter that answered.
    pub(crate) elsewhere: bool,
    /// The figures that decided, where the rule of a gate was changed.
    pub(crate) figures: Option<Arc<Rule>>,
}

impl One {
    /// The answer of a rule that admits everything.
    pub(crate) const fn unlimited(at: Timestamp) -> Self {
        let (verdict, decision) = (Verdict::Allow, None);
        Self { verdict, at, decision, overflow: false, elsewhere: false, figures: None }
    }
}

/// The limiters of one variant of a rule.
pub(crate) trait Table: fmt::Debug + Send + Sync {
    /// Whether the early part of a [`Reading`] is of use to it: not to states that are kept whole.
    fn reads_early(&self) -> bool;

    /// Decides and takes, working out no figures: whether the cost was admitted.
    /// The clock comes as the parts of a [`Reading`].
    fn admits(&self, print: Fingerprint, cost: u64, early: Timestamp, clock: &dyn Clock) -> bool;

    /// One step with one limiter, from finding it to storing it.
    fn one(&self, print: Fingerprint, cost: u64, step: Step, reading: Reading<'_>) -> One;

    /// One step with the limiter that keys without room share, for who knows to have been there.
    fn shared(&self, cost: u64, step: Step, reading: Reading<'_>) -> One;

    /// Holds several limiters, none named twice, until the answer is dropped or released; `None`, and
    /// nothing is held, where a part of it is closed. `now` is a time at or before that of the step.
    fn hold(&self, parts: &[Part], now: Timestamp) -> Option<Box<dyn Hold + '_>>;

    /// Reads a little of the memory that a limiter lives in, so that it is on its way; what is read
    /// means nothing.
    fn touch(&self, print: Fingerprint) -> u64;

    /// Makes one limiter as good as new. The one that keys without room share stays as it is.
    fn forget(&self, print: Fingerprint);

    /// Drops some limiters that are as good as new, looking at a few and waiting for none.
    fn tidy(&self, now: Timestamp);

    /// Limiters in existence.
    fn keys(&self) -> usize;

    /// A look ahead from a limiter's state as it is now.
    fn ahead(&self, print: Fingerprint, reading: Reading<'_>) -> Box<dyn Ahead>;

    /// Closes it for good, one part after another; whoever meets a closed part waits for what follows.
    /// Answers its limiters.
    fn close(&self) -> Box<dyn Legacy + '_>;
}

impl Later<dyn Table> {
    /// [`Table::admits`] of the table in force.
    pub(crate) fn admits(&self, print: Fingerprint, cost: u64, reading: Reading<'_>) -> bool {
        self.with(|table| {
            table.is_none_or(|table| table.admits(print, cost, reading.early(), reading.clock()))
        })
    }

    /// [`Table::one`] of the table in force.
    pub(crate) fn one(
        &self,
        print: Fingerprint,
        cost: u64,
        step: Step,
        reading: Reading<'_>,
    ) -> One {
        let current = self.read();
        let one = match &current.limiters {
            Some(table) => table.one(print, cost, step, reading),
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
    pub(crate) fn ahead(&self, print: Fingerprint, reading: Reading<'_>) -> Box<dyn Ahead> {
        self.with(|table| table.map_or_else(ahead_of_none, |table| table.ahead(print, reading)))
    }

    /// [`Table::forget`] of the table in force.
    pub(crate) fn forget(&self, print: Fingerprint) {
        self.with(|table| table.iter().for_each(|table| table.forget(print)));
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
    /// Stores what was done with them, but for limiters that are as good as new, and lets go.
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

impl<R: Room> Grip for Held<'_, R> {
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

/// What becomes of a key for which there is no room.
///
/// There is none when as many limiters exist as may, or when states larger than a word take all the
/// bytes they may, and none of them was found to be as good as new. Looking is bounded work: a few
/// dozen limiters for each request, going on where the one before ended. So a key may for a moment find
/// no room though there could be some, and a place that became free is found before all limiters have
/// been looked at once. Where states grow (a `sliding_log`), no new limiter is let into the last eighth
/// of the bytes. One that is there and has no memory left for one unit more goes on in the memory that it
/// has, with coarser times: units taken then count for as long as the last of them. So it may admit later
/// than it would have, and never sooner, and such answers say `overflow` as well.
///
/// A look (`peek`, or a cost of 0) at such a key tells what a request would be told. A refund gives
/// nothing back to the shared limiter: it may come from a key that took nothing there, or long ago, and
/// would give the others more than the limit. A reservation knows where it was taken, so settling one
/// does give back there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnFull {
    /// It shares one limiter of the rule with all others that came too late.
    #[default]
    Share,
    /// It is refused.
    Refuse,
}
