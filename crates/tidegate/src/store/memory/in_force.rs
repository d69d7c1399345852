//! A table as the table of a rule in force. If the rule is unlimited, it admits everything and counts nothing.
//!
//! If the rule had a limit before, the limiters stay in the table of that time. Nothing is taken from them; reserved units
//! come back to them, and the table of the next limit succeeds theirs.

use std::ops::Deref;
use std::sync::Arc;

use tidegate_core::Timestamp;

use super::packed::LockedWords;
use super::preview::{Preview, UnlimitedPreview};
use super::succession::{GenerationNumber, KEPT, Moved};
use super::table::{LockedLimiters, Part, Table};
use crate::clock::{Clock, Reading};
use crate::inline_list::InlineList;
use crate::key::Fingerprint;
use crate::step::{One, Step};

/// The table of a rule in force.
#[derive(Clone, Debug)]
pub(super) struct TableInForce {
    pub(super) table: Arc<dyn Table>,
    /// True if the rule is unlimited, under whatever rule the table keeps its limiters.
    pub(super) is_unlimited: bool,
}

impl Deref for TableInForce {
    type Target = dyn Table;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &*self.table
    }
}

/// The methods of [`Table`] that ask limiters.
impl TableInForce {
    #[inline]
    pub(super) fn admits(
        &self,
        fingerprint: Fingerprint,
        cost: u64,
        early: Timestamp,
        clock: &dyn Clock,
    ) -> Result<bool, Moved> {
        if self.is_unlimited {
            // No generation has this number or a higher number, so only a table that was superseded refuses.
            self.succession().check(KEPT).map(|_| true)
        } else {
            self.table.admits(fingerprint, cost, early, clock)
        }
    }

    #[inline]
    pub(super) fn one(&self, part: &Part<'_>, reading: Reading<'_>) -> Result<One, Moved> {
        if self.is_unlimited {
            self.unlimited(part, reading, |part| self.table.one(part, reading))
        } else {
            self.table.one(part, reading)
        }
    }

    pub(super) fn one_of_overflow(
        &self,
        part: &Part<'_>,
        reading: Reading<'_>,
    ) -> Result<One, Moved> {
        if self.is_unlimited {
            self.unlimited(part, reading, |part| self.overflow().one(part, reading))
        } else {
            self.overflow().one(part, reading)
        }
    }

    /// Lets a step give back to a limiter that is kept.
    #[cold]
    fn unlimited(
        &self,
        part: &Part<'_>,
        reading: Reading<'_>,
        run: impl FnOnce(&Part<'_>) -> Result<One, Moved>,
    ) -> Result<One, Moved> {
        self.succession().check(KEPT)?;
        if let Some(part) = given_back(part) {
            // Its reply is not shown: an unlimited rule admits everything.
            run(&part)?;
        }
        Ok(One::unlimited(reading.early()))
    }

    pub(super) fn hold<'a>(
        &'a self,
        parts: &[Part<'a>],
        now: Timestamp,
    ) -> Result<Box<dyn LockedLimiters + 'a>, Moved> {
        if !self.is_unlimited {
            return self.table.hold(parts, now);
        }
        self.succession().check(KEPT)?;
        // Settlements and resets give back, and either is the
        // step of all parts: all of them give back, or none does.
        let back: Option<InlineList<_>> = parts.iter().map(given_back).collect();
        let kept = back.map(|back| {
            let locked = self.table.hold(&back, now)?;
            Ok::<_, Moved>((back, locked))
        });
        Ok(Box::new(KeptLimiters { kept: kept.transpose()? }))
    }

    #[inline]
    pub(super) fn lock_words(
        &self,
        fingerprint: Fingerprint,
        generation: GenerationNumber,
    ) -> Result<Option<LockedWords<'_>>, Moved> {
        if self.is_unlimited { Ok(None) } else { self.table.lock_words(fingerprint, generation) }
    }

    pub(super) fn preview(
        &self,
        part: &Part<'_>,
        reading: Reading<'_>,
    ) -> Result<Box<dyn Preview>, Moved> {
        if self.is_unlimited {
            self.succession().check(KEPT).map(|_| Box::new(UnlimitedPreview) as _)
        } else {
            self.table.preview(part, reading)
        }
    }
}

/// The part of a kept limiter in a step, if the step gives back.
fn given_back<'a>(part: &Part<'a>) -> Option<Part<'a>> {
    Some(Part { step: part.unconditional_step(true)?, generation: KEPT, ..*part })
}

/// The limiters of a step; kept limiters are locked if the step gives back.
struct KeptLimiters<'a> {
    kept: Option<(InlineList<Part<'a>>, Box<dyn LockedLimiters + 'a>)>,
}

impl LockedLimiters for KeptLimiters<'_> {
    fn begin(&mut self, at: Timestamp) {
        self.kept.iter_mut().for_each(|(_, kept)| kept.begin(at));
    }

    fn run(&mut self, number: usize, _step: Step, at: Timestamp) -> One {
        if let Some((back, kept)) = &mut self.kept {
            kept.run(number, back[number].step, at);
        }
        One::unlimited(at)
    }

    fn release(self: Box<Self>, at: Timestamp) {
        self.kept.into_iter().for_each(|(_, kept)| kept.release(at));
    }
}
