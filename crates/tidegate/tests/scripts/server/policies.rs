//! The rules of the models' policies.

use testkit::model::Policy;
use tidegate::{Rule, RuleErrors};

use super::words::spec_of;

/// The rule of a sound policy.
pub fn rule_of(policy: &Policy) -> Rule {
    checked(policy).expect("a sound policy")
}

/// The rule of a policy, or what is wrong with it.
pub fn checked(policy: &Policy) -> Result<Rule, RuleErrors> {
    Rule::new(spec_of(policy))
}
