//! The key of a limiter, alone or with a rule that the call supplies.

use tidegate_core::Rule;

/// A key of a [`KeyedLimiter`](crate::KeyedLimiter): any bytes, alone or [`Under`] a rule that the
/// call supplies.
pub trait Key<'r> {
    /// The bytes that identify the key.
    fn bytes(&self) -> &[u8];

    /// The rule that the call supplies; `None` if the key's own rule decides.
    fn rule(&self) -> Option<&'r Rule> {
        None
    }
}

impl<K: AsRef<[u8]>> Key<'_> for K {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.as_ref()
    }
}

/// A key with a rule that the call supplies, whatever the key's plan; for a limiter
/// [`with_limit_from_request`](crate::KeyedLimiter::with_limit_from_request) or
/// [`with_plans`](crate::KeyedLimiter::with_plans). Any other limiter ignores the rule.
///
/// The rule stays in force, but only if the call takes units or gives them back. A denied call
/// changes nothing, and its `retry_after` is computed under the supplied rule. (A bucket that
/// starts with fewer tokens than the call costs is created by the call all the same, because it
/// would never fill otherwise.) A call that takes nothing (`peek`, or a cost of 0) reports the
/// values under the supplied rule and keeps the rule in force.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{AlgorithmKind, KeyedLimiter, Rule, Spec, Under};
///
/// let limiter = KeyedLimiter::new(Spec::unlimited(AlgorithmKind::TokenBucket))?.with_limit_from_request();
/// let mut burst_of_three = Spec::new(AlgorithmKind::TokenBucket, 30, Duration::from_secs(60));
/// burst_of_three.capacity = Some(3);
/// let rule = Rule::new(burst_of_three)?;
/// let verdicts = [(); 4].map(|()| limiter.admits(Under(&rule, "ada"), 1));
/// assert_eq!(verdicts, [true, true, true, false]);
/// # Ok::<(), tidegate::RuleErrors>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Under<'r, K>(pub &'r Rule, pub K);

impl<'r, K: AsRef<[u8]>> Key<'r> for Under<'r, K> {
    fn bytes(&self) -> &[u8] {
        self.1.as_ref()
    }

    fn rule(&self) -> Option<&'r Rule> {
        Some(self.0)
    }
}
