//! The reply of a store to a step.

use std::sync::Arc;

use tidegate_core::{Decision, Micros, Outcome, Rule, Timestamp, Verdict};

use super::Step;
use super::ask::Ask;
use crate::inline_list::InlineList;

/// The reply of one limiter by itself.
#[derive(Clone, Debug)]
pub(crate) struct One {
    pub(crate) verdict: Verdict,
    pub(crate) at: Timestamp,
    /// `None` for [`Step::Decide`], or if the rule is unlimited.
    pub(crate) decision: Option<Decision>,
    /// There was no room: the key shares a limiter with others, or was refused, or its limiter
    /// keeps coarser times.
    pub(crate) overflow: bool,
    /// Another limiter than the key's own replied.
    pub(crate) elsewhere: bool,
    /// The rule that decided, if the rule of a gate was changed.
    pub(crate) figures: Option<Arc<Rule>>,
}

impl One {
    /// The reply under a rule that admits everything.
    pub(crate) const fn unlimited(at: Timestamp) -> Self {
        let (verdict, decision) = (Verdict::Allow, None);
        Self { verdict, at, decision, overflow: false, elsewhere: false, figures: None }
    }

    /// The decision, or that of an unlimited limiter.
    #[inline]
    pub(crate) fn or_unlimited(&self) -> Decision {
        self.decision.unwrap_or(UNLIMITED)
    }
}

/// The reply of one limiter of a step.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    pub(crate) decision: Decision,
    pub(crate) overflow: bool,
    /// Another limiter than the key's own replied.
    pub(crate) elsewhere: bool,
    /// The rule that decided, if it was changed since it was loaded.
    pub(crate) figures: Option<Arc<Rule>>,
    /// The changed rule is unlimited, so this reply has no values.
    pub(crate) unlimited: bool,
}

impl Decided {
    /// The decision of a limiter under the values of its policy.
    pub(crate) const fn of(decision: Decision, overflow: bool, elsewhere: bool) -> Self {
        Self { decision, overflow, elsewhere, figures: None, unlimited: false }
    }

    /// The reply of a limiter whose changed rule is unlimited.
    pub(crate) fn unlimited() -> Self {
        Self { unlimited: true, ..Self::of(UNLIMITED, false, false) }
    }

    /// The reply of one limiter by itself; `None` for [`Step::Decide`].
    pub(crate) fn by(one: One, step: Step) -> Option<Self> {
        let One { overflow, elsewhere, figures, .. } = one;
        match one.decision {
            Some(decision) => Some(Self { figures, ..Self::of(decision, overflow, elsewhere) }),
            None => step.wants_values().then(|| Self { figures, ..Self::unlimited() }),
        }
    }
}

/// The result of a step: one decision for each limiter, in the order of the request (none for
/// [`Step::Decide`]).
#[derive(Debug)]
pub(crate) struct Done<D = Decided> {
    pub(crate) allowed: bool,
    pub(crate) at: Timestamp,
    /// Whether this is the remembered answer to an earlier request with the same id.
    pub(crate) repeated: bool,
    pub(crate) decisions: InlineList<D>,
}

impl<D> Done<D> {
    /// Returns the decision of one of the limiters of the step; `None` if it is not among them.
    pub(crate) fn of<K: PartialEq>(&self, met: &[Ask<K>], one: &Ask<K>) -> Option<&D> {
        self.decisions.get(met.iter().position(|met| met.is_of(one))?)
    }
}

/// The result of a step over one limiter.
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
