//! An entry of a sharded table: a limiter that is under the table's rule, or that knows its own.

use std::fmt;

use tidegate_core::{Decision, Rule, Timestamp, Verdict};

use super::budget::Need;
use super::leaving::Leaving;
use super::preset::Preset;
use super::preview::Preview;
use super::succession::Succession;
use super::table::{Part, StoreVerbs, Table};
use crate::clock::Clock;
use crate::step::{One, Step};

/// A limiter as a table keeps it.
pub(super) trait Entry: Clone + fmt::Debug + Send + 'static {
    /// What a table knows of the rules of its entries.
    type Rules: fmt::Debug + Send + Sync;

    /// What the entries of a shard share.
    type Recent: Default + fmt::Debug + Send;

    /// A limiter that is still to begin, under the rule that is asked about; `None` where that is unlimited.
    fn new(part: &Part<'_>, recent: &mut Self::Recent) -> Option<Self>;

    /// Heap bytes that it needs to begin, and for its next unit.
    fn need(&self, rules: &Self::Rules) -> Need;

    /// Whether its state has the memory for its next unit.
    fn has_place(&self, rules: &Self::Rules) -> bool;

    /// Heap bytes that it takes now.
    fn bytes(&self, rules: &Self::Rules) -> usize;

    /// Whether forgetting it would change no later decision.
    fn is_idle(&self, rules: &Self::Rules, now: Timestamp) -> bool;

    /// Runs a step; [`Step::changes`] says whether that changed its state.
    fn run(&mut self, rules: &Self::Rules, step: Step, cost: u64, now: Timestamp) -> One;

    /// Runs a step in the memory that the state has; `None` where there is no state.
    fn run_in_place(
        &mut self,
        rules: &Self::Rules,
        step: Step,
        cost: u64,
        now: Timestamp,
    ) -> Option<One>;

    /// Decides and takes, working out no figures; `None` where [`Entry::run`] has to do it.
    #[inline]
    fn ask(&mut self, _rules: &Self::Rules, _cost: u64, _clock: &dyn Clock) -> Option<bool> {
        None
    }

    /// Its verbs for a step over several.
    fn verbs<'h>(
        &'h mut self,
        rules: &'h Self::Rules,
        cost: u64,
        enforced: bool,
        in_place: bool,
    ) -> Box<dyn StoreVerbs + 'h>;

    /// A preview from its state under the rule that is asked about; `None` is a limiter that is still to
    /// begin.
    fn preview(
        entry: Option<Self>,
        rules: &Self::Rules,
        part: &Part<'_>,
        now: Timestamp,
    ) -> Box<dyn Preview>;

    /// Puts the overflow limiter under its rule; returns whether there is such a limiter.
    fn share(rules: &Self::Rules, entry: &mut Option<Self>, now: Timestamp) -> bool;

    /// The refusal of a key for which there is no room, in a step over it `alone` or over several.
    fn refusal(rules: &Self::Rules, part: &Part<'_>, alone: bool) -> Preset;

    /// The limiter as it leaves for a table that succeeds its own, whose limiters are under `rule`; `None` where
    /// it is still to begin.
    fn leave(self, rules: &Self::Rules, rule: &Rule) -> Option<Box<dyn Leaving>>;

    /// Bytes that it would take under `rule`, which is that of a table that is to succeed its own.
    fn bytes_under(&self, _rules: &Self::Rules, _rule: &Rule, _at: Timestamp) -> usize {
        0
    }

    /// A limiter that left a table which this one succeeds; `None` where it is idle by then.
    fn adopt(
        rules: &Self::Rules,
        left: Box<dyn Leaving>,
        succession: &Succession<dyn Table>,
    ) -> Option<Self>;

    /// Puts another rule in force for the overflow limiter.
    fn amend(_rules: &Self::Rules, _rule: &Rule) {}

    /// Whether the rule that is asked about is unlimited.
    #[inline]
    fn is_unlimited(_part: &Part<'_>) -> bool {
        false
    }

    /// The reply to a key without room whose own rule never admits the cost.
    fn never(_part: &Part<'_>, _now: Timestamp) -> Option<One> {
        None
    }

    /// Whether it is under the rule that is asked about.
    #[inline]
    fn is_under(&self, _part: &Part<'_>) -> bool {
        true
    }

    /// Comes under the rule that is asked about, in a step over one limiter. `claim` claims the memory that
    /// it [needs](Entry::need) to begin.
    ///
    /// # Errors
    /// The reply, where it stays under the rule it has.
    fn come_under(
        &mut self,
        _part: &Part<'_>,
        _recent: &mut Self::Recent,
        _now: Timestamp,
        _claim: impl FnOnce(usize) -> bool,
    ) -> Result<(), One> {
        Ok(())
    }

    /// Comes under the rule that is asked about, in a step over several; returns what may be undone after it.
    fn begin(
        &mut self,
        _part: &Part<'_>,
        _recent: &mut Self::Recent,
        _at: Timestamp,
    ) -> Option<Box<Change<Self>>> {
        None
    }
}

/// A change of a limiter's rule that is undone after the step unless it comes in force.
#[derive(Debug)]
pub(super) struct Change<E> {
    pub(super) before: E,
    /// The reply of a rule that the request supplied.
    pub(super) seen: Option<One>,
    /// Whether taking puts the rule in force.
    pub(super) commits: bool,
    pub(super) in_force: bool,
}

impl<E> Change<E> {
    /// The decision that denies the cost under a rule that the request supplied and that stays out of force.
    pub(super) fn denied(&self) -> Option<Decision> {
        let seen = self.seen.as_ref().filter(|_| !self.in_force)?;
        seen.decision.filter(|_| seen.verdict == Verdict::Deny)
    }
}
