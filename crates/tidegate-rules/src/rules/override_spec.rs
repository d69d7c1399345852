//! Other values of a rule for some keys, as they are written.

use std::time::Duration;

use tidegate_core::{Limit, Spec};

/// Other values for the keys that have these entries.
///
/// ```
/// use tidegate::{Gate, OverrideSpec, Policy, RuleSpec};
///
/// let mut tests = OverrideSpec::new("user", "probe");
/// tests.limit = Some(tidegate::Limit::Unlimited);
/// let rule = RuleSpec::new("per-user", "1/h").key(["user"]).with_override(tests);
/// let gate = Gate::new(Policy::new(vec![rule])?);
/// for _ in 0..3 {
///     assert!(gate.check(("default", &[("user", "probe")])).is_allowed());
/// }
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverrideSpec {
    /// Entries, all of them in the rule's key, whose values must be equal.
    pub entries: Vec<(String, String)>,
    /// Another limit.
    pub limit: Option<Limit>,
    /// Another window.
    pub window: Option<Duration>,
    /// Another capacity.
    pub capacity: Option<u64>,
}

impl OverrideSpec {
    /// Creates an override for keys whose entry `name` is `value`.
    #[must_use]
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { entries: vec![(name.into(), value.into())], ..Self::default() }
    }

    /// Returns `base` with the fields that this override changes.
    pub(crate) fn applied_to(&self, base: &Spec) -> Spec {
        let mut spec = *base;
        spec.limit = self.limit.unwrap_or(base.limit);
        spec.window = self.window.or(base.window);
        spec.capacity = self.capacity.or(base.capacity);
        spec
    }
}
