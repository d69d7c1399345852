//! The limits that calls of `CL.THROTTLE` bring: where their limiters are, and the one that a connection
//! asked by last.

use tidegate::{AlgorithmKind, KeyedLimiter, Micros, OnFull, Rule, RuleErrors, Spec};

use super::call::Figures;
use crate::limiters::Limiters;

/// Keys that may be there at once: as many as a rule has by default.
const MAX_KEYS: usize = 1_000_000;

/// Where the limiters of CL.THROTTLE live: beside the others.
#[derive(Debug)]
pub(super) enum Throttle {
    Here(Box<KeyedLimiter>),
    InStore,
}

impl Throttle {
    /// # Errors
    /// None: the plan of keys that bring none, which are never asked, is sound.
    pub(super) fn beside(limiters: &Limiters) -> Result<Self, RuleErrors> {
        match limiters.shared() {
            None => {
                let usual = Spec::new(AlgorithmKind::TokenBucket, 1, Micros::from_secs(1));
                // Refused and not shared: each call has figures of its own, and one limiter under others
                // would hold nobody to them.
                let limiter = KeyedLimiter::new(usual)?.with_max_keys(MAX_KEYS, OnFull::Refuse);
                let limiter = limiter.with_limit_from_request();
                Ok(Self::Here(Box::new(limiter)))
            }
            Some(_) => Ok(Self::InStore),
        }
    }
}

/// The limit that a connection asked by last: most ask by one.
#[derive(Debug, Default)]
pub(super) struct Plans(Option<(Figures, Rule)>);

impl Plans {
    /// The rule of these figures; it is made only where they are not the last ones.
    pub(super) fn rule(&mut self, figures: Figures) -> Result<&Rule, String> {
        if self.0.as_ref().is_none_or(|(last, _)| *last != figures) {
            self.0 = Some((figures, figures.rule()?));
        }
        self.0.as_ref().map(|(_, rule)| rule).ok_or_else(String::new)
    }
}
