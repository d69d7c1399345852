//! Limiters that a settlement did not find any more.

use tidegate_core::Settled;

use super::Answer;
use crate::step::DescriptorSet;

/// A limiter that took units of a request and that a settlement did not find, because its rule is gone, is off, or has no
/// limit for the key any more: nothing came back to it, and nothing more was taken from it.
///
/// ```
/// use tidegate::{Gate, Policy, RuleSpec, Taken};
///
/// let gate = Gate::new(Policy::new(vec![RuleSpec::new("all", "100/h")])?);
/// let request = ("default", &[("user", "ada")]);
/// let taken = Taken::from(&gate.check(request));
/// gate.replace(Policy::new(vec![RuleSpec::new("other", "100/h")])?)?;
/// let settled = gate.settle(request, &taken, &[0]);
/// let late: Vec<_> = settled.unreached().iter().map(|one| one.settled().late_units()).collect();
/// assert_eq!(late, [1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Unreached {
    pub(crate) by: DescriptorSet,
    pub(crate) settled: Settled,
}

impl Unreached {
    /// The units that had to come back, or the units of the actual cost that were not taken.
    #[must_use]
    pub const fn settled(&self) -> Settled {
        self.settled
    }

    /// Returns whether the descriptor with this number has this limiter: see
    /// [`Matched::is_matched_by`](crate::Matched::is_matched_by).
    #[must_use]
    pub const fn is_matched_by(&self, descriptor: usize) -> bool {
        self.by.has(descriptor)
    }
}

impl Answer<'_> {
    /// The limiters that a settlement did not find, of rules that could refuse the request; empty for all other answers.
    #[must_use]
    pub fn unreached(&self) -> &[Unreached] {
        self.unreached.as_deref().unwrap_or_default()
    }
}
