//! The rules in force, as a table.

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets::NOTHING};
use tidegate::{Limit, Micros, OnExcess, OnFull, Policy, PolicyRule, RuleSpec, Spec, Usage};

use tidegate_lab::labels;

const HEADINGS: [&str; 8] =
    ["DOMAIN", "RULE", "ALGORITHM", "LIMIT", "WHEN", "KEY", "MODE", "OPTIONS"];

/// The space before each line.
const INDENT: &str = " ";

/// One line for each rule, in the order they were written; on a terminal of a `width` as many as its
/// columns need.
pub(crate) fn of(policy: &Policy, width: Option<u16>) -> String {
    let mut table = Table::new();
    if let Some(width) = width {
        let width = width.saturating_sub(INDENT.len() as u16);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    table.load_style(NOTHING).set_header(HEADINGS);
    for rule in policy.rules() {
        table.add_row(row(rule, policy.store().is_some()));
    }
    // An algorithm and a mode are one word each.
    for column in [2, 6] {
        if let Some(column) = table.column_mut(column) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    let lines = table.lines().map(|line| format!("{INDENT}{}", line.trim_end()));
    lines.collect::<Vec<_>>().join("\n")
}

fn row(rule: &PolicyRule, is_shared: bool) -> [String; 8] {
    let spec = rule.spec();
    [
        spec.domain.clone(),
        spec.name.clone(),
        spec.spec.algorithm.to_string(),
        limit(&spec.spec),
        list(spec.when.iter().map(|(name, value)| format!("{name}={value}"))),
        list(spec.key.iter().cloned()),
        labels::mode(rule.mode()).to_owned(),
        list(options(spec, is_shared).into_iter()),
    ]
}

/// Further fields that decide whether a request matches a rule, and its effect, with the names of a
/// configuration.
fn options(rule: &RuleSpec, is_shared: bool) -> Vec<String> {
    let overrides = match rule.overrides.len() {
        0 => None,
        1 => Some("1 override".to_owned()),
        many => Some(format!("{many} overrides")),
    };
    let waits = match rule.on_excess {
        OnExcess::Reject => None,
        OnExcess::Wait { wait, max_waiters } => {
            Some(format!("wait {}, max_waiters {max_waiters}", Micros::from(wait)))
        }
    };
    let away = is_shared
        .then(|| format!("on_store_error {}", labels::on_store_error(rule.on_store_error)));
    let reported = (rule.usage == Usage::Reported).then(|| "usage reported".to_owned());
    let dedupe = rule.dedupe.map(|time| format!("dedupe {}", Micros::from(time)));
    let tag = rule.hash_tag.as_ref().map(|entry| format!("hash_tag {entry}"));
    let across = rule.across_slots.then(|| "across_slots".to_owned());
    let lease = rule.lease.map(|lease| format!("lease {lease}"));
    let own = rule.limit_from_request.then(|| "limit_from_request".to_owned());
    let near = rule.near.map(|near| format!("near {near}"));
    let hidden = rule.hide_keys.then(|| "hide_keys".to_owned());
    let exact = rule.exact.then(|| "match exact".to_owned());
    let full = (rule.on_full == OnFull::Refuse).then(|| "on_full refuse".to_owned());
    let all = [
        exact, overrides, own, waits, reported, dedupe, full, away, tag, across, lease, near,
        hidden,
    ];
    all.into_iter().flatten().collect()
}

/// The limit, such as `100 per 1s`, and the capacity of a bucket or queue if it differs.
fn limit(spec: &Spec) -> String {
    let window = spec.window.map(|window| format!(" per {}", Micros::from(window)));
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

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::config;

    const RULE: &str = r#"
        [[rule]]
        name = "plans"
        key = ["user"]
        algorithm = "sliding_window"
        limit = 10
        window = "1m"
    "#;

    fn options_of(said: &str) -> Vec<String> {
        let policy = config::parse("test", &format!("{RULE}{said}")).unwrap();
        options(policy.rules()[0].spec(), policy.store().is_some())
    }

    #[test]
    fn further_fields_of_a_rule_are_shown() {
        assert_eq!(options_of(""), Vec::<String>::new());
        let waits = r#"on_excess = { wait = "2s", max_waiters = 5 }"#;
        assert_eq!(options_of(waits), ["wait 2s, max_waiters 5"]);
        let more = r#"
            match = "exact"
            usage = "reported"
            dedupe = "30s"
            limit_from_request = true
            on_full = "refuse"
            hash_tag = "user"
            across_slots = true
            near = 0.8
            hide_keys = true
            on_store_error = "closed"
            [[rule.override]]
            match = { user = "ada" }
            limit = 5
        "#;
        let all = [
            "match exact",
            "1 override",
            "limit_from_request",
            "usage reported",
            "dedupe 30s",
            "on_full refuse",
            "hash_tag user",
            "across_slots",
            "near 0.8",
            "hide_keys",
        ];
        assert_eq!(options_of(more), all, "without a store nothing is done while it is away");
    }

    #[test]
    fn with_a_store_the_choice_for_its_outages_is_shown() {
        let store = "[store]\nurl = \"redis://127.0.0.1\"";
        assert_eq!(options_of(store), ["on_store_error local"]);
    }

    #[test]
    fn the_table_fits_its_terminal_and_loses_nothing() {
        let when =
            "when = { biz = \"轉帳\", channel = \"支付寶支付寶支付寶支付寶支付寶支付寶\" }\n";
        let policy = config::parse("test", &format!("{RULE}{when}")).unwrap();
        let (whole, fitted) = (of(&policy, None), of(&policy, Some(80)));
        assert_eq!(whole.lines().count(), 2, "{whole}");
        // Characters of these keys take two columns each.
        let columns = |line: &str| line.chars().map(|c| if c.is_ascii() { 1 } else { 2 }).sum();
        let widest = |text: &str| text.lines().map(columns).max().unwrap_or(0);
        assert!(widest(&fitted) <= 80 && widest(&whole) > 80, "{fitted}");
        let keys = |text: &str| text.chars().filter(|c| !c.is_ascii()).count();
        assert_eq!(keys(&fitted), keys(&whole), "{fitted}");
    }
}
