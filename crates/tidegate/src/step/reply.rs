//! What a store answers.

use std::sync::Arc;

use tidegate_core::{Decision, Micros, Outcome, Rule, Timestamp, Verdict};

use super::Step;
use super::ask::Met;
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
    /// The figures that decided, where the rule of a gate was changed.
    pub(crate) figures: Option<Arc<Rule>>,
}

impl One {
    /// The answer of a rule that admits everything.
    pub(crate) const fn unlimited(at: Timestamp) -> Self {
        let (verdict, decision) = (Verdict::Allow, None);
        Self { verdict, at, decision, overflow: false, elsewhere: false, figures: None }
    }

    /// The decision; of an unlimited limiter the one that admits everything.
    #[inline]
    pub(crate) fn or_unlimited(&self) -> Decision {
        self.decision.unwrap_or(UNLIMITED)
    }
}

/// What one limiter of a step answered.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    pub(crate) decision: Decision,
    pub(crate) overflow: bool,
    /// It was not the key's own limiter that answered.
    pub(crate) elsewhere: bool,
    /// The figures that decided, where the rule was changed: else those it was loaded with.
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
    pub(crate) fn unlimited() -> Self {
        Self { unlimited: true, ..Self::of(UNLIMITED, false, false) }
    }

    /// What one limiter by itself answered; `None` where no figures were asked for.
    pub(crate) fn by(one: One, step: Step) -> Option<Self> {
        let One { overflow, elsewhere, figures, .. } = one;
        match one.decision {
            Some(decision) => Some(Self { figures, ..Self::of(decision, overflow, elsewhere) }),
            None => step.wants_figures().then(|| Self { figures, ..Self::unlimited() }),
        }
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

impl<D> Done<D> {
    /// What it says of a limiter, of those that were met in it; `None` where that is not among them.
    pub(crate) fn of<K: PartialEq>(&self, met: &[Met<K>], one: &Met<K>) -> Option<&D> {
        self.decisions.get(met.iter().position(|met| met.is_of(one))?)
    }
}

/// What came of a step over one limiter.
impl From<Done> for One {
    fn from(done: Done) -> Self {
        let decided = done.decisions.into_iter().find(|decided| !decided.unlimited);
        let decision = decided.as_ref().map(|decided| decided.decision);
        let verdict = match (done.allowed, decision) {
            (true, _) => Verdict::Allow,
            (false, decision) => decision.map_or(Verdict::Deny, |decision| decision.verdict()),
        };
        let (overflow, elsewhere) =
            decided.as_ref().map_or((false, false), |one| (one.overflow, one.elsewhere));
        let figures = decided.and_then(|decided| decided.figures);
        Self { verdict, at: done.at, decision, overflow, elsewhere, figures }
    }
}

pub(crate) const UNLIMITED: Decision = Decision {
    outcome: Outcome::Allow { delay: Micros::ZERO },
    limit: u64::MAX,
    remaining: u64::MAX,
    reset_after: Micros::ZERO,
};
