//! The decisions of each rule in `GET /metrics`, and their rates between two readings, for `tidegate top`.

use std::collections::HashMap;

/// The decisions of a rule since the start of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Decisions {
    pub(super) domain: String,
    pub(super) rule: String,
    pub(super) all: u64,
    /// Denied by this rule, also in shadow mode.
    pub(super) refused: u64,
}

impl Decisions {
    /// The domain and the name of the rule.
    fn name(&self) -> (&str, &str) {
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

/// Reads the rules of an answer, in its order.
pub(super) fn read(metrics: &str) -> Vec<Decisions> {
    let mut rules: Vec<Decisions> = Vec::new();
    let mut places = HashMap::new();
    for line in metrics.lines() {
        let Some((labels, count)) = line
            .strip_prefix("tidegate_rule_decisions_total{")
            // The last, because the value of a label may contain the same characters.
            .and_then(|rest| rest.rsplit_once("} "))
        else {
            continue;
        };
        let labels = labels_of(labels);
        let count = count.trim().parse().unwrap_or(0);
        let name = (value(&labels, "domain"), value(&labels, "rule"));
        let place = *places.entry(name).or_insert_with_key(|(domain, rule)| {
            rules.push(Decisions {
                domain: domain.clone(),
                rule: rule.clone(),
                ..Decisions::default()
            });
            rules.len() - 1
        });
        if let Some(of_rule) = rules.get_mut(place) {
            of_rule.all += count;
            let outcome = value(&labels, "outcome");
            if ["refused", "never", "unavailable", "shadow_refused"].contains(&outcome.as_str()) {
                of_rule.refused += count;
            }
        }
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

/// The value of a label, empty if there is none.
fn value(labels: &[(String, String)], name: &str) -> String {
    let found = labels.iter().find(|(label, _)| label == name);
    found.map(|(_, value)| value.clone()).unwrap_or_default()
}

/// The labels of a series: `a="b",c="d"`, in which `\`, `"` and line feeds are escaped.
fn labels_of(text: &str) -> Vec<(String, String)> {
    let mut labels = Vec::new();
    let mut chars = text.chars();
    loop {
        // The equals sign is taken as well, so a quote comes next.
        let name: String = chars.by_ref().take_while(|c| *c != '=').collect();
        if chars.next() != Some('"') {
            return labels;
        }
        let mut value = String::new();
        while let Some(c) = chars.next().filter(|c| *c != '"') {
            match c {
                '\\' => match chars.next() {
                    Some('n') => value.push('\n'),
                    escaped => value.extend(escaped),
                },
                c => value.push(c),
            }
        }
        labels.push((name.trim_start_matches(',').to_owned(), value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = r#"# HELP tidegate_rule_decisions Decisions of a rule by outcome.
tidegate_rule_decisions_total{domain="a \"b\", \\ c",rule="r",outcome="allowed"} 90
tidegate_rule_decisions_total{domain="a \"b\", \\ c",rule="r",outcome="refused"} 10
tidegate_rule_decisions_total{domain="d",rule="tried",outcome="shadow_allowed"} 5
tidegate_rule_decisions_total{domain="d",rule="tried",outcome="shadow_refused"} 1
# EOF
"#;

    #[test]
    fn rates_are_differences_over_the_time_between() {
        let before = read(BEFORE);
        assert_eq!(
            (before[0].domain.as_str(), before[0].all, before[0].refused),
            ("a \"b\", \\ c", 100, 10)
        );
        assert_eq!((before[1].rule.as_str(), before[1].refused), ("tried", 1));
        let new =
            "tidegate_rule_decisions_total{domain=\"d\",rule=\"new\",outcome=\"allowed\"} 7\n";
        let after = read(&(BEFORE.replace("} 10\n", "} 30\n") + new));
        let rates = between(&before, after, 2.0);
        let found: Vec<_> = rates.iter().map(|one| (one.all, one.refused)).collect();
        assert_eq!(found, [(10.0, 10.0), (0.0, 0.0), (0.0, 0.0)]);
    }
}
