//! Replay: the decisions that a policy would have made over a trace, by the engine that makes them
//! live.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate::{Answer, Descriptor, Gate, Policy, PolicyRule, Request, RuleSpec, Timestamp};

use crate::trace::{Event, Options};

/// Options of reading a trace for this policy: only the entries that its rules look at are kept.
#[must_use]
pub fn options<'a>(policy: &Policy) -> Options<'a> {
    let specs = || policy.rules().iter().map(PolicyRule::spec);
    if specs().any(|spec| spec.exact) {
        return Options::new(); // such a rule looks for entries that it does not name
    }
    let of_spec = |spec: &RuleSpec| {
        let when = spec.when.iter().chain(spec.overrides.iter().flat_map(|other| &other.entries));
        when.map(|(name, _)| name).chain(&spec.key).cloned().collect::<Vec<_>>()
    };
    Options::new().only_entries(specs().flat_map(of_spec).collect::<BTreeSet<_>>())
}

/// A policy, and limiters that start fresh and use the time of the trace.
#[derive(Debug)]
pub struct Replay {
    gate: Gate<Timestamp>,
}

impl Replay {
    /// Creates a replay without any limiter yet.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self { gate: Gate::with_clock(policy, Timestamp::EPOCH) }
    }

    /// The policy that decides.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        self.gate.policy()
    }

    /// Decides one request at its recorded time.
    pub fn decide(&self, event: &Event<'_>) -> Answer<'_> {
        let descriptors = [Descriptor::new(&event.descriptor).cost(event.cost)];
        let request = event.under_id(Request::new(event.domain, &descriptors));
        self.gate.check_at(&request, Timestamp::from_micros(event.at_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tidegate::{AlgorithmKind, OverrideSpec, Spec};

    use crate::trace::{self, Source};

    const LINE: &str = r#"{"at_us": 1, "descriptor": {"a": "1", "b": "2", "c": "3", "d": "4"}}"#;

    fn kept(rules: Vec<RuleSpec>) -> String {
        let options = options(&Policy::new(rules).unwrap());
        let mut sorted = trace::read(Source::from_reader("", LINE.as_bytes()), options).unwrap();
        let batch = sorted.next_batch().unwrap().unwrap();
        let event = batch.events().next().unwrap().unwrap();
        event.descriptor.iter().map(|(name, value)| format!("{name}{value}")).collect()
    }

    fn rule(name: &str) -> RuleSpec {
        RuleSpec::new(name, Spec::new(AlgorithmKind::TokenBucket, 1, Duration::from_secs(1)))
    }

    #[test]
    fn only_entries_that_a_rule_looks_at_are_kept() {
        let (all, keyed, conditional) = (rule("x"), rule("y").key(["d"]), rule("z").when("b", "*"));
        assert_eq!(kept(vec![all.clone()]), "");
        assert_eq!(kept(vec![all, keyed.clone(), conditional]), "b2d4");
        let other = OverrideSpec::new("d", "4");
        assert_eq!(kept(vec![keyed.with_override(other)]), "d4");
    }

    #[test]
    fn all_entries_are_kept_for_a_rule_that_allows_no_others() {
        assert_eq!(kept(vec![rule("x").key(["d"]), rule("y").when("b", "2").exact()]), "a1b2c3d4");
    }
}
