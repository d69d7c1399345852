//! The entries of a sharded table: limiters that are under the table's rule, or that know their own.

use std::fmt;

use tidegate_core::{Decision, Rule, Timestamp, Verdict};

use super::budget::Need;
use super::leaving::Leaving;
use super::preview::Preview;
use super::table::Part;
use crate::clock::Clock;
use crate::key::Fingerprint;
use crate::snapshot::Records;
use crate::step::{One, Step};

/// A limiter as a table keeps it.
pub(super) trait Entry: Clone + fmt::Debug + Send + 'static {
    /// The rules that a table keeps for all its entries.
    type Rules: fmt::Debug + Send + Sync;

    /// The values that the entries of a shard share.
    type Recent: Default + fmt::Debug + Send;

    /// Creates an entry without a state, under the rule of `part`; `None` if that is unlimited.
    fn new(part: &Part<'_>, recent: &mut Self::Recent, now: Timestamp) -> Option<Self>;

    /// Heap bytes that it needs when it is created, and for its next unit: none if its state has the memory for that.
    fn need(&self, rules: &Self::Rules) -> Need;

    /// Heap bytes that it uses now.
    fn bytes(&self, rules: &Self::Rules) -> usize;

    /// Returns whether forgetting it would change no later decision.
    fn is_idle(&self, rules: &Self::Rules, now: Timestamp) -> bool;

    /// Runs a step; [`Step::changes`] says whether the state was changed.
    fn run(&mut self, rules: &Self::Rules, step: Step, cost: u64, now: Timestamp) -> One;

    /// Runs a step without more memory; `None` if there is no state.
    fn run_in_place(
        &mut self,
        rules: &Self::Rules,
        step: Step,
        cost: u64,
        now: Timestamp,
    ) -> Option<One>;

    /// Decides and takes, without values; `None` if [`Entry::run`] has to do it.
    #[inline]
    fn ask(&mut self, _rules: &Self::Rules, _cost: u64, _clock: &dyn Clock) -> Option<bool> {
        None
    }

    /// Creates a preview from its state under the rule of `part`; a missing entry is a limiter that does not exist
    /// yet.
    fn preview(
        entry: Option<Self>,
        rules: &Self::Rules,
        part: &Part<'_>,
        now: Timestamp,
    ) -> Box<dyn Preview>;

    /// Puts the overflow limiter under its rule; returns whether there is such a limiter.
    fn share(rules: &Self::Rules, entry: &mut Option<Self>, now: Timestamp) -> bool;

    /// Returns the refusal of a key without room, in a step over it `alone` or over several limiters.
    fn refusal(rules: &Self::Rules, part: &Part<'_>, alone: bool) -> Decision;

    /// Prepares the limiter to leave for a table whose limiters are under `rule`; `None` if it has no state.
    fn leave(self, rules: &Self::Rules, rule: &Rule) -> Option<Box<dyn Leaving>>;

    /// Returns the bytes that it would take under `rule`, the rule of a table that is to succeed its own.
    fn bytes_under(&self, _rules: &Self::Rules, _rule: &Rule, _at: Timestamp) -> usize {
        0
    }

    /// Takes over a limiter that left another table. The limiters of this table are under `rule` from `at` on. Returns
    /// `None` if the limiter is idle by then.
    fn adopt(left: Box<dyn Leaving>, rule: &Rule, at: Timestamp) -> Option<Self>;

    /// Adds the limiter to a snapshot, if it has a state.
    fn save(
        &self,
        rules: &Self::Rules,
        fingerprint: Option<Fingerprint>,
        now: Timestamp,
        records: &mut Records<'_, '_>,
    );

    /// Puts another rule in force for the overflow limiter.
    fn amend(_rules: &Self::Rules, _rule: &Rule) {}

    /// Returns whether the rule of `part` is unlimited.
    #[inline]
    fn is_unlimited(_part: &Part<'_>) -> bool {
        false
    }

    /// Returns the decision for a key without room whose own rule never admits the cost.
    fn never(_part: &Part<'_>, _now: Timestamp) -> Option<Decision> {
        None
    }

    /// Returns whether the limiter is under the rule of `part`.
    #[inline]
    fn is_under(&self, _part: &Part<'_>) -> bool {
        true
    }

    /// Puts the limiter under the rule of `part`; returns the change, if it may be undone.
    fn begin(
        &mut self,
        _part: &Part<'_>,
        _recent: &mut Self::Recent,
        _at: Timestamp,
    ) -> Option<Box<Change<Self>>> {
        None
    }
}

/// A change of a limiter's rule, undone after the step unless it comes in force.
#[derive(Debug)]
pub(super) struct Change<E> {
    pub(super) before: E,
    /// The reply under the rule that the request supplied.
    pub(super) seen: Option<One>,
    /// True if taking puts the rule in force.
    pub(super) commits: bool,
    pub(super) in_force: bool,
}

impl<E> Change<E> {
    /// Returns the reply to a step on the limiter as changed. The change comes in force if the step takes; if it does
    /// not, a denial under the rule that the request supplied says when the cost fits.
    pub(super) fn reply(&mut self, one: One, step: Step, cost: u64) -> One {
        self.in_force |= self.commits && one.verdict.is_allowed() && step.takes(cost);
        match &self.seen {
            Some(seen) if !self.in_force && seen.verdict == Verdict::Deny => {
                One { decision: seen.decision, ..one }
            }
            _ => one,
        }
    }
}
