//! The decisions of each rule in `GET /v1/stats`, and their rates between two readings, for `tidegate top`.

use std::collections::HashMap;

use serde_json::Value;

use super::{items, text};

/// The decisions of a rule since the start of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Decisions {
    pub(super) domain: String,
    pub(super) rule: String,
    pub(super) mode: String,
    pub(super) all: u64,
    /// Denied by this rule, also in shadow mode.
    pub(super) refused: u64,
}

impl Decisions {
    /// The domain and the name of the rule.
    pub(super) fn name(&self) -> (&str, &str) {
        (&self.domain, &self.rule)
    }
}

/// A rule with its decisions since the start, and its decisions of the last second.
#[derive(Debug, PartialEq)]
pub(super) struct RuleRate {
    pub(super) total: Decisions,
    pub(super) all: f64,
    pub(super) refused: f64,
}

/// The outcomes of a refusal by a rule.
const REFUSALS: [&str; 4] = ["refused", "never", "unavailable", "shadow_refused"];

/// Reads the rules of an answer, in its order.
pub(super) fn read(stats: &Value) -> Vec<Decisions> {
    let mut rules = Vec::new();
    for rule in items(stats, "rules") {
        let [domain, name, mode] = ["domain", "rule", "mode"].map(|of| text(rule, of).to_owned());
        let mut counted = Decisions { domain, rule: name, mode, all: 0, refused: 0 };
        // Outcomes that never occurred are not in the answer.
        for (outcome, count) in rule["decisions"].as_object().into_iter().flatten() {
            let count = count.as_u64().unwrap_or_default();
            counted.all += count;
            // In shadow mode it would have been refused.
            if REFUSALS.contains(&outcome.as_str()) {
                counted.refused += count;
            }
        }
        rules.push(counted);
    }
    rules
}

/// The rates of the rules of the later reading; a rule that is new has none yet.
pub(super) fn between(before: &[Decisions], after: Vec<Decisions>, seconds: f64) -> Vec<RuleRate> {
    let before: HashMap<_, _> = before.iter().map(|one| (one.name(), one)).collect();
    let mut rates = Vec::new();
    for total in after {
        let old = before.get(&total.name()).copied().unwrap_or(&total);
        // A server that was restarted counts from 0.
        let all = total.all.saturating_sub(old.all) as f64 / seconds;
        let refused = total.refused.saturating_sub(old.refused) as f64 / seconds;
        rates.push(RuleRate { total, all, refused });
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rates_are_differences_over_the_time_between() {
        let rule = |name: &str, mode: &str, decisions: Value| json!({"domain": "d", "rule": name, "mode": mode, "decisions": decisions});
        let tried = rule("tried", "shadow", json!({"shadow_allowed": 5, "shadow_refused": 1}));
        let refused =
            |refused: u64| rule("r", "enforce", json!({"allowed": 90, "refused": refused}));
        let before = read(&json!({"rules": [refused(10), tried]}));
        assert_eq!((before[0].domain.as_str(), before[0].all, before[0].refused), ("d", 100, 10));
        assert_eq!((before[1].mode.as_str(), before[1].refused), ("shadow", 1));
        let new = rule("new", "enforce", json!({"allowed": 7}));
        let after = read(&json!({"rules": [refused(30), tried, new]}));
        let rates = between(&before, after, 2.0);
        let found: Vec<_> = rates.iter().map(|one| (one.all, one.refused)).collect();
        assert_eq!(found, [(10.0, 10.0), (0.0, 0.0), (0.0, 0.0)]);
    }
}
