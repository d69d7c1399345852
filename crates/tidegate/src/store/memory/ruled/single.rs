//! A limiter with a rule of its own, outside of any table.
//!
//! It is the state in `LimiterState`, which a store of your own keeps for each key.

use tidegate_core::{Rule, Timestamp};

use super::RuledEntry;
use crate::step::{One, Step};

/// A limiter with a rule of its own, outside of any table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Single(Option<RuledEntry>);

impl Single {
    /// Runs a step under `rule`, which takes effect; `None` if the rule is unlimited.
    pub(crate) fn run(
        &mut self,
        rule: &Rule,
        step: Step,
        cost: u64,
        now: Timestamp,
    ) -> Option<One> {
        RuledEntry::put_under(&mut self.0, rule, now);
        self.run_as_it_is(step, cost, now)
    }

    /// Runs a step under its own rule; `None` if it has none yet.
    pub(crate) fn run_as_it_is(&mut self, step: Step, cost: u64, now: Timestamp) -> Option<One> {
        Some(self.0.as_mut()?.any_mut().run(step, cost, now, false))
    }

    /// Returns whether a new limiter would decide the same, unless its rule begins in use.
    pub(crate) fn is_idle(&self, now: Timestamp) -> bool {
        self.0.as_ref().is_none_or(|entry| entry.any().is_idle(now))
    }

    pub(crate) const fn is_new(&self) -> bool {
        self.0.is_none()
    }
}
