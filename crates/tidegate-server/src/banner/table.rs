//! The rules in force, as a table.

use comfy_table::{Table, presets::NOTHING};
use tidegate::{Limit, Policy, PolicyRule, Spec};

use crate::words;

const HEADINGS: [&str; 8] =
    ["DOMAIN", "RULE", "ALGORITHM", "LIMIT", "WHEN", "KEY", "MODE", "OVERRIDES"];

/// One line for each rule, in the order they were written.
pub(super) fn of(policy: &Policy) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(HEADINGS);
    for rule in policy.rules() {
        table.add_row(row(rule));
    }
    let lines = table.lines().map(|line| format!(" {}", line.trim_end()));
    lines.collect::<Vec<_>>().join("\n")
}

fn row(rule: &PolicyRule) -> [String; 8] {
    let spec = rule.spec();
    [
        spec.domain.clone(),
        spec.name.clone(),
        spec.spec.algorithm.to_string(),
        limit(&spec.spec),
        list(spec.when.iter().map(|(name, value)| format!("{name}={value}"))),
        list(spec.key.iter().cloned()),
        words::mode(rule.mode()).to_owned(),
        spec.overrides.len().to_string(),
    ]
}

/// Such as `100 per 1s`, with the capacity of a bucket or queue that has one of its own.
fn limit(spec: &Spec) -> String {
    let window = spec.window.map(|window| format!(" per {window}"));
    let capacity = spec.capacity.map(|units| format!(", capacity {units}"));
    match spec.limit {
        Limit::Unlimited => "unlimited".to_owned(),
        Limit::Units(0) => "0, denies all".to_owned(),
        Limit::Units(units) => {
            let (window, capacity) = (window.unwrap_or_default(), capacity.unwrap_or_default());
            format!("{units}{window}{capacity}")
        }
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    let joined = items.collect::<Vec<_>>().join(", ");
    if joined.is_empty() { "-".to_owned() } else { joined }
}
