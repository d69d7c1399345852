//! The treatment of a request that no rule matches.
//!
//! It decides about a request with a misspelt entry, which no rule matches.

use std::collections::BTreeMap;

/// The treatment of a request that no rule matches.
///
/// Rules in shadow mode, rules that are switched off, and rules without a limit match like any other. A request of
/// several descriptors is matched if one of them is.
///
/// A rule without `key` and `when` matches every request of its domain, so that next to it this setting refuses none. Such
/// a rule should require an entry: `when("user", "*")` matches requests with a user alone.
///
/// ```
/// use tidegate::{Gate, OnNoRule, Policy, RuleSpec};
///
/// let rule = RuleSpec::new("per-channel", "100/s").in_domain("pay").key(["channel"]);
/// let policy = Policy::new(vec![rule])?.with_on_no_rule_in("pay", OnNoRule::Refuse);
/// let gate = Gate::new(policy);
/// assert!(gate.check(("pay", &[("channel", "alipay")])).is_allowed());
///
/// let misspelt = gate.check(("pay", &[("chanel", "alipay")]));
/// assert!(!misspelt.is_allowed() && misspelt.is_no_rule());
/// assert!(gate.check(("elsewhere", &[("chanel", "alipay")])).is_allowed());
///
/// // A limit for all users together, which a request without a user does not match.
/// let everyone = RuleSpec::new("everyone", "1000/s").when("user", "*");
/// let gate = Gate::new(Policy::new(vec![everyone])?.with_on_no_rule(OnNoRule::Refuse));
/// assert!(gate.check(("default", &[("user", "ada")])).is_allowed());
/// assert!(gate.check(("default", &[("ip", "192.0.2.1")])).is_no_rule());
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnNoRule {
    /// The request is admitted.
    #[default]
    Admit,
    /// The request is refused.
    Refuse,
}

/// The treatment in each domain.
#[derive(Clone, Debug, Default)]
pub(super) struct OnNoRules {
    pub(super) elsewhere: OnNoRule,
    pub(super) by_domain: BTreeMap<String, OnNoRule>,
}

impl OnNoRules {
    pub(super) fn of(&self, domain: &str) -> OnNoRule {
        self.by_domain.get(domain).copied().unwrap_or(self.elsewhere)
    }

    /// Returns whether no request is refused.
    pub(super) fn admit_all(&self) -> bool {
        self.elsewhere == OnNoRule::Admit && self.by_domain.is_empty()
    }
}
