//! A checked rule.
//!
//! A rule is a `Spec` with its algorithm. Only the rule knows the type of the algorithm; others reach it by a
//! `Visitor`.

use alloc::sync::Arc;
use core::any::Any;

use crate::algorithm::Algorithm;
use crate::algorithms::AnyAlgorithm;
use crate::error::RuleErrors;
use crate::spec::{Limit, Spec};

/// A checked rule: its fields are valid together, and no product of its values overflows. A clone shares everything
/// with it.
///
/// ```
/// use std::time::Duration;
/// # use tidegate_core as tidegate;
/// use tidegate::{AlgorithmKind, Rule, Spec};
///
/// let rule = Rule::new(Spec::new(AlgorithmKind::TokenBucket, 100, Duration::from_secs(1)))?;
/// assert!(!rule.is_unlimited());
/// assert_eq!(Rule::new("100/s")?, rule);
///
/// let mut spec = Spec::new(AlgorithmKind::SlidingWindow, 100, Duration::from_secs(1));
/// spec.buckets = Some(7);
/// assert!(Rule::new(spec).is_err(), "7 buckets do not divide one second");
/// # Ok::<(), tidegate_core::RuleErrors>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Rule(Arc<CheckedValues>);

#[derive(Debug, PartialEq)]
struct CheckedValues {
    spec: Spec,
    algorithm: Option<AnyAlgorithm>,
}

impl Rule {
    /// Checks the fields of a rule, which is a spec or a text such as `"60/m"`.
    ///
    /// # Errors
    /// Returns every invalid field of the spec, each with the expected value, or the error of a text that is no rate.
    pub fn new(spec: impl TryInto<Spec, Error: Into<RuleErrors>>) -> Result<Self, RuleErrors> {
        Self::checked(spec.try_into().map_err(Into::into)?)
    }

    fn checked(spec: Spec) -> Result<Self, RuleErrors> {
        // First, because `build` relies on each number being in its range.
        RuleErrors::none(spec.mistakes())?;
        let algorithm = match (spec.limit, spec.window) {
            (Limit::Unlimited, _) => None,
            (Limit::Units(_), None) => Some(AnyAlgorithm::closed(&spec)?),
            (Limit::Units(limit), Some(window)) => {
                Some(AnyAlgorithm::build(&spec, limit, window.into())?)
            }
        };
        Ok(Self(Arc::new(CheckedValues { spec, algorithm })))
    }

    /// The spec it was built from.
    #[must_use]
    #[inline]
    pub fn spec(&self) -> &Spec {
        &self.0.spec
    }

    /// True if the rule admits everything and counts nothing.
    #[must_use]
    #[inline]
    pub fn is_unlimited(&self) -> bool {
        self.0.algorithm.is_none()
    }

    /// True if a new limiter has units in use: a token bucket with `initial`. Forgetting such a limiter would not
    /// reset it.
    #[must_use]
    pub fn begins_in_use(&self) -> bool {
        self.0.spec.initial.is_some() && self.0.algorithm.is_some()
    }

    /// The maximum number of units that any interval of length W can admit (for a queue: can see leave) if no request
    /// costs more than `largest_cost`; `None` when the rule is unlimited.
    #[must_use]
    pub fn bound(&self, largest_cost: u64) -> Option<u64> {
        self.visit(Bound { largest_cost })
    }

    /// The maximum number of units that may be in use after a settlement takes more: the limit, or the capacity, and
    /// `max_debt`. `None` for a rule without a limit.
    #[must_use]
    pub fn most_in_use(&self) -> Option<u64> {
        self.visit(MostInUse)
    }

    /// Returns whether units that were taken under `old` come back under this rule: only how much is allowed may differ.
    #[must_use]
    pub fn gives_back_as(&self, old: &Self) -> bool {
        self.visit(LikeOld { old }).unwrap_or(false)
    }

    /// Passes the rule's algorithm, with its type, to `visitor`; `None` if the rule is unlimited.
    #[doc(hidden)]
    pub fn visit<V: Visitor>(&self, visitor: V) -> Option<V::Out> {
        self.0.algorithm.as_ref().map(|algorithm| algorithm.visit(visitor))
    }
}

/// An operation on an algorithm whose type only the rule knows.
pub trait Visitor {
    /// The result.
    type Out;

    /// Runs the operation.
    fn visit<R: Algorithm>(self, algorithm: &R) -> Self::Out;
}

struct Bound {
    largest_cost: u64,
}

impl Visitor for Bound {
    type Out = u64;

    fn visit<R: Algorithm>(self, algorithm: &R) -> u64 {
        algorithm.bound(self.largest_cost)
    }
}

struct MostInUse;

impl Visitor for MostInUse {
    type Out = u64;

    fn visit<R: Algorithm>(self, algorithm: &R) -> u64 {
        algorithm.most_in_use()
    }
}

struct LikeOld<'a> {
    old: &'a Rule,
}

impl Visitor for LikeOld<'_> {
    type Out = bool;

    fn visit<R: Algorithm>(self, algorithm: &R) -> bool {
        // Each of the two types is known only in a visit of its own rule.
        self.old.visit(LikeNew { algorithm }).unwrap_or(false)
    }
}

struct LikeNew<'a, New> {
    algorithm: &'a New,
}

impl<New: Algorithm> Visitor for LikeNew<'_, New> {
    type Out = bool;

    fn visit<R: Algorithm>(self, old: &R) -> bool {
        let old: &dyn Any = old;
        old.downcast_ref().is_some_and(|old| self.algorithm.same_shape(old))
    }
}
