//! Plans by user, which a test changes while gates look them up.
#![allow(unreachable_pub, dead_code, reason = "each test uses its part")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tidegate::{Descriptor, Policy, Request, Rule, RuleSpec, Setup, Spec};

/// The plans of all users; a user without a plan has the values of the rule.
#[derive(Clone, Default)]
pub struct Plans(Arc<Mutex<HashMap<String, Rule>>>);

impl Plans {
    /// The rule that has these plans.
    pub const RULE: &str = "planned";

    pub fn set(&self, user: &str, plan: impl Into<Option<Spec>>) {
        let plan = plan.into().map(|spec| Rule::new(spec).unwrap());
        let mut plans = self.0.lock().unwrap();
        match plan {
            Some(plan) => plans.insert(user.to_owned(), plan),
            None => plans.remove(user),
        };
    }

    /// A gate's setup with these plans.
    pub fn setup<C>(&self, rules: Vec<RuleSpec>) -> Setup<C> {
        let plans = self.clone();
        let looked_up = move |descriptor: &Descriptor<'_>| {
            plans.0.lock().unwrap().get(descriptor.value("user")?).cloned()
        };
        let setup = Setup::new(Policy::new(rules).unwrap());
        setup.plans(Request::DEFAULT_DOMAIN, Self::RULE, looked_up).unwrap()
    }
}
