//! Which key a limiter is asked for, and under which rule.

use tidegate_core::Rule;

/// A key of a [`KeyedLimiter`](crate::KeyedLimiter): any bytes, alone or [`Under`] a rule that the call supplies.
pub trait Key<'r> {
    /// The bytes that tell it from other keys.
    fn bytes(&self) -> &[u8];

    /// The rule that the call supplies; `None` where the key's own holds.
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

/// A key under a rule that the call supplies, whatever its plan; for a limiter
/// [`with_limit_from_request`](crate::KeyedLimiter::with_limit_from_request) or
/// [`with_plans`](crate::KeyedLimiter::with_plans). Any other limiter ignores the rule, as a gate ignores the
/// limit of a request for which no rule asks.
///
/// The rule is in force from then on, but only if the call takes something or gives it back: one that is denied
/// changes nothing, and learns when it would be admitted if nobody else came. (But a bucket that begins with
/// fewer tokens than the call costs begins with the call, for else it would never fill.) A look (`peek`, or a
/// cost of 0) reports how things would stand under the rule, and leaves the one in force.
///
/// ```
/// use tidegate::{AlgorithmKind, KeyedLimiter, Micros, Rule, Spec, Under};
///
/// let limiter = KeyedLimiter::new(Spec::unlimited(AlgorithmKind::TokenBucket))?.with_limit_from_request();
/// let mut burst_of_three = Spec::new(AlgorithmKind::TokenBucket, 30, Micros::from_secs(60));
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
