//! The entries of a table: limiters that are under the table's rule, or that know their own.
//!
//! [`Entry`] is all that a sharded table needs of a limiter, and that a step over several needs of any limiter: a
//! packed table unpacks its words into a `FixedEntry` for such a step. [`LockedEntry`] is one limiter of that step,
//! and its [`Standing`] says what the table found: the limiter, a claimed place, or no space.

use std::any::Any;
use std::fmt;

use tidegate_core::{Decision, Rule, Timestamp, Verdict};

use super::budget::Need;
use super::leaving::Left;
use super::preview::Preview;
use super::table::Part;
use crate::clock::Clock;
use crate::key::Fingerprint;
use crate::snapshot::Records;
use crate::step::{One, Step};

/// The rules of a table: what they say of limiters that the table does not have.
pub(super) trait TableRules<E>: fmt::Debug + Send + Sync {
    /// Puts the overflow limiter under its rule; returns whether there is such a limiter.
    fn share(&self, entry: &mut Option<E>, now: Timestamp) -> bool;

    /// Returns the refusal of a key without room, in a step over it `alone` or over several limiters.
    fn refusal(&self, part: &Part<'_>, alone: bool) -> Decision;

    /// Takes over a limiter that left another table. The rules of this table are in force from `at` on. Returns `None`
    /// if the limiter is idle by then.
    fn adopt(&self, left: Left, at: Timestamp) -> Option<E>;

    /// Puts another rule in force for the overflow limiter.
    fn amend(&self, _rule: &Rule) {}
}

/// A limiter as a table keeps it.
pub(super) trait Entry: Clone + fmt::Debug + Send + 'static {
    /// The rules that a table keeps for all its entries.
    type Rules: TableRules<Self>;

    /// The values that the entries of a shard share.
    type Recent: Default + fmt::Debug + Send;

    /// Creates an entry without a state, under the rule of `part`; `None` if it has none.
    fn new(part: &Part<'_>, recent: &mut Self::Recent, now: Timestamp) -> Option<Self>;

    /// Heap bytes that it needs when it is created, and for its next unit: none if its state has the memory for that.
    fn need(&self, rules: &Self::Rules) -> Need;

    /// Heap bytes that it uses now.
    fn bytes(&self, rules: &Self::Rules) -> usize;

    /// Returns whether forgetting it would change no later decision.
    fn is_idle(&self, rules: &Self::Rules, now: Timestamp) -> bool;

    /// Runs a step; [`Step::changes`] says whether the state was changed. A step `in_place` takes no more memory.
    fn run(
        &mut self,
        rules: &Self::Rules,
        step: Step,
        cost: u64,
        now: Timestamp,
        in_place: bool,
    ) -> One;

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

    /// Returns the state of a limiter that leaves for another table; `None` if it has none.
    fn into_state(self) -> Option<Box<dyn Any>> {
        // No table succeeds one whose limiters have rules of their own.
        None
    }

    /// Returns the bytes that it would take under `rule`, the rule of a table that is to succeed its own.
    fn bytes_under(&self, _rules: &Self::Rules, _rule: &Rule, _at: Timestamp) -> usize {
        0
    }

    /// Adds the limiter to a snapshot, if it has a state.
    fn save(
        &self,
        rules: &Self::Rules,
        fingerprint: Option<Fingerprint>,
        now: Timestamp,
        records: &mut Records<'_, '_>,
    );

    /// Returns whether the limiter is under the rule of `part`, if `part` has one.
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

/// A change of a limiter's rule, undone after the step unless it takes effect.
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
    /// Returns the reply to a step on the limiter as changed. The change takes effect if the step takes; if it does
    /// not, a denial under the rule that the request supplied says when the cost fits.
    pub(super) fn reply(&mut self, mut one: One, step: Step, cost: u64) -> One {
        self.in_force |= self.commits && one.verdict.is_allowed() && step.takes(cost);
        if let Some(seen) = &self.seen
            && !self.in_force
            && seen.verdict == Verdict::Deny
        {
            one.decided.decision = seen.decided.decision;
        }
        one
    }
}

/// One limiter of a step over several, which has it to itself.
#[derive(Debug)]
pub(super) struct LockedEntry<'a, E: Entry> {
    pub(super) part: Part<'a>,
    pub(super) standing: Standing,
    /// The limiter; `None` if the overflow limiter decides, or none.
    pub(super) entry: Option<E>,
    pub(super) change: Option<Box<Change<E>>>,
    /// Bytes claimed for the growth of the limiter in this step.
    pub(super) claimed: usize,
}

/// The standing of a limiter in its table.
#[derive(Clone, Copy, Debug)]
pub(super) enum Standing {
    /// The limiter is in the table.
    There,
    /// The limiter is in the table, without memory for one more unit.
    Full,
    /// The limiter is not in the table, and a place is claimed for it.
    Claimed,
    /// The limiter is not in the table, and this step stores nothing.
    Absent,
    /// The limiter is not in the table, and there is no room.
    NoSpace,
    /// The limiter does not decide, but this; if it is in the table, it runs steps that are never refused.
    Refused(Decision),
}

impl<'a, E: Entry> LockedEntry<'a, E> {
    /// Creates the entry of a limiter in the table, or of a place for one.
    pub(super) const fn new(part: Part<'a>, standing: Standing, entry: E, claimed: usize) -> Self {
        Self { part, standing, entry: Some(entry), change: None, claimed }
    }

    /// Creates the entry of a key without room, or whose limiter does not decide.
    pub(super) const fn without(part: Part<'a>, standing: Standing) -> Self {
        Self { part, standing, entry: None, change: None, claimed: 0 }
    }

    pub(super) const fn has_no_space(&self) -> bool {
        matches!(self.standing, Standing::NoSpace)
    }

    /// Returns the limiter as the step leaves it.
    pub(super) fn end(&mut self) -> Option<E> {
        // A change that did not take effect leaves no trace: the limiter goes back as it was before.
        let undone = self.change.take().filter(|change| !change.in_force);
        undone.map(|change| change.before).or(self.entry.take())
    }

    /// Runs a step; `shared` is the overflow limiter, if it decides for this key.
    pub(super) fn run(
        &mut self,
        rules: &E::Rules,
        shared: Option<&mut E>,
        step: Step,
        at: Timestamp,
    ) -> One {
        let cost = self.part.cost;
        let is_unlimited = self.part.is_unlimited();
        // Without a limit the limiter's own step only gives back.
        let step = if is_unlimited { self.part.step } else { step };
        let one = match (self.standing, &mut self.entry) {
            (Standing::Refused(decision), entry) => Some(match entry {
                Some(entry) if step.is_unconditional() => entry.run(rules, step, cost, at, true),
                _ => One::instead(decision, at),
            }),
            (standing, Some(entry)) => {
                // If there is no memory for one unit more, new units are kept more coarsely.
                let one = entry.run(rules, step, cost, at, matches!(standing, Standing::Full));
                Some(match &mut self.change {
                    Some(change) => change.reply(one, step, cost),
                    None => one,
                })
            }
            // It gives nothing back there, because it is not known where its units were taken.
            (_, None) => shared.map(|entry| {
                let (step, cost) = step.beyond(cost);
                let one = entry.run(rules, step, cost, at, false);
                one.by_overflow(true)
            }),
        };
        if is_unlimited {
            return One::unlimited(at);
        }
        one.unwrap_or_else(|| One::instead(rules.refusal(&self.part, false), at))
    }
}
