//! Figures that a request brings along for what it is about.

use std::sync::Arc;

use tidegate_core::{Rule, Spec};

use crate::inline_list::InlineList;

/// Figures that a descriptor brings along, for the rules that let requests do so
/// ([`RuleSpec::limit_from_request`](crate::RuleSpec)); all others do not look at it.
///
/// Made of one checked [`Rule`] for all of them ([`OwnLimit::new`]), or of a limit and a window, with which
/// each rule keeps its other words ([`Policy::own_limit`](crate::Policy::own_limit)).
///
/// The figures are in force from when something is taken or given back under them, and what was used before
/// stays used; a request that is refused, and a look, leave the limiter under those it had. They stand before
/// those of a plan ([`Gate::with_plans`](crate::Gate::with_plans)). Where several descriptors of a request
/// meet one limiter, the first that brings figures for it decides.
///
/// ```
/// use tidegate::{AlgorithmKind, Descriptor, Gate, Micros, OwnLimit, Policy, Request, Rule, RuleSpec, Spec};
///
/// let per_hour = |limit| Spec::new(AlgorithmKind::SlidingLog, limit, Micros::from_secs(3_600));
/// let rule = RuleSpec::new("per-user", per_hour(2)).key(["user"]).limit_from_request();
/// let gate = Gate::new(Policy::new(vec![rule])?);
///
/// let ten = OwnLimit::new(Rule::new(per_hour(10))?);
/// let entries = [("user", "ada")];
/// let asked = [Descriptor::new(&entries).limit(&ten)];
/// let answer = gate.check(&Request::new("default", &asked));
/// assert_eq!(answer.matched()[0].decision().remaining, 9);
///
/// // What was used stays used under the rule's own figures.
/// let asked = [Descriptor::new(&entries)];
/// assert_eq!(gate.available(&Request::new("default", &asked)), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct OwnLimit {
    for_all: Option<Arc<Rule>>,
    /// By the names of rules, which are unique in their domain.
    by_rule: InlineList<(Box<str>, Arc<Rule>)>,
}

impl OwnLimit {
    /// The same figures for every rule that looks at them, whatever its own algorithm.
    #[must_use]
    pub fn new(rule: Rule) -> Self {
        Self { for_all: Some(Arc::new(rule)), by_rule: InlineList::new() }
    }

    /// Figures for the rules of these names; none for others.
    pub(crate) fn of_rules(rules: impl Iterator<Item = (Box<str>, Rule)>) -> Self {
        let by_rule = rules.map(|(name, rule)| (name, Arc::new(rule))).collect();
        Self { for_all: None, by_rule }
    }

    /// The figures for the rule of this name, if these are for it.
    pub(crate) fn of_rule(&self, name: &str) -> Option<&Arc<Rule>> {
        let named = self.by_rule.iter().find(|(own, _)| **own == *name);
        named.map(|(_, figures)| figures).or(self.for_all.as_ref())
    }

    /// All figures, each once.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        let named = self.by_rule.iter().map(|(_, rule)| &**rule);
        named.chain(self.for_all.as_deref())
    }

    /// What makes two of them equal: whom figures are for, and the words they are made of.
    fn words(&self) -> impl Iterator<Item = (Option<&str>, &Spec)> {
        let named = self.by_rule.iter().map(|(name, rule)| (Some(&**name), rule.spec()));
        named.chain(self.for_all.iter().map(|rule| (None, rule.spec())))
    }
}

impl PartialEq for OwnLimit {
    fn eq(&self, other: &Self) -> bool {
        self.words().eq(other.words())
    }
}

impl Eq for OwnLimit {}
