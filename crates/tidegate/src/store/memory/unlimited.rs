//! The table of an unlimited rule: it admits everything and counts nothing.
//!
//! If the rule had a limit before, the limiters stay in the table of that time. Nothing is taken from them, reserved
//! units come back to them, and the table of the next limit succeeds theirs.

use std::io;
use std::sync::Arc;

use tidegate_core::{Rule, Timestamp};

use super::budget::Budget;
use super::leaving::Leaving;
use super::preset::Preset;
use super::preview::{Preview, UnlimitedPreview};
use super::succession::{GenerationNumber, KEPT, Moved, Succession};
use super::table::{
    LockedLimiter, LockedLimiters, LockedVerbs, Migrate, Part, Restored, Save, Table,
};
use crate::clock::{Clock, Reading};
use crate::inline_list::{InlineList, StepList};
use crate::key::Fingerprint;
use crate::snapshot::Records;
use crate::step::{One, Step};

/// The table.
#[derive(Debug)]
pub(super) struct Unlimited {
    /// The budget of the limiters that are kept or dropped.
    budget: Arc<Budget>,
    /// The rule and the times of the kept table, for the next table to read.
    succession: Succession<dyn Table>,
    kept: Option<Arc<dyn Table>>,
}

impl Unlimited {
    /// A table that drops the limiters of the tables that it succeeds.
    pub(super) const fn dropping(budget: Arc<Budget>, succession: Succession<dyn Table>) -> Self {
        Self { budget, succession, kept: None }
    }

    /// A table that keeps the limiters of another table, which no step asks any more.
    pub(super) fn keeping(kept: Arc<dyn Table>, budget: Arc<Budget>) -> Self {
        kept.serve_since(KEPT);
        let of_kept = kept.succession();
        let mut succession = Succession::new(of_kept.rule.clone(), of_kept.at, Vec::new());
        succession.meaning_since = of_kept.meaning_since;
        succession.rates = of_kept.rates.clone();
        Self { budget, succession, kept: Some(kept) }
    }

    /// Lets a step give back units of a limiter that is kept.
    fn run(
        &self,
        part: &Part<'_>,
        reading: Reading<'_>,
        run: impl FnOnce(&dyn Table, &Part<'_>) -> Result<One, Moved>,
    ) -> Result<One, Moved> {
        self.succession.check(part.generation)?;
        if let (Some(kept), Some(part)) = (&self.kept, given_back(part)) {
            run(&**kept, &part)?;
        }
        Ok(One::unlimited(reading.early()))
    }
}

/// The part of a step that a kept limiter has in it, if it gives back.
fn given_back<'a>(part: &Part<'a>) -> Option<Part<'a>> {
    Some(Part { step: part.unconditional_step(true)?, generation: KEPT, ..*part })
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
        self.run(part, reading, |kept, part| kept.one(part, reading))
    }

    fn shared(&self, part: &Part<'_>, reading: Reading<'_>) -> Result<One, Moved> {
        self.run(part, reading, |kept, part| kept.shared(part, reading))
    }

    fn hold<'a>(
        &'a self,
        parts: &[Part<'a>],
        clock: &dyn Clock,
    ) -> Result<Box<dyn LockedLimiters + 'a>, Moved> {
        parts.iter().try_for_each(|part| self.succession.check(part.generation).map(drop))?;
        let back: InlineList<_> = parts.iter().filter_map(given_back).collect();
        let kept = self.kept.as_ref().filter(|_| !back.is_empty());
        let kept = kept.map(|kept| kept.hold(&back, clock)).transpose()?;
        let preset = |part: &Part<'_>| (part.place, Preset::unlimited(part.enforced));
        let presets = parts.iter().map(preset).collect();
        Ok(Box::new(UnlimitedLimiters { presets, back, kept }))
    }

    fn tidy(&self, now: Timestamp) {
        self.kept.iter().for_each(|kept| kept.tidy(now));
    }

    fn preview(&self, part: &Part<'_>, _reading: Reading<'_>) -> Result<Box<dyn Preview>, Moved> {
        self.succession.check(part.generation).map(|_| Box::new(UnlimitedPreview) as _)
    }

    fn budget(&self) -> &Budget {
        &self.budget
    }

    fn packed_bytes(&self) -> usize {
        self.kept.as_ref().map_or(0, |kept| kept.packed_bytes())
    }

    fn succession(&self) -> &Succession<dyn Table> {
        &self.succession
    }

    fn serve_since(&self, generation: GenerationNumber) {
        self.succession.serve_since(generation);
        self.kept.iter().for_each(|kept| kept.serve_since(generation.max(KEPT)));
    }

    fn kept(&self) -> Option<&Arc<dyn Table>> {
        self.kept.as_ref()
    }
}

impl Migrate for Unlimited {
    fn fingerprints(&self, part: usize) -> Option<Vec<Fingerprint>> {
        self.kept.as_ref()?.fingerprints(part)
    }

    fn take_out(&self, fingerprint: Fingerprint) -> Option<Box<dyn Leaving>> {
        self.kept.as_ref()?.take_out(fingerprint)
    }

    fn take_overflow(&self) -> Option<Box<dyn Leaving>> {
        self.kept.as_ref()?.take_overflow()
    }

    fn adopt(&self, fingerprint: Fingerprint) {
        self.succession.take(|old| old.take_out(fingerprint));
        self.budget.release(1);
    }

    fn adopt_overflow(&self) {}

    fn weigh(&self, rule: &Rule, at: Timestamp) -> (usize, usize) {
        self.kept.as_ref().map_or((0, 0), |kept| kept.weigh(rule, at))
    }

    fn is_idle(&self, now: Timestamp) -> bool {
        self.kept.as_ref().is_none_or(|kept| kept.is_idle(now))
    }
}

impl Save for Unlimited {
    fn save(&self, clock: &dyn Clock, records: &mut Records<'_, '_>) -> io::Result<()> {
        self.kept.as_ref().map_or(Ok(()), |kept| kept.save(clock, records))
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

/// The limiters of a step.
struct UnlimitedLimiters<'a> {
    presets: InlineList<(usize, Preset)>,
    /// The parts of limiters that are kept, in a step that gives back; they are locked.
    back: InlineList<Part<'a>>,
    kept: Option<Box<dyn LockedLimiters + 'a>>,
}

impl LockedLimiters for UnlimitedLimiters<'_> {
    fn begin(&mut self, at: Timestamp) {
        let Some(kept) = &mut self.kept else { return };
        kept.begin(at);
        let mut held = StepList::new();
        kept.held(&mut held);
        for one in &mut held {
            match self.back.iter().find(|part| part.place == one.place) {
                Some(Part { step: Step::Reset { .. }, .. }) => one.reset(at),
                Some(part) => _ = one.settle_by(part.step, part.cost, at),
                None => {}
            }
        }
    }

    fn held<'h>(&'h mut self, held: &mut StepList<LockedLimiter<'h>>) {
        held.extend(self.presets.iter_mut().map(|(place, preset)| LockedLimiter {
            place: *place,
            began: Timestamp::EPOCH,
            verbs: LockedVerbs::Kept(preset),
        }));
    }

    fn release(self: Box<Self>, at: Timestamp) {
        self.kept.into_iter().for_each(|kept| kept.release(at));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::rules::RuleSpec;
    use crate::store::memory::build::{Build, budget_of};
    use crate::store::memory::migration::sweep;
    use crate::store::memory::succession::NEVER;
    use std::time::Duration;
    use tidegate_core::{AlgorithmKind, Spec};

    const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

    #[test]
    fn limiters_of_a_rule_that_becomes_unlimited_are_kept_and_nothing_is_counted_from_then_on() {
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
        assert_eq!((ask(&old), ask(&new), budget.keys()), (Err(Moved), Ok(true), 1));

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

        new.serve_since(NEVER);
        assert!(new.hold(&parts, &NOW).is_err() && ask(&new).is_err());
        let limited = build(spec, vec![Arc::clone(&new)]);
        sweep(&new, &limited);
        assert_eq!((ask(&limited), budget.keys()), (Ok(false), 1));
    }
}
