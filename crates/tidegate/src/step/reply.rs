//! The reply of a store to a step.

use std::sync::Arc;

use tidegate_core::{Decision, Rule, Settled, Timestamp, Token, Verdict};

use super::ask::Ask;
use super::op::{One, Step, without_values};
use crate::inline_list::InlineList;

/// The reply of one limiter of a step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decided {
    pub(crate) decision: Decision,
    pub(crate) overflow: bool,
    /// Another limiter than the key's own replied.
    pub(crate) elsewhere: bool,
    /// The rule that decided, if it was changed since it was loaded.
    pub(crate) values: Option<Arc<Rule>>,
    /// The token of the permit that was taken.
    pub(crate) token: Option<Token>,
    /// The instant that counted when units were taken, if it is known.
    pub(crate) since: Option<Timestamp>,
    /// The result of a settlement.
    pub(crate) settled: Settled,
}

impl Decided {
    /// The decision of a limiter under the values of its policy.
    pub(crate) const fn of(decision: Decision, overflow: bool, elsewhere: bool) -> Self {
        Self {
            decision,
            overflow,
            elsewhere,
            values: None,
            token: None,
            since: None,
            settled: Settled::Whole,
        }
    }

    /// The reply of one limiter by itself; `None` for [`Step::Decide`].
    pub(crate) fn by(one: One, step: Step) -> Option<Self> {
        step.wants_values().then(|| Self::from(one))
    }
}

/// The reply of one limiter by itself, as part of a step over several.
impl From<One> for Decided {
    #[inline]
    fn from(one: One) -> Self {
        let One { decision, overflow, elsewhere, values, token, since, settled, .. } = one;
        Self { decision, overflow, elsewhere, values, token, since, settled }
    }
}

/// The reservation of the first of the requests that have one remembered answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstReservation {
    /// The name that the first request [reserved as](crate::Request::reserving_as).
    pub name: [u8; 16],
    /// The rest of its life, by the clock of the store; zero if it has ended.
    pub left: std::time::Duration,
}

/// The result of a step: one decision for each limiter, in the order of the request (none for
/// [`Step::Decide`]).
#[derive(Debug)]
pub(crate) struct Done<D = Decided> {
    pub(crate) allowed: bool,
    pub(crate) at: Timestamp,
    /// True if this is the remembered answer to an earlier request with the same id.
    pub(crate) repeated: bool,
    pub(crate) decisions: InlineList<D>,
}

impl<D> Done<D> {
    /// Returns the decision of one of the limiters of the step; `None` if it is not among them.
    pub(crate) fn of<K: PartialEq>(&self, asks: &[Ask<K>], one: &Ask<K>) -> Option<&D> {
        self.decisions.get(asks.iter().position(|ask| ask.is_of(one))?)
    }
}

impl Done {
    /// Returns the decisions of `others`, which the step over `asks` decided about. A limiter that is not among `asks`
    /// refuses nothing.
    pub(crate) fn of_each<K: PartialEq>(
        &self,
        asks: &[Ask<K>],
        others: &[Ask<K>],
    ) -> InlineList<Decided> {
        others
            .iter()
            .map(|one| match self.of(asks, one) {
                Some(decided) => decided.clone(),
                None => Decided::of(Decision::UNLIMITED, false, false),
            })
            .collect()
    }
}

/// The result of a step over one limiter.
impl From<Done> for One {
    fn from(done: Done) -> Self {
        let verdict = if done.allowed { Verdict::Allow } else { Verdict::Deny };
        match done.decisions.into_iter().next() {
            None => Self::of(verdict, without_values(verdict), done.at),
            Some(decided) => {
                let Decided { decision, overflow, elsewhere, values, token, since, settled } =
                    decided;
                // Only the decision says if the cost can never fit.
                let verdict = if done.allowed { verdict } else { decision.verdict() };
                let at = done.at;
                Self { verdict, at, decision, overflow, elsewhere, values, token, since, settled }
            }
        }
    }
}

/// The origin of the decisions of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "only a shared store can be away"))]
pub(crate) enum Standing {
    /// The limiters decided.
    Exact,
    /// The rules decided, without the store.
    Degraded(Lack),
    /// The rules decided, and only the missing store can refuse the request.
    Unavailable(Lack),
}

/// Why the store did not decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "only a shared store can be away"))]
pub(crate) enum Lack {
    /// The store does not answer.
    Unavailable,
    /// The store answers, but cannot decide this request in time.
    Overloaded,
}

#[cfg(feature = "redis")]
impl Standing {
    /// Why the store did not decide, if it did not.
    pub(crate) const fn lack(self) -> Option<Lack> {
        match self {
            Self::Exact => None,
            Self::Degraded(lack) | Self::Unavailable(lack) => Some(lack),
        }
    }
}
