//! What a store answers.

use std::sync::Arc;

use tidegate_core::{Decision, Micros, Outcome, Rule, Timestamp, Verdict};

use crate::inline_list::InlineList;

/// What one limiter answered.
#[derive(Clone, Debug)]
pub(crate) struct One {
    pub(crate) verdict: Verdict,
    pub(crate) at: Timestamp,
    /// `None` where no figures were asked for, or the rule is unlimited.
    pub(crate) decision: Option<Decision>,
    /// There was no room: the key shares a limiter with others, or was refused, or its limiter goes on
    /// with coarser times.
    pub(crate) overflow: bool,
    /// It was not the key's own limiter that answered.
    pub(crate) elsewhere: bool,
}

impl One {
    /// The answer of a rule that admits everything.
    pub(crate) const fn unlimited(at: Timestamp) -> Self {
        let (verdict, decision) = (Verdict::Allow, None);
        Self { verdict, at, decision, overflow: false, elsewhere: false }
    }
}

/// What one limiter of a step answered.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    pub(crate) decision: Decision,
    pub(crate) overflow: bool,
    /// It was not the key's own limiter that answered.
    pub(crate) elsewhere: bool,
    /// The figures that decided, where they are not those of the policy.
    pub(crate) figures: Option<Arc<Rule>>,
    /// The rule was changed to be unlimited: it has nothing to tell.
    pub(crate) unlimited: bool,
}

impl Decided {
    /// What a limiter with the figures of its policy decided.
    pub(crate) const fn of(decision: Decision, overflow: bool, elsewhere: bool) -> Self {
        Self { decision, overflow, elsewhere, figures: None, unlimited: false }
    }

    /// What a rule has to tell that was changed to be unlimited.
    pub(crate) const fn unlimited() -> Self {
        let figures = None;
        Self { decision: UNLIMITED, overflow: false, elsewhere: false, figures, unlimited: true }
    }

    /// What one limiter by itself answered; `None` where no figures were asked for.
    pub(crate) fn by(one: One) -> Option<Self> {
        one.decision.map(|decision| Self::of(decision, one.overflow, one.elsewhere))
    }
}

/// What came of a step: one decision for each limiter, in the order they were met (none for
/// [`Step::Decide`]).
#[derive(Debug)]
pub(crate) struct Done<D = Decided> {
    pub(crate) allowed: bool,
    pub(crate) at: Timestamp,
    /// Whether it is what the same request was answered before, under its id.
    pub(crate) repeated: bool,
    pub(crate) decisions: InlineList<D>,
}

/// What one limiter answered.
pub(crate) fn decision_of(done: &Done) -> Decision {
    done.decisions.first().map_or(UNLIMITED, |decided| decided.decision)
}

/// What an unlimited limiter answers.
pub(crate) fn unlimited_at(at: Timestamp) -> One {
    One { decision: Some(UNLIMITED), ..One::unlimited(at) }
}

pub(crate) const UNLIMITED: Decision = Decision {
    outcome: Outcome::Allow { delay: Micros::ZERO },
    limit: u64::MAX,
    remaining: u64::MAX,
    reset_after: Micros::ZERO,
};
