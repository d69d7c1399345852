//! The table of an unlimited rule: it admits everything and keeps nothing.

use std::sync::Arc;

use tidegate_core::{Rule, Timestamp};

use super::budget::Budget;
use super::leaving::Leaving;
use super::preset::Preset;
use super::preview::{Preview, UnlimitedPreview};
use super::succession::{Moved, Succession};
use super::table::{LockedLimiter, LockedLimiters, Migrate, Part, Table};
use crate::clock::{Clock, Reading};
use crate::inline_list::InlineList;
use crate::key::Fingerprint;
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
        _now: Timestamp,
    ) -> Result<Box<dyn LockedLimiters + 'a>, Moved> {
        parts.iter().try_for_each(|part| self.succession.check(part.generation).map(drop))?;
        let preset = |part: &Part<'_>| (part.place, Preset::unlimited(part.enforced));
        Ok(Box::new(Unlocked(parts.iter().map(preset).collect())))
    }

    fn forget(&self, _fingerprint: Fingerprint) -> Result<(), Moved> {
        self.succession.check(0).map(drop)
    }

    fn tidy(&self, _now: Timestamp) {}

    fn preview(&self, part: &Part<'_>, _reading: Reading<'_>) -> Result<Box<dyn Preview>, Moved> {
        self.succession.check(part.generation).map(|_| Box::new(UnlimitedPreview) as _)
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

/// The limiters of a step, of which nothing is kept and nothing is locked.
struct Unlocked(InlineList<(usize, Preset)>);

impl LockedLimiters for Unlocked {
    fn held<'h>(&'h mut self, held: &mut Vec<LockedLimiter<'h>>) {
        let all = self.0.iter();
        held.extend(
            all.map(|(place, preset)| LockedLimiter { place: *place, verbs: Box::new(*preset) }),
        );
    }

    fn release(self: Box<Self>, _at: Timestamp) {}

    fn forget(self: Box<Self>) {}
}
