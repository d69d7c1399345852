//! Decisions in place of a limiter's own, and marked decisions of the overflow limiter.

use tidegate_core::{
    Algorithm, Decision, Outcome, Settled, Settlement, Timestamp, Token, Verbs, Verdict,
};

use super::table::StoreVerbs;
use crate::step::One;

/// The verbs of a limiter whose decision was made before the step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Preset {
    pub(super) decision: Decision,
    enforced: bool,
    overflow: bool,
    pub(super) elsewhere: bool,
}

impl Preset {
    /// The refusal of a key that has no room and may not share. It may come back a window later, because every limiter
    /// that was not asked for a window is idle.
    pub(super) fn refusal<R: Algorithm>(algorithm: &R, cost: u64, enforced: bool) -> Self {
        let outcome = match cost {
            0 => Outcome::Allow { delay: Default::default() },
            _ => Outcome::Deny { retry_after: algorithm.window() },
        };
        let decision = Decision {
            outcome,
            limit: algorithm.limit(),
            remaining: 0,
            reset_after: algorithm.window(),
        };
        Self::instead(decision, enforced)
    }

    /// The decision for a key without room.
    pub(super) const fn instead(decision: Decision, enforced: bool) -> Self {
        Self { decision, enforced, overflow: true, elsewhere: true }
    }

    /// The decision of an unlimited rule.
    pub(super) const fn unlimited(enforced: bool) -> Self {
        Self { decision: Decision::UNLIMITED, enforced, overflow: false, elsewhere: false }
    }

    /// Returns the reply of a step over one limiter.
    pub(super) fn one(self, at: Timestamp) -> One {
        let Self { decision, overflow, elsewhere, .. } = self;
        One { overflow, elsewhere, ..One::of(decision.verdict(), decision, at) }
    }
}

impl Verbs for Preset {
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

    fn token(&self) -> Option<Token> {
        None
    }

    /// It took nothing.
    fn at(&self) -> Timestamp {
        Timestamp::EPOCH
    }

    fn is_enforced(&self) -> bool {
        self.enforced
    }
}

impl StoreVerbs for Preset {
    fn is_overflow(&self) -> bool {
        self.overflow
    }

    fn is_elsewhere(&self) -> bool {
        self.elsewhere
    }

    fn settle(&mut self, _now: Timestamp, _settlement: Settlement) -> Settled {
        Settled::Whole
    }

    fn open(&mut self) {}

    fn reset(&mut self, _now: Timestamp) {}

    fn renew(&mut self, _now: Timestamp, _token: Token) -> bool {
        self.decision.is_unlimited()
    }

    fn take_reported(&mut self, _now: Timestamp) -> Settled {
        Settled::Whole
    }
}

/// The verbs of a limiter whose reply is marked or replaced.
pub(super) struct Marked<'a> {
    pub(super) verbs: Box<dyn StoreVerbs + 'a>,
    pub(super) overflow: bool,
    /// True if it is the overflow limiter, which gives nothing back.
    pub(super) shared: bool,
    /// The decision that is reported in place of the limiter's own.
    pub(super) denied: Option<Decision>,
    /// Set if something is taken.
    pub(super) taken: Option<&'a mut bool>,
}

impl<'a> Marked<'a> {
    pub(super) const fn new(verbs: Box<dyn StoreVerbs + 'a>) -> Self {
        Self { verbs, overflow: false, shared: false, denied: None, taken: None }
    }
}

impl Verbs for Marked<'_> {
    fn advance(&mut self, now: Timestamp) {
        self.verbs.advance(now);
    }

    fn decide(&mut self) -> Verdict {
        self.verbs.decide()
    }

    fn verdict(&self) -> Verdict {
        self.verbs.verdict()
    }

    fn take(&mut self) {
        self.verbs.take();
        if let Some(taken) = &mut self.taken {
            **taken = true;
        }
    }

    fn give_back(&mut self) {
        if !self.shared {
            self.verbs.give_back();
        }
    }

    fn report(&self) -> Decision {
        self.denied.unwrap_or_else(|| self.verbs.report())
    }

    fn token(&self) -> Option<Token> {
        self.verbs.token()
    }

    fn at(&self) -> Timestamp {
        self.verbs.at()
    }

    fn is_enforced(&self) -> bool {
        self.verbs.is_enforced()
    }
}

impl StoreVerbs for Marked<'_> {
    fn is_overflow(&self) -> bool {
        self.overflow
    }

    fn is_elsewhere(&self) -> bool {
        self.shared
    }

    fn settle(&mut self, now: Timestamp, settlement: Settlement) -> Settled {
        if self.shared && settlement.actual <= settlement.reserved {
            return Settled::Whole;
        }
        self.verbs.settle(now, settlement)
    }

    fn open(&mut self) {
        self.verbs.open();
    }

    /// Other keys share the overflow limiter.
    fn reset(&mut self, now: Timestamp) {
        if !self.shared {
            self.verbs.reset(now);
        }
    }

    fn renew(&mut self, now: Timestamp, token: Token) -> bool {
        self.verbs.renew(now, token)
    }

    fn take_reported(&mut self, now: Timestamp) -> Settled {
        self.verbs.take_reported(now)
    }
}
