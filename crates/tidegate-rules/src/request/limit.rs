//! Limits that a request supplies for its descriptors.
//!
//! Rules with `limit_from_request` use them. `own_limit` of a policy makes and checks them.

use tidegate_core::{Rule, Spec};

use crate::inline_list::InlineList;

/// Values that a descriptor supplies, for the rules that let requests do so
/// ([`RuleSpec::limit_from_request`](crate::rules::RuleSpec)); all other rules ignore them.
///
/// [`RequestLimit::new`] makes it from one checked [`Rule`], which replaces the values of all these rules.
/// [`Policy::own_limit`](crate::rules::Policy::own_limit) makes it from a limit and a window: each rule keeps its other fields.
///
/// The values take effect when units are taken or given back under them, and units used before
/// stay used; a refused request, and a look, keep the limiter's present values. They take precedence over a plan
/// (`Setup::plans`). If several descriptors of a request match one limiter, the first with values
/// for it decides.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{
///     AlgorithmKind, Descriptor, Gate, RequestLimit, Policy, Request, Rule, RuleSpec, Spec,
/// };
///
/// let per_hour = |limit| Spec::new(AlgorithmKind::SlidingLog, limit, Duration::from_secs(3_600));
/// let rule = RuleSpec::new("per-user", per_hour(2)).key(["user"]).limit_from_request();
/// let gate = Gate::new(Policy::new(vec![rule])?);
///
/// let ten = RequestLimit::new(Rule::new(per_hour(10))?);
/// let entries = [("user", "ada")];
/// let asked = [Descriptor::new(&entries).limit(&ten)];
/// let answer = gate.check(&Request::new("default", &asked));
/// assert_eq!(answer.matched()[0].decision().remaining, 9);
///
/// // Used units stay used under the rule's own values.
/// let asked = [Descriptor::new(&entries)];
/// assert_eq!(gate.peek(&Request::new("default", &asked)).remaining(), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RequestLimit {
    /// The values for each rule that `by_rule` does not name.
    for_all: Option<Rule>,
    /// The values by the name of their rule; names are unique in a domain.
    by_rule: InlineList<(Box<str>, Rule)>,
}

impl RequestLimit {
    /// The same values for every rule that uses them, and for any algorithm.
    #[must_use]
    pub fn new(rule: Rule) -> Self {
        Self { for_all: Some(rule), by_rule: InlineList::new() }
    }

    /// All values, each once.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        let named = self.by_rule.iter().map(|(_, rule)| rule);
        named.chain(self.for_all.as_ref())
    }

    /// The parts that make two of them equal: the names of rules, and the fields of their values.
    fn named_specs(&self) -> impl Iterator<Item = (Option<&str>, &Spec)> {
        let named = self.by_rule.iter().map(|(name, rule)| (Some(&**name), rule.spec()));
        named.chain(self.for_all.iter().map(|rule| (None, rule.spec())))
    }
}

/// Values for the rules of these names, and none for others.
pub(crate) fn limit_of_rules(rules: impl Iterator<Item = (Box<str>, Rule)>) -> RequestLimit {
    RequestLimit { for_all: None, by_rule: rules.collect() }
}

/// The values for the rule of this name, if there are any.
#[inline]
pub(crate) fn values_for<'a>(limit: &'a RequestLimit, name: &str) -> Option<&'a Rule> {
    let named = limit.by_rule.iter().find(|(own, _)| **own == *name);
    named.map(|(_, rule)| rule).or(limit.for_all.as_ref())
}

impl PartialEq for RequestLimit {
    fn eq(&self, other: &Self) -> bool {
        self.named_specs().eq(other.named_specs())
    }
}

impl Eq for RequestLimit {}
