//! The table of an unlimited rule: it admits everything and keeps nothing.

use std::io;
use std::sync::Arc;

use tidegate_core::{Rule, Timestamp};

use super::budget::Budget;
use super::leaving::Leaving;
use super::preset::Preset;
use super::preview::{Preview, UnlimitedPreview};
use super::succession::{Moved, Succession};
use super::table::{
    LockedLimiter, LockedLimiters, LockedVerbs, Migrate, Part, Restored, Save, Table,
};
use crate::clock::{Clock, Reading};
use crate::inline_list::{InlineList, StepList};
use crate::key::Fingerprint;
use crate::snapshot::Records;
use crate::step::{One, Step};

/// The table, which drops the limiters of the tables that it succeeds.
#[derive(Debug)]
pub(super) struct Unlimited {
    /// The budget of the limiters that are dropped.
    budget: Arc<Budget>,
    succession: Succession<dyn Table>,
}

impl Unlimited {
    pub(super) const fn new(budget: Arc<Budget>, succession: Succession<dyn Table>) -> Self {
        Self { budget, succession }
    }
}

impl Table for Unlimited {
    fn admits(
        &self,
        _fingerprint: Fingerprint,
        _cost: u64,
        _early: Timestamp,
        _clock: &dyn Clock,
    ) -> Result<bool, Moved> {
        self.succession.check(0).map(|_| true)
    }

    fn one(&self, part: &Part<'_>, reading: Reading<'_>) -> Result<One, Moved> {
        self.succession.check(part.generation).map(|_| One::unlimited(reading.early()))
    }

    fn shared(&self, _cost: u64, _step: Step, reading: Reading<'_>) -> Result<One, Moved> {
        self.succession.check(0).map(|_| One::unlimited(reading.early()))
    }

    fn hold<'a>(
        &'a self,
        parts: &[Part<'a>],
        _clock: &dyn Clock,
    ) -> Result<Box<dyn LockedLimiters + 'a>, Moved> {
        parts.iter().try_for_each(|part| self.succession.check(part.generation).map(drop))?;
        let preset = |part: &Part<'_>| (part.place, Preset::unlimited(part.enforced));
        Ok(Box::new(Unlocked(parts.iter().map(preset).collect())))
    }

    fn tidy(&self, _now: Timestamp) {}

    fn preview(&self, part: &Part<'_>, _reading: Reading<'_>) -> Result<Box<dyn Preview>, Moved> {
        self.succession.check(part.generation).map(|_| Box::new(UnlimitedPreview) as _)
    }

    fn budget(&self) -> &Budget {
        &self.budget
    }

    fn succession(&self) -> &Succession<dyn Table> {
        &self.succession
    }
}

impl Migrate for Unlimited {
    fn fingerprints(&self, _part: usize) -> Option<Vec<Fingerprint>> {
        None
    }

    fn take_out(&self, _fingerprint: Fingerprint) -> Option<Box<dyn Leaving>> {
        None
    }

    fn take_overflow(&self) -> Option<Box<dyn Leaving>> {
        None
    }

    fn adopt(&self, fingerprint: Fingerprint) {
        self.succession.take(|old| old.take_out(fingerprint));
        self.budget.release(1);
    }

    fn adopt_overflow(&self) {}

    fn weigh(&self, _rule: &Rule, _at: Timestamp) -> (usize, usize) {
        (0, 0)
    }

    fn is_idle(&self, _now: Timestamp) -> bool {
        true
    }
}

impl Save for Unlimited {
    fn save(&self, _clock: &dyn Clock, _records: &mut Records<'_, '_>) -> io::Result<()> {
        Ok(())
    }

    fn restore(
        &self,
        _fingerprint: Option<Fingerprint>,
        _left: Box<dyn Leaving>,
        _at: Timestamp,
    ) -> Restored {
        Restored::Idle
    }
}

/// The limiters of a step, of which nothing is kept and nothing is locked.
struct Unlocked(InlineList<(usize, Preset)>);

impl LockedLimiters for Unlocked {
    fn held<'h>(&'h mut self, held: &mut StepList<LockedLimiter<'h>>) {
        held.extend(self.0.iter_mut().map(|(place, preset)| LockedLimiter {
            place: *place,
            began: Timestamp::EPOCH,
            verbs: LockedVerbs::Kept(preset),
        }));
    }

    fn release(self: Box<Self>, _at: Timestamp) {}
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::rules::RuleSpec;
    use crate::store::memory::build::{Build, budget_of};
    use crate::store::memory::migration::sweep;
    use std::time::Duration;
    use tidegate_core::{AlgorithmKind, Spec};

    const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

    #[test]
    fn limiters_of_a_rule_that_becomes_unlimited_are_dropped_and_nothing_is_counted_from_then_on() {
        let spec = Spec::new(AlgorithmKind::TokenBucket, 1, Duration::from_secs(3_600));
        let budget = budget_of(&RuleSpec::new("", spec), None);
        let build = |spec, old| {
            let build = Build { base: Some(NOW), budget: &budget, at: NOW };
            build.table(&Rule::new(spec).unwrap(), old)
        };
        let old = build(spec, Vec::new());
        let ask = |table: &Arc<dyn Table>| table.admits(Fingerprint::FIRST, 1, NOW, &NOW);
        assert_eq!((ask(&old), ask(&old), budget.keys()), (Ok(true), Ok(false), 1));

        let unlimited = Spec::unlimited(AlgorithmKind::TokenBucket);
        let new = build(unlimited, vec![Arc::clone(&old)]);
        old.succession().supersede();
        sweep(&old, &new);
        assert_eq!((ask(&old), ask(&new), budget.keys()), (Err(Moved), Ok(true), 0));

        let parts = [7, 8].map(|place| {
            let part = Part::alone(Fingerprint::FIRST, u64::MAX, Step::Ask);
            Part { place, ..part }
        });
        let mut locked = new.hold(&parts, &NOW).unwrap();
        let mut held = StepList::new();
        locked.held(&mut held);
        assert!(tidegate_core::decide_all(&mut held, NOW));
        let replies: Vec<_> = held.iter().map(|one| (one.place, one.report().remaining)).collect();
        assert_eq!(replies, [(7, u64::MAX), (8, u64::MAX)]);
        drop(held);
        locked.release(NOW);

        new.succession().supersede();
        assert!(new.hold(&parts, &NOW).is_err() && ask(&new).is_err() && budget.keys() == 0);
    }
}
