//! A request that matches a given rule, for the command printed at start (`banner.rs`) and for the health
//! check (`probe.rs`).

use serde::Serialize;
use tidegate::{Mode, Policy, PolicyRule, Request};

use crate::ordered_map::OrderedMap;

/// The value of an entry if any value will do.
const ANY: &str = "demo";

/// The domain and the entries of a descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SampleRequest {
    pub(crate) domain: String,
    pub(crate) entries: Vec<(String, String)>,
}

impl SampleRequest {
    /// Matches the first enforced rule, else the first that counts; without rules it is an
    /// arbitrary request.
    pub(crate) fn of(policy: &Policy) -> Self {
        let first = [Mode::Enforce, Mode::Shadow]
            .iter()
            .find_map(|mode| policy.rules().iter().find(|rule| rule.mode() == *mode));
        first.map_or_else(Self::any, Self::matching)
    }

    fn any() -> Self {
        Self {
            domain: Request::DEFAULT_DOMAIN.to_owned(),
            entries: vec![("key".to_owned(), ANY.to_owned())],
        }
    }

    /// A request with the entries of `when`, then the other entries of `key`, which also satisfies
    /// `exact`.
    fn matching(rule: &PolicyRule) -> Self {
        let spec = rule.spec();
        let when = spec.when.iter().map(|(name, pattern)| (name.clone(), fitting(pattern)));
        let mut entries: Vec<_> = when.collect();
        for name in &spec.key {
            if spec.when.iter().all(|(when, _)| when != name) {
                entries.push((name.clone(), ANY.to_owned()));
            }
        }
        Self { domain: spec.domain.clone(), entries }
    }

    /// The body of a check, on one line.
    pub(crate) fn body(&self) -> String {
        let body = SampleBody {
            domain: Some(self.domain.as_str()).filter(|d| *d != Request::DEFAULT_DOMAIN),
            descriptor: OrderedMap(&self.entries),
        };
        serde_json::to_string(&body).unwrap_or_default()
    }
}

/// The body as JSON.
#[derive(Serialize)]
struct SampleBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<&'a str>,
    descriptor: OrderedMap<'a>,
}

/// A value that matches a pattern of `when`.
fn fitting(pattern: &str) -> String {
    match pattern.strip_suffix('*') {
        Some(prefix) => format!("{prefix}{ANY}"),
        None => pattern.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tidegate::{AlgorithmKind, Descriptor, Gate, RuleSpec, Spec};

    fn rule(name: &str) -> RuleSpec {
        RuleSpec::new(name, Spec::new(AlgorithmKind::FixedWindow, 5, Duration::from_secs(1)))
    }

    fn meets(rules: Vec<RuleSpec>, expected: &str) -> SampleRequest {
        let policy = Policy::new(rules).unwrap();
        let sample = SampleRequest::of(&policy);
        let gate = Gate::new(policy);
        let entries: Vec<_> =
            sample.entries.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let descriptors = [Descriptor::new(&entries)];
        let answer = gate.peek(&Request::new(&sample.domain, &descriptors));
        let names: Vec<_> = answer.matched().iter().map(|matched| matched.rule().name()).collect();
        assert!(names.contains(&expected), "{sample:?} meets {names:?}");
        sample
    }

    #[test]
    fn a_sample_meets_its_rule_whatever_the_rule_asks_for() {
        meets(vec![rule("all")], "all");
        meets(vec![rule("every").when("path", "*").key(["path", "user"])], "every");
        let exact = rule("exact").when("path", "api/*").key(["user", "path"]).exact();
        let sample = meets(vec![exact.in_domain("d")], "exact");
        assert_eq!(
            sample.body(),
            r#"{"domain":"d","descriptor":{"path":"api/demo","user":"demo"}}"#
        );
    }

    #[test]
    fn a_sample_prefers_an_enforced_rule_and_never_takes_one_that_is_off() {
        let off = || rule("off").mode(Mode::Off);
        let shadow = || rule("shadow").key(["a"]).mode(Mode::Shadow);
        meets(vec![off(), shadow(), rule("enforced").key(["b"])], "enforced");
        meets(vec![off(), shadow()], "shadow");
        assert_eq!(SampleRequest::of(&Policy::new(vec![off()]).unwrap()), SampleRequest::any());
    }
}
