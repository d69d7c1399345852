//! Which rules of a store have limiters each with a rule of its own, and what follows from that.

use std::fmt;

use tidegate_core::{Algorithm, Micros, Rule, Timestamp, Visitor};

use crate::rules::{PolicyRule, RuleSpec};
use crate::step::Step;

/// The rules whose limiters have each a rule of its own.
pub(crate) enum PerKey {
    /// Those whose limits come with requests.
    FromRequests,
    /// All: whatever is kept here is a node's share of limiters that live in a shared store.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "no store is shared"))]
    Shares {
        /// Makes the values of the limiter that keys without room share of those of their rule.
        overflow: Box<dyn Fn(&Rule) -> Rule + Send + Sync>,
    },
}

impl PerKey {
    pub(super) const fn has(&self, rule: &RuleSpec) -> bool {
        match self {
            Self::FromRequests => rule.limit_from_request,
            Self::Shares { .. } => true,
        }
    }

    /// The values of the limiter that keys of a rule without room share.
    pub(super) fn usual(&self, rule: &PolicyRule) -> Rule {
        match self {
            Self::FromRequests => rule.variant(0).clone(),
            Self::Shares { overflow } => overflow(rule.variant(0)),
        }
    }

    /// For how long a limiter of a rule that owes nothing may still be in use where this store does not see it.
    pub(super) fn unseen_for(&self, rule: &PolicyRule) -> Micros {
        match self {
            Self::FromRequests => Micros::ZERO,
            Self::Shares { .. } => {
                let variants = (0..rule.variants()).map(|number| rule.variant(number));
                variants.filter_map(|rule| rule.visit(UntilIdle)).max().unwrap_or_default()
            }
        }
    }
}

impl fmt::Debug for PerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FromRequests => "FromRequests",
            Self::Shares { .. } => "Shares",
        })
    }
}

/// How long it takes at most until a limiter is idle of which all was taken.
struct UntilIdle;

impl Visitor for UntilIdle {
    type Out = Micros;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Micros {
        let all = Step::Ask.run(algorithm, &mut None, algorithm.limit(), Timestamp::EPOCH);
        all.or_unlimited().reset_after.max(algorithm.window())
    }
}
