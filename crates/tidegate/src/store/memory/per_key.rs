//! The rules of a store whose limiters have a rule each, so that their tables are `ruled`.
//!
//! In a gate in memory these are rules whose values come with requests. In the memory of a node that shares a
//! store, all rules: each limiter there is this node's share.

use std::fmt;

use tidegate_core::{Algorithm, Micros, Rule, Timestamp, Visitor};

use crate::rules::{PolicyRule, RuleSpec};
use crate::step::Step;

/// The rules whose limiters have a rule each.
pub(crate) enum PerKey {
    /// Rules whose values come with requests.
    FromRequests,
    /// All rules: each limiter is a node's share of a limiter in a shared store.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "no store is shared"))]
    Shares {
        /// Makes the values of the overflow limiter from the values of its rule.
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

    pub(super) const fn is_shares(&self) -> bool {
        matches!(self, Self::Shares { .. })
    }

    /// The values of the overflow limiter of a rule.
    pub(super) fn usual(&self, rule: &PolicyRule) -> Rule {
        match self {
            Self::FromRequests => rule.variant(0).clone(),
            Self::Shares { overflow } => overflow(rule.variant(0)),
        }
    }

    /// The time for which a limiter without debt may still be in use outside this store.
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

/// The longest time until a full limiter is idle.
struct UntilIdle;

impl Visitor for UntilIdle {
    type Out = Micros;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Micros {
        // With all units taken at once, which are in use for the longest time.
        let all = Step::Ask.run(algorithm, &mut None, algorithm.limit(), Timestamp::EPOCH);
        all.decided.decision.reset_after.max(algorithm.window())
    }
}
