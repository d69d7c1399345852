//! The key argument of a verb: a key alone, or with a rule that the call supplies.
//!
//! It lets one verb of `KeyedLimiter` take both, in place of a second set of verbs.

use tidegate_core::Rule;

use crate::key::Key;

/// The key argument of a verb of [`KeyedLimiter`](crate::KeyedLimiter): a [`Key`], alone or
/// [`Under`] a rule that the call supplies. Every key is one; there is nothing to implement.
pub trait ByKey<'r> {
    /// The key alone.
    fn key(&self) -> &impl Key;

    /// The rule that the call supplies; `None` if the key's own rule decides.
    fn rule(&self) -> Option<&'r Rule>;
}

impl<'r, K: Key> ByKey<'r> for K {
    #[inline]
    fn key(&self) -> &impl Key {
        self
    }

    #[inline]
    fn rule(&self) -> Option<&'r Rule> {
        None
    }
}

/// A key with a rule that the call supplies, in place of the key's plan; for a limiter
/// [`with_plans`](crate::KeyedLimiter::with_plans). Any other limiter ignores the rule.
///
/// The rule stays in force, but only if the call takes units or gives them back. A denied call
/// changes nothing, and its `retry_after` is computed under the supplied rule. (A bucket that
/// starts with fewer tokens than the call costs is created by the call nevertheless, because it would never fill
/// otherwise.) A call that takes nothing (`peek`, or a cost of 0) reports the values under the supplied rule and keeps
/// the rule in force.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{AlgorithmKind, KeyedLimiter, Rule, Spec, Under};
///
/// let limiter = KeyedLimiter::new(Spec::unlimited(AlgorithmKind::TokenBucket))?.with_plans(|_| None);
/// let mut burst_of_three = Spec::new(AlgorithmKind::TokenBucket, 30, Duration::from_secs(60));
/// burst_of_three.capacity = Some(3);
/// let rule = Rule::new(burst_of_three)?;
/// let verdicts = [(); 4].map(|()| limiter.admits(Under(&rule, "ada"), 1));
/// assert_eq!(verdicts, [true, true, true, false]);
/// # Ok::<(), tidegate::RuleErrors>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Under<'r, K>(pub &'r Rule, pub K);

impl<'r, K: Key> ByKey<'r> for Under<'r, K> {
    fn key(&self) -> &impl Key {
        &self.1
    }

    fn rule(&self) -> Option<&'r Rule> {
        Some(self.0)
    }
}
