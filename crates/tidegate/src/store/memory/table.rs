//! The operations of a table of limiters, for every algorithm and every way to keep states.
//!
//! [`Table`] is the fast path, which packed and sharded tables have each their own; [`AnyHome`] is all else, which
//! `home` has for both. A rule in force asks its table through [`TableInForce`], which answers for a rule without a
//! limit.

use std::fmt;
use std::io;
use std::ops::Deref;
use std::sync::Arc;

use tidegate_core::{Algorithm, Decision, Micros, Outcome, Rule, Timestamp};

use super::budget::Budget;
use super::leaving::Left;
use super::locked_words::LockedWords;
use super::preview::{Preview, UnlimitedPreview};
use super::succession::{GenerationNumber, KEPT, Moved, Succession};
use crate::clock::{Clock, Reading};
use crate::key::Fingerprint;
use crate::snapshot::Records;
use crate::step::{One, Step};

/// The refusal of a key that has no room and may not share. It may come back a window later, because every limiter that
/// was not asked for a window is idle. A permit of such a key is out no more.
pub(super) fn refusal<R: Algorithm>(algorithm: &R, part: &Part<'_>) -> Decision {
    let outcome = match part.step.asked(part.cost) {
        0 if !matches!(part.step, Step::Renew { .. }) => Outcome::Allow { delay: Micros::ZERO },
        _ => Outcome::Deny { retry_after: algorithm.window() },
    };
    Decision { outcome, limit: algorithm.limit(), remaining: 0, reset_after: algorithm.window() }
}

/// One limiter's part in a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    pub(super) fingerprint: Fingerprint,
    pub(super) cost: u64,
    pub(super) step: Step,
    /// The rule of the limiter, if the table has none of its own.
    pub(super) rule: Option<&'a Rule>,
    /// True if the request supplied the rule: then it takes effect only if units are taken or given back. A key's
    /// own rule takes effect with any step for which [`Step::changes_rule`] is true.
    pub(super) supplied: bool,
    /// The generation that the step asks in; [`KEPT`] without a limit.
    pub(super) generation: GenerationNumber,
}

impl<'a> Part<'a> {
    /// Creates the part of a request's only limiter, under the rule of its table.
    pub(crate) const fn alone(fingerprint: Fingerprint, cost: u64, step: Step) -> Self {
        Self { fingerprint, cost, step, rule: None, supplied: false, generation: 0 }
    }

    /// Returns this part under a rule of its own; the request supplied the rule if `supplied`.
    pub(crate) const fn under(self, rule: &'a Rule, supplied: bool) -> Self {
        Self { rule: Some(rule), supplied, ..self }
    }

    /// Returns this part without a limit: the limiter is kept as it is, and only given back to.
    fn without_limit(self) -> Self {
        let step = self.step.without_limit(self.cost).unwrap_or(Step::Peek);
        Self { step, rule: None, generation: KEPT, ..self }
    }

    /// Returns whether everything is admitted, so that the reply of the limiter is not shown.
    pub(super) const fn is_unlimited(&self) -> bool {
        self.generation == KEPT
    }

    /// Returns whether a step without a limit has something to do with the limiter.
    pub(super) const fn gives_back(&self) -> bool {
        !matches!(self.step, Step::Peek)
    }

    /// Returns this part for a table with this succession.
    #[inline]
    pub(super) fn dated<T: ?Sized>(self, succession: &Succession<T>) -> Self {
        Self { step: succession.dated(self.step), ..self }
    }
}

/// The limiters of one variant of a rule.
///
/// A caller that gets [`Moved`] has taken nothing, and asks again in the newest generation.
pub(crate) trait Table: AnyHome + fmt::Debug + Send + Sync {
    /// Returns whether the early part of a [`Reading`] is used; unpacked states do not use it.
    fn reads_early(&self) -> bool {
        false
    }

    /// Decides and takes in the first generation; returns only whether the cost was admitted. `early` and `clock` are
    /// the parts of a [`Reading`].
    fn admits(
        &self,
        fingerprint: Fingerprint,
        cost: u64,
        early: Timestamp,
        clock: &dyn Clock,
    ) -> Result<bool, Moved>;

    /// Runs one step on one limiter: finds it, decides, and stores it.
    fn one(&self, part: &Part<'_>, reading: Reading<'_>) -> Result<One, Moved>;

    /// Locks one limiter for a step that replaces no more than the words of its packed state; `None`, and nothing is
    /// locked, if it has none. The step may not leave [a state that may not fit](Step::may_not_fit).
    fn lock_words(
        &self,
        _fingerprint: Fingerprint,
        _generation: GenerationNumber,
    ) -> Result<Option<LockedWords<'_>>, Moved> {
        Ok(None)
    }

    /// Prefetches a little of the memory of limiters; the result means nothing.
    fn touch(&self, _fingerprints: &[Fingerprint]) -> u64 {
        0
    }

    /// Drops some idle limiters, looking at a few and waiting for no lock.
    fn tidy(&self, now: Timestamp);

    /// Bytes that must suffice for a single limiter, with any cap.
    fn bytes_of_one(&self) -> usize {
        0
    }

    /// Bytes of packed states that its budget does not count.
    fn packed_bytes(&self) -> usize {
        0
    }
}

/// The overflow limiter of a table.
pub(crate) trait Overflow {
    /// Runs one step on it, or refuses if there is none: for a key without room, or for a reservation that was taken there,
    /// whatever the key of `part`.
    ///
    /// # Errors
    /// Returns [`Moved`] if the table may not be asked any more.
    fn one(&self, part: &Part<'_>, reading: Reading<'_>) -> Result<One, Moved>;

    /// Moves it here from a table that this table succeeds, unless that was done.
    fn adopt(&self);

    /// Takes it out.
    fn take_out(&self) -> Option<Left>;
}

/// The operations of a table that do not depend on how it keeps its limiters.
pub(crate) trait AnyHome {
    /// The overflow limiter.
    fn overflow(&self) -> &dyn Overflow;

    /// The budget of its rule, which counts its limiters and the bytes of states of more than one word.
    fn budget(&self) -> &Budget;

    /// The generations that may ask it, and the tables that it succeeds.
    fn succession(&self) -> &Succession<dyn Table>;

    /// Locks several limiters, each once, until the result is dropped or released; `now` is at or before the time of
    /// the step.
    fn hold<'a>(
        &'a self,
        parts: &[Part<'a>],
        now: Timestamp,
    ) -> Result<Box<dyn LockedLimiters + 'a>, Moved>;

    /// Creates a preview from a limiter's current state.
    fn preview(&self, part: &Part<'_>, reading: Reading<'_>) -> Result<Box<dyn Preview>, Moved>;

    /// Puts a rule in force for the overflow limiter of a table with a rule for each limiter.
    fn amend(&self, rule: &Rule);

    /// The limiters in one of its parts, numbered from 0; `None` after the last part.
    fn fingerprints(&self, number: u32) -> Option<Vec<Fingerprint>>;

    /// Takes a limiter out; its place stays claimed.
    fn take_out(&self, fingerprint: Fingerprint) -> Option<Left>;

    /// Moves a limiter here from a table that this table succeeds, unless that was done.
    fn adopt(&self, fingerprint: Fingerprint);

    /// The bytes of all its limiters in a sharded table under `rule`, and their number.
    fn weigh(&self, rule: &Rule, at: Timestamp) -> (usize, usize);

    /// Returns whether all its limiters are idle.
    fn is_idle(&self, now: Timestamp) -> bool;

    /// Adds all limiters to a snapshot, a few under a lock at a time. Limiters that are created during the call may be
    /// missing; a limiter that is in it twice is newer the second time. No policy may be put in force during the call.
    fn save(&self, clock: &dyn Clock, records: &mut Records<'_, '_>) -> io::Result<()>;

    /// Takes over a limiter of a snapshot, the overflow limiter without a fingerprint.
    fn restore(&self, fingerprint: Option<Fingerprint>, left: Left, at: Timestamp) -> Restored;
}

/// The result of a limiter's restoration from a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restored {
    Kept,
    /// Nothing of it is used any more.
    Idle,
    /// The caps have no room for it.
    WithoutSpace,
}

/// The limiters of a step in one table, under its locks.
pub(crate) trait LockedLimiters {
    /// Prepares the limiters for a step at this time.
    fn begin(&mut self, _at: Timestamp) {}

    /// Runs a step on the limiter with this number among the parts: its own step, or before that [`Step::Peek`].
    fn run(&mut self, number: usize, step: Step, at: Timestamp) -> One;

    /// Stores the limiters as the step left them, drops idle limiters, and releases the locks.
    fn release(self: Box<Self>, at: Timestamp);
}

/// The table of a rule in force. If the rule is unlimited, it admits everything and counts nothing.
///
/// If the rule had a limit before, the limiters stay in the table of that time. Nothing is taken from them; reserved units
/// come back to them, and the table of the next limit succeeds theirs.
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
        if self.lifts(part) {
            self.unlimited(part, reading, false)
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
            self.unlimited(part, reading, true)
        } else {
            self.overflow().one(part, reading)
        }
    }

    /// Returns whether no limit holds for a limiter: the rule of the table has none, or the limiter's own rule.
    #[inline]
    fn lifts(&self, part: &Part<'_>) -> bool {
        self.is_unlimited || part.rule.is_some_and(Rule::is_unlimited)
    }

    /// Lets a step give back to a limiter that is kept, or to the overflow limiter.
    #[cold]
    #[inline(never)]
    fn unlimited(
        &self,
        part: &Part<'_>,
        reading: Reading<'_>,
        is_overflow: bool,
    ) -> Result<One, Moved> {
        self.check_unlimited(part)?;
        let part = part.without_limit();
        // The reply is not shown: an unlimited rule admits everything.
        if part.gives_back() && is_overflow {
            self.overflow().one(&part, reading)?;
        } else if part.gives_back() {
            self.table.one(&part, reading)?;
        }
        Ok(One::unlimited(reading.early()))
    }

    /// Checks that a step without a limit may ask.
    fn check_unlimited(&self, part: &Part<'_>) -> Result<(), Moved> {
        // No generation has the number `KEPT` or a higher one, so only a table that was superseded refuses.
        let generation = if self.is_unlimited { KEPT } else { part.generation };
        self.succession().check(generation).map(drop)
    }

    /// Returns the part of a limiter in a step over several.
    pub(super) fn part_of<'a>(&self, part: Part<'a>) -> Part<'a> {
        if self.lifts(&part) { part.without_limit() } else { part }
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
        if self.lifts(part) {
            self.check_unlimited(part).map(|()| Box::new(UnlimitedPreview) as _)
        } else {
            self.table.preview(part, reading)
        }
    }
}
