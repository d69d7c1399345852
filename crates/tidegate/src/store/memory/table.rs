//! The operations of a table of limiters, for every algorithm and every way to keep states.

use std::borrow::BorrowMut;
use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use tidegate_core::{Algorithm, Held, Rule, Settled, Settlement, Timestamp, Token, Verbs, Verdict};

use super::budget::Budget;
use super::leaving::Leaving;
use super::locked_words::LockedWords;
use super::preview::Preview;
use super::succession::{GenerationNumber, Moved, Succession};
use crate::clock::{Clock, Reading};
use crate::inline_list::StepList;
use crate::key::Fingerprint;
use crate::snapshot::Records;
use crate::step::{One, Step, without_values};

impl Step {
    /// Runs the step on one locked limiter, at `now`; [`Step::changes`] says whether it changed the state.
    #[inline]
    pub(crate) fn run<R: Algorithm>(
        self,
        algorithm: &R,
        slot: &mut Option<R::State>,
        cost: u64,
        now: Timestamp,
    ) -> One {
        self.run_held(Held::new(algorithm, slot, cost), cost, now)
    }

    /// Runs the step on a limiter without memory to grow.
    pub(super) fn run_in_place<R: Algorithm>(
        self,
        algorithm: &R,
        slot: &mut Option<R::State>,
        cost: u64,
        now: Timestamp,
    ) -> One {
        let one = self.run_held(Held::new(algorithm, slot, cost).in_place(), cost, now);
        One { overflow: true, ..one }
    }

    /// Returns whether the step puts another rule in force: true for steps that take or give back and for
    /// [`Step::AskReported`], never for [`Step::Peek`].
    pub(super) const fn changes_rule(self, cost: u64) -> bool {
        self.gives_back() || self.takes(cost) || matches!(self, Self::AskReported)
    }

    #[inline]
    fn run_held<R: Algorithm>(self, mut held: Held<'_, R>, cost: u64, now: Timestamp) -> One {
        let mut settled = Settled::Whole;
        let verdict = match self {
            Self::Decide | Self::Ask => held.ask(now),
            Self::Reserve => {
                let verdict = held.ask(now);
                held.open();
                verdict
            }
            Self::Peek | Self::AskReported => {
                held.advance(now);
                held.decide()
            }
            Self::Report => {
                settled = held.take_reported(now);
                held.advance(now);
                held.decide()
            }
            Self::Refund => {
                held.advance(now);
                held.give_back();
                held.decide()
            }
            Self::Settle { actual, token, since } => {
                settled = held.settle(now, Settlement { token, since, reserved: cost, actual });
                held.advance(now);
                held.decide()
            }
            Self::Reset { remembers } => {
                held.reset(now, remembers);
                Verdict::Allow
            }
            Self::Renew { token } => {
                let is_out = token.is_none_or(|token| held.renew(now, token));
                held.advance(now);
                if is_out { Verdict::Allow } else { Verdict::Deny }
            }
        };
        let decision = if self.wants_values() { held.report() } else { without_values(verdict) };
        let (token, since) = (held.token(), Some(held.at()));
        One { token, since, settled, ..One::of(verdict, decision, now) }
    }
}

/// One limiter's part in a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    /// Its index in the request.
    pub(super) place: usize,
    pub(super) fingerprint: Fingerprint,
    pub(super) cost: u64,
    pub(super) step: Step,
    pub(super) enforced: bool,
    /// The rule of the limiter, if the table has none of its own.
    pub(super) rule: Option<&'a Rule>,
    /// True if the request supplied the rule: then it comes in force only if units are taken or given back. A key's
    /// own rule comes in force with any step for which [`Step::changes_rule`] is true.
    pub(super) supplied: bool,
    /// The generation that the step asks in.
    pub(super) generation: GenerationNumber,
}

impl<'a> Part<'a> {
    /// Creates the part of a request's only limiter, under the rule of its table.
    pub(crate) const fn alone(fingerprint: Fingerprint, cost: u64, step: Step) -> Self {
        let (rule, supplied, generation) = (None, false, 0);
        Self { place: 0, fingerprint, cost, step, enforced: true, rule, supplied, generation }
    }

    /// Returns this part under a rule of its own; the request supplied the rule if `supplied`.
    pub(crate) const fn under(self, rule: &'a Rule, supplied: bool) -> Self {
        Self { rule: Some(rule), supplied, ..self }
    }

    /// Returns this part for a table with this succession.
    #[inline]
    pub(super) fn dated<T: ?Sized>(self, succession: &Succession<T>) -> Self {
        Self { step: succession.dated(self.step), ..self }
    }

    /// The step to run although the limiter may not decide: a step that cannot be refused for want of room, or the rest
    /// of it [without a limit](Step::without_limit).
    pub(super) fn unconditional_step(&self, is_unlimited: bool) -> Option<Step> {
        match is_unlimited {
            true => self.step.without_limit(self.cost),
            false => self.step.is_unconditional().then_some(self.step),
        }
    }
}

/// The limiters of one variant of a rule.
///
/// A caller that gets [`Moved`] has taken nothing, and asks again in the newest generation.
pub(crate) trait Table: Migrate + Save + fmt::Debug + Send + Sync {
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

    /// Runs one step on the overflow limiter, for a reservation that was taken there under any key.
    fn shared(&self, part: &Part<'_>, reading: Reading<'_>) -> Result<One, Moved>;

    /// Locks several limiters, each once, until the result is dropped or released.
    fn hold<'a>(
        &'a self,
        parts: &[Part<'a>],
        clock: &dyn Clock,
    ) -> Result<Box<dyn LockedLimiters + 'a>, Moved>;

    /// Locks one limiter for a step that replaces no more than the words of its packed state; `None`, and nothing is
    /// locked, if it has none. The step may not leave [a state that may not fit](Step::may_not_fit).
    fn lock_words(
        &self,
        _fingerprint: Fingerprint,
        _generation: GenerationNumber,
    ) -> Result<Option<LockedWords<'_>>, Moved> {
        Ok(None)
    }

    /// Runs a step on a limiter that [`Table::lock_words`] returned, and stores nothing yet; `None` if the step would
    /// replace more than its words.
    fn step_words(
        &self,
        _locked: &mut LockedWords<'_>,
        _cost: u64,
        _step: Step,
        _now: Timestamp,
    ) -> Option<One> {
        None
    }

    /// Prefetches a little of the memory of limiters; the result means nothing.
    fn touch(&self, _fingerprints: &[Fingerprint]) -> u64 {
        0
    }

    /// Drops some idle limiters, looking at a few and waiting for no lock.
    fn tidy(&self, now: Timestamp);

    /// Creates a preview from a limiter's current state.
    fn preview(&self, part: &Part<'_>, reading: Reading<'_>) -> Result<Box<dyn Preview>, Moved>;

    /// Puts a rule in force for the overflow limiter of a table with a rule for each limiter.
    fn amend(&self, _rule: &Rule) {}

    /// Bytes that must suffice for a single limiter, with any cap.
    fn bytes_of_one(&self) -> usize {
        0
    }

    /// The budget of its rule, which counts its limiters and the bytes of states of more than one word.
    fn budget(&self) -> &Budget;

    /// Bytes of packed states that its budget does not count.
    fn packed_bytes(&self) -> usize {
        0
    }

    /// The generations that may ask it, and the tables that it succeeds.
    fn succession(&self) -> &Succession<dyn Table>;

    /// Lets only steps of this generation and of later ones ask.
    fn serve_since(&self, generation: GenerationNumber) {
        self.succession().serve_since(generation);
    }

    /// The table whose limiters it keeps, if its rule has no limit and had one before.
    fn kept(&self) -> Option<&Arc<dyn Table>> {
        None
    }
}

/// The migration of limiters between a table and its successor.
pub(crate) trait Migrate {
    /// The limiters in one of its parts, numbered from 0; `None` after the last part.
    fn fingerprints(&self, part: usize) -> Option<Vec<Fingerprint>>;

    /// Takes a limiter out; its place stays claimed.
    fn take_out(&self, fingerprint: Fingerprint) -> Option<Box<dyn Leaving>>;

    /// Takes the overflow limiter out.
    fn take_overflow(&self) -> Option<Box<dyn Leaving>>;

    /// Moves a limiter here from a table that this table succeeds, unless that was done.
    fn adopt(&self, fingerprint: Fingerprint);

    /// Moves the overflow limiter here, unless that was done.
    fn adopt_overflow(&self);

    /// The bytes of all its limiters in a sharded table under `rule`, and their number.
    fn weigh(&self, rule: &Rule, at: Timestamp) -> (usize, usize);

    /// Returns whether all its limiters are idle.
    fn is_idle(&self, now: Timestamp) -> bool;
}

/// The limiters of a table in a snapshot.
pub(crate) trait Save {
    /// Adds all limiters to a snapshot, a few under a lock at a time. Limiters that are created during the call may be
    /// missing; a limiter that is in it twice is newer the second time. No policy may be put in force during the call.
    fn save(&self, clock: &dyn Clock, records: &mut Records<'_, '_>) -> io::Result<()>;

    /// Takes over a limiter of a snapshot, the overflow limiter without a fingerprint.
    fn restore(
        &self,
        fingerprint: Option<Fingerprint>,
        left: Box<dyn Leaving>,
        at: Timestamp,
    ) -> Restored;
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
    /// Adds the limiters, each with its index in the request, to a list.
    fn held<'h>(&'h mut self, held: &mut StepList<LockedLimiter<'h>>);
    /// Stores the limiters as the step left them, drops idle limiters, and releases the locks.
    fn release(self: Box<Self>, at: Timestamp);
}

/// One of the limiters under the locks of a table.
pub(crate) struct LockedLimiter<'a> {
    pub(super) place: usize,
    /// Units taken before do not come back.
    pub(super) began: Timestamp,
    pub(super) verbs: LockedVerbs<'a>,
}

/// The verbs of a locked limiter.
pub(super) enum LockedVerbs<'a> {
    /// They are kept with the lock.
    Kept(&'a mut (dyn StoreVerbs + 'a)),
    /// They were made for this step.
    Made(Box<dyn StoreVerbs + 'a>),
}

impl LockedLimiter<'_> {
    /// Settles units that were taken.
    pub(super) fn settle_by(&mut self, step: Step, reserved: u64, at: Timestamp) -> Settled {
        let Step::Settle { actual, token, since } = step.on_limiter_since(self.began) else {
            return Settled::Whole;
        };
        self.settle(at, Settlement { token, since, reserved, actual })
    }
}

impl<'a> Deref for LockedLimiter<'a> {
    type Target = dyn StoreVerbs + 'a;

    #[inline]
    fn deref(&self) -> &Self::Target {
        match &self.verbs {
            LockedVerbs::Kept(verbs) => *verbs,
            LockedVerbs::Made(verbs) => &**verbs,
        }
    }
}

impl DerefMut for LockedLimiter<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        match &mut self.verbs {
            LockedVerbs::Kept(verbs) => *verbs,
            LockedVerbs::Made(verbs) => &mut **verbs,
        }
    }
}

/// The verbs of an algorithm on a locked limiter, and the verbs that the store adds.
pub(crate) trait StoreVerbs: Verbs {
    /// Returns whether the limiter decided without room for its state.
    fn is_overflow(&self) -> bool;

    /// Returns whether the overflow limiter decided instead of the key's own.
    fn is_elsewhere(&self) -> bool;

    /// Settles: gives back the units that `reserved` exceeds `actual` by, or takes the units that it falls short of it.
    /// Units taken at `since` come back as far as they still count.
    fn settle(&mut self, now: Timestamp, settlement: Settlement) -> Settled;

    /// Notes that the cost that was taken is reserved.
    fn open(&mut self);

    /// Resets the limiter, and remembers that.
    fn reset(&mut self, now: Timestamp);

    /// Renews the permit with this token; returns whether it is still out.
    fn renew(&mut self, now: Timestamp, token: Token) -> bool;

    /// Takes its cost as usage that is reported: see [`Held::take_reported`].
    fn take_reported(&mut self, now: Timestamp) -> Settled;
}

impl<R: Algorithm, S: BorrowMut<Option<R::State>>> StoreVerbs for Held<'_, R, S> {
    fn is_overflow(&self) -> bool {
        false
    }

    fn is_elsewhere(&self) -> bool {
        false
    }

    fn settle(&mut self, now: Timestamp, settlement: Settlement) -> Settled {
        Held::settle(self, now, settlement)
    }

    fn open(&mut self) {
        Held::open(self);
    }

    fn reset(&mut self, now: Timestamp) {
        Held::reset(self, now, true);
    }

    fn renew(&mut self, now: Timestamp, token: Token) -> bool {
        Held::renew(self, now, token)
    }

    fn take_reported(&mut self, now: Timestamp) -> Settled {
        Held::take_reported(self, now)
    }
}
