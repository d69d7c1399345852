//! The limits in calls of `CL.THROTTLE`: their limiters, and the last limit of each connection. Each call brings its own
//! limit, as in redis-cell, so no rule of the policy belongs to these limiters. `throttle.rs` decides by them.

use std::time::Duration;
use tidegate::{AlgorithmKind, KeyedLimiter, OnFull, Rule, RuleErrors, Spec};

use super::throttle_call::CallLimit;
use crate::limiters::Limiters;

/// The largest number of keys, the same as a rule's default.
const MAX_KEYS: usize = 1_000_000;

/// The limiters of CL.THROTTLE, in the same store as the others.
#[derive(Debug)]
pub(super) enum Throttle {
    Here(Box<KeyedLimiter>),
    InStore,
}

impl Throttle {
    /// The limiters next to these rules: in memory, or in the store if the rules are there.
    ///
    /// # Errors
    /// No error is known: the default plan, which is never used, is valid.
    pub(super) fn beside(limiters: &Limiters) -> Result<Self, RuleErrors> {
        if limiters.shared().is_some() {
            return Ok(Self::InStore);
        }
        let usual = Spec::new(AlgorithmKind::TokenBucket, 1, Duration::from_secs(1));
        // Keys beyond the cap are refused and share no limiter, because each call has a limit of its own, and one limiter
        // under changing limits would enforce none of them.
        let limiter = KeyedLimiter::new(usual)?.with_max_keys(MAX_KEYS, OnFull::Refuse);
        Ok(Self::Here(Box::new(limiter.with_plans(|_| None))))
    }
}

/// The last limit of a connection: most connections use only one.
#[derive(Debug, Default)]
pub(super) struct LastLimit(Option<(CallLimit, Rule)>);

impl LastLimit {
    /// The rule of this limit, built only if the limit differs from the previous limit.
    pub(super) fn rule(&mut self, limit: CallLimit) -> Result<&Rule, String> {
        if self.0.as_ref().is_none_or(|(last, _)| *last != limit) {
            self.0 = Some((limit, limit.rule()?));
        }
        // It was set above, so there always is a rule.
        self.0.as_ref().map(|(_, rule)| rule).ok_or_else(String::new)
    }
}
