//! What a table of limiters does, whatever its algorithm and however it keeps their states.

use std::fmt;

use tidegate_core::{Decision, Held, Outcome, Room, Timestamp, Verbs, Verdict};

use crate::clock::Reading;
use crate::key::Fingerprint;

/// What is to be done with the limiters a request meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Decide and take; no figures.
    Decide,
    /// Decide and take, with figures.
    Ask,
    /// Decide only, with figures.
    Peek,
    /// Give back, with figures.
    Refund,
}

impl Step {
    /// Whether a limiter that does not exist yet begins with this step.
    pub(super) const fn begins(self) -> bool {
        matches!(self, Self::Decide | Self::Ask)
    }

    /// Whether figures are asked for.
    pub(super) const fn wants_figures(self) -> bool {
        !matches!(self, Self::Decide)
    }

    /// Does it with one limiter that is held, at `now`; answers also whether its state may have changed.
    #[inline]
    pub(super) fn run<R: Room>(
        self,
        room: &R,
        slot: &mut Option<R::State>,
        cost: u64,
        now: Timestamp,
    ) -> (One, bool) {
        let mut held = Held::new(room, slot, cost);
        let (verdict, changed) = match self {
            Self::Decide | Self::Ask => {
                let verdict = held.ask(now);
                (verdict, verdict.is_allowed() && cost > 0)
            }
            Self::Peek => {
                held.advance(now);
                (held.decide(), false)
            }
            Self::Refund => {
                held.advance(now);
                held.give_back();
                (held.decide(), true)
            }
        };
        let decision = self.wants_figures().then(|| held.report());
        (One { verdict, at: now, decision, overloaded: false }, changed)
    }
}

/// One limiter's part in a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Its place in the request.
    pub(super) place: usize,
    pub(super) print: Fingerprint,
    pub(super) cost: u64,
    pub(super) enforced: bool,
}

/// What one limiter answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct One {
    pub(crate) verdict: Verdict,
    pub(crate) at: Timestamp,
    /// `None` where no figures were asked for.
    pub(crate) decision: Option<Decision>,
    /// The table was full: the key shares a limiter with others, or was refused.
    pub(crate) overloaded: bool,
}

/// The limiters of one variant of a rule.
pub(crate) trait Table: fmt::Debug + Send + Sync {
    /// Decides and takes, working out no figures: whether the cost was admitted.
    fn admits(&self, print: Fingerprint, cost: u64, reading: Reading<'_>) -> bool;

    /// One step with one limiter, from finding it to storing it.
    fn one(&self, print: Fingerprint, cost: u64, step: Step, reading: Reading<'_>) -> One;

    /// Holds several limiters, none named twice, until the answer is dropped or released.
    /// `now` is a time at or before that of the step.
    fn hold(&self, parts: &[Part], step: Step, now: Timestamp) -> Box<dyn Hold + '_>;

    /// Reads a little of the memory that a limiter lives in, so that it is on its way; what is read
    /// means nothing.
    fn touch(&self, print: Fingerprint) -> u64;

    /// Drops some limiters that are as good as new, looking at a few and waiting for none.
    fn tidy(&self, now: Timestamp);

    /// Limiters in existence.
    fn keys(&self) -> usize;
}

/// Limiters that nobody else can touch.
pub(crate) trait Hold {
    /// The limiters, each with its place in the request and whether the table was full for it.
    fn held(&mut self) -> Vec<Holding<'_>>;
    /// Stores what was done with them, but for limiters that are as good as new, and lets go.
    fn release(self: Box<Self>, at: Timestamp);
    /// Lets go, the limiters forgotten.
    fn forget(self: Box<Self>);
}

/// One limiter of a [`Hold`].
pub(crate) struct Holding<'a> {
    pub(super) place: usize,
    pub(super) overloaded: bool,
    pub(super) verbs: Box<dyn Verbs + 'a>,
}

/// What becomes of a key for which there is no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnFull {
    /// It shares one limiter of the rule with all others that came too late.
    #[default]
    Share,
    /// It is refused.
    Refuse,
}

/// The answer to a key for which there is no room and that may not share: come back a window later,
/// when every limiter that was not asked meanwhile is as good as new.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    enforced: bool,
    decision: Decision,
}

impl Refusal {
    pub(super) fn of<R: Room>(room: &R, cost: u64, enforced: bool) -> Self {
        let outcome = match cost {
            0 => Outcome::Allow { delay: Default::default() },
            _ => Outcome::Deny { retry_after: room.window() },
        };
        let decision =
            Decision { outcome, limit: room.limit(), remaining: 0, reset_after: room.window() };
        Self { enforced, decision }
    }
}

impl Verbs for Refusal {
    fn advance(&mut self, _now: Timestamp) {}

    fn decide(&mut self) -> Verdict {
        self.decision.verdict()
    }

    fn verdict(&self) -> Verdict {
        self.decision.verdict()
    }

    fn take(&mut self) {}

    fn give_back(&mut self) {}

    fn report(&self) -> Decision {
        self.decision
    }

    fn is_enforced(&self) -> bool {
        self.enforced
    }
}
