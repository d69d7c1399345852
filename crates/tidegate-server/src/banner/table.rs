//! The rules in force, as a table, for the banner of `serve` and for `tidegate rules`.

use std::fmt::Write as _;
use std::time::Duration;

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets::NOTHING};
use tidegate::printable;
use tidegate::{Limit, Micros, Policy, PolicyRule, RuleSpec};

use tidegate_lab::trace::DEFAULT_DOMAIN;
use tidegate_lab::{diff, labels};

use crate::stdout;

const HEADINGS: [&str; 8] =
    ["DOMAIN", "RULE", "ALGORITHM", "LIMIT", "WHEN", "KEY", "MODE", "OPTIONS"];

/// The largest number of rules that a server prints at start.
const MOST_AT_START: usize = 50;

/// The space before each line.
const INDENT: &str = " ";

/// A line for each rule, in the order they were written. On a terminal that is too narrow for it each item of a value
/// has a line, and the domain is left out if no rule has one; on one that is too narrow for that, each value.
pub(crate) fn of(policy: &Policy, is_shared: bool, width: Option<u16>) -> String {
    of_rules(policy.rules(), is_shared, width)
}

/// The lines of the first rules, and the number of all others; with `hint` how to see them.
pub(super) fn first_of(policy: &Policy, is_shared: bool, width: Option<u16>, hint: &str) -> String {
    let rules = policy.rules();
    let (first, more) = rules.split_at_checked(MOST_AT_START).unwrap_or((rules, &[]));
    let mut text = of_rules(first, is_shared, width);
    if !more.is_empty() {
        let _ = write!(text, "\n{INDENT}and {} more{hint}", more.len());
    }
    text
}

/// A line for each override: the keys that it is for, and the limit that they have; nothing without overrides.
pub(crate) fn overrides(policy: &Policy, width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["DOMAIN", "RULE", "OVERRIDE", "LIMIT"]);
    for rule in policy.rules().iter().map(PolicyRule::spec) {
        for other in &rule.overrides {
            let entries = other.entries.iter().map(|(name, value)| format!("{name}={value}"));
            let limit = other.limit.unwrap_or(rule.spec.limit);
            let window = other.window.or(rule.spec.window);
            let capacity = other.capacity.or(rule.spec.capacity);
            table.add_row([
                printable::line(&rule.domain).into_owned(),
                rule.name.clone(),
                list(&entries.collect::<Vec<_>>(), ", "),
                list(&limit_of(limit, window, capacity), ", "),
            ]);
        }
    }
    if table.is_empty() {
        return String::new();
    }
    if let Some(width) = width.filter(|width| stdout::columns(&table) >= usize::from(*width)) {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    indented(&table)
}

fn of_rules(rules: &[PolicyRule], is_shared: bool, width: Option<u16>) -> String {
    let width = width.map(|width| usize::from(width).saturating_sub(INDENT.len()));
    let table = [", ", ",\n"]
        .into_iter()
        .map(|separator| table(rules, is_shared, separator))
        .find(|table| width.is_none_or(|width| stdout::columns(table) <= width))
        .unwrap_or_else(|| lists(rules, is_shared, width.unwrap_or_default()));
    indented(&table)
}

fn indented(table: &Table) -> String {
    let lines = table.lines().map(|line| format!("{INDENT}{line}").trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

/// The rules below each other; the items of a value are joined by `separator`.
fn table(rules: &[PolicyRule], is_shared: bool, separator: &str) -> Table {
    let rows = rules.iter().map(|rule| row(rule, is_shared, separator));
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(HEADINGS).add_rows(rows);
    // A table with a line for each item is only made where the wide table does not fit.
    let is_narrow = separator.contains('\n');
    let has_domains = rules.iter().any(|rule| rule.spec().domain != DEFAULT_DOMAIN);
    if let Some(domains) = table.column_mut(0).filter(|_| is_narrow && !has_domains) {
        domains.set_constraint(ColumnConstraint::Hidden);
    }
    table
}

/// The values of each rule below each other.
fn lists(rules: &[PolicyRule], is_shared: bool, width: usize) -> Table {
    let mut table = Table::new();
    let width = width.try_into().unwrap_or(u16::MAX);
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    for rule in rules {
        if !table.is_empty() {
            table.add_row([""]);
        }
        let values = HEADINGS.into_iter().zip(row(rule, is_shared, ", "));
        // In a list an empty value would take a line.
        let values = values.filter(|(_, value)| value != "-");
        table.add_rows(values.map(|(heading, value)| [heading.to_owned(), value]));
    }
    if let Some(headings) = table.column_mut(0) {
        headings.set_constraint(ColumnConstraint::ContentWidth);
    }
    table
}

/// The cells of a rule, in the order of [`HEADINGS`].
fn row(rule: &PolicyRule, is_shared: bool, separator: &str) -> [String; 8] {
    let spec = rule.spec();
    let when = spec.when.iter().map(|(name, value)| format!("{name}={value}"));
    let when: Vec<_> = when.collect();
    [
        printable::line(&spec.domain).into_owned(),
        spec.name.clone(),
        spec.spec.algorithm.to_string(),
        list(&limit_of(spec.spec.limit, spec.spec.window, spec.spec.capacity), separator),
        list(&when, separator),
        list(&spec.key, separator),
        labels::mode(rule.mode()).to_owned(),
        list(&options(spec, is_shared), separator),
    ]
}

fn list(items: &[String], separator: &str) -> String {
    if items.is_empty() {
        return "-".to_owned();
    }
    items.iter().map(|item| printable::line(item)).collect::<Vec<_>>().join(separator)
}

/// Further fields that decide whether a request matches a rule, and its effect, in their order.
const OPTIONS: &str = "match overrides limit_from_request on_excess usage dedupe max_life max_keys on_full \
                       on_store_error hash_tag across_slots lease split near hide_keys initial buckets strict anchor \
                       resolution layout max_memory max_debt";

/// The options of a rule, with the names of a configuration.
fn options(rule: &RuleSpec, is_shared: bool) -> Vec<String> {
    let fields = diff::fields(rule);
    let mut options = Vec::new();
    for name in OPTIONS.split(' ') {
        let field = fields.iter().find(|(field, _)| *field == name);
        let value = field.and_then(|(_, value)| value.as_deref());
        options.push(match (name, value) {
            ("overrides", _) => match rule.overrides.len() {
                0 => continue,
                1 => "1 override".to_owned(),
                many => format!("{many} overrides"),
            },
            // Only over a store: elsewhere the setting has no effect.
            ("on_store_error", _) if !is_shared => continue,
            // A default is left out, also if the file has it.
            (_, None)
            | ("match", Some("subset"))
            | ("on_excess", Some("reject"))
            | ("usage", Some("requested"))
            | ("on_full", Some("share")) => continue,
            ("on_excess", Some(wait)) => wait.to_owned(),
            ("limit_from_request" | "across_slots" | "split" | "hide_keys", _) => name.to_owned(),
            (_, Some(value)) => format!("{name} {value}"),
        });
    }
    options
}

/// The limit, such as `100 per 1s`, and the capacity of a bucket or queue if it differs.
fn limit_of(limit: Limit, window: Option<Duration>, capacity: Option<u64>) -> Vec<String> {
    let window = window.map(|window| format!(" per {}", Micros::from(window)));
    let capacity = capacity.map(|units| format!("capacity {units}"));
    match limit {
        Limit::Unlimited => vec!["unlimited".to_owned()],
        Limit::Units(0) => vec!["0".to_owned(), "denies all".to_owned()],
        Limit::Units(units) => {
            let limit = format!("{units}{}", window.unwrap_or_default());
            [limit].into_iter().chain(capacity).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::by_example;
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
            max_life = "1h"
            limit_from_request = true
            on_full = "refuse"
            hash_tag = "user"
            across_slots = true
            near = 0.8
            hide_keys = true
            max_keys = 9
            buckets = 6
            max_debt = 7
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
            "max_life 1h",
            "max_keys 9",
            "on_full refuse",
            "hash_tag user",
            "across_slots",
            "near 0.8",
            "hide_keys",
            "buckets 6",
            "max_debt 7",
        ];
        assert_eq!(options_of(more), all, "without a store nothing is done while it is away");
    }

    #[test]
    fn every_field_of_a_rule_has_a_place_in_the_table() {
        let policies = by_example();
        let rules = policies.iter().flat_map(Policy::rules).map(PolicyRule::spec);
        let shown: Vec<_> = rules.flat_map(|rule| options(rule, true)).collect();
        let shown = shown.join(" ");
        // Fields with a column, or another name.
        let others: Vec<_> =
            "name domain when key exact mode spec algorithm limit window capacity unread \
             on_excess overrides"
                .split(' ')
                .collect();
        let debugged = format!("{:#?}", RuleSpec::new("a", "1/s"));
        let fields = debugged.lines().filter_map(|line| Some(line.split_once(": ")?.0.trim()));
        for field in fields.filter(|field| !others.contains(field)) {
            assert!(shown.contains(field), "{field} is not in {shown}");
        }
    }

    #[test]
    fn each_override_has_a_line_with_its_keys_and_its_limit() {
        let others = "[[rule.override]]\nmatch = { user = \"ada\" }\nlimit = 50\n\
                      [[rule.override]]\nmatch = { user = \"\u{202e}eve\" }\nlimit = 0\n\
                      [[rule.override]]\nmatch = { user = \"bob\" }\nwindow = \"2m\"\n";
        let policy = config::parse("test", &format!("{RULE}{others}")).unwrap();
        let lines = [
            "  DOMAIN   RULE   OVERRIDE          LIMIT",
            "  default  plans  user=ada          50 per 1m",
            "  default  plans  user=\\u{202e}eve  0, denies all",
            "  default  plans  user=bob          10 per 2m",
        ];
        assert_eq!(overrides(&policy, None).lines().collect::<Vec<_>>(), lines);
        assert_eq!(overrides(&config::parse("test", RULE).unwrap(), None), "");
        for width in 40..60 {
            assert!(widest(&overrides(&policy, Some(width))) <= usize::from(width), "{width}");
        }
    }

    #[test]
    fn with_a_store_the_choice_for_its_outages_is_shown() {
        let store = "[store]\nurl = \"redis://127.0.0.1\"";
        assert_eq!(options_of(store), ["on_store_error local"]);
    }

    /// The widest line of a text; a character that is not ASCII takes two columns.
    fn widest(text: &str) -> usize {
        let columns = |line: &str| line.chars().map(|c| if c.is_ascii() { 1 } else { 2 }).sum();
        text.lines().map(columns).max().unwrap_or(0)
    }

    #[test]
    fn the_rules_of_the_example_fit_eighty_columns_and_break_no_value() {
        let rules = include_str!("../../../../examples/rules.toml");
        let policy = config::parse("test", rules).unwrap();
        let whole = of(&policy, false, None);
        assert_eq!((whole.lines().count(), widest(&whole)), (4, 96), "{whole}");
        for width in [96, 100, 120, u16::MAX] {
            assert_eq!(of(&policy, false, Some(width)), whole);
        }
        let lines = [
            "  RULE    ALGORITHM       LIMIT        WHEN         KEY  MODE     OPTIONS",
            "  per-ip  token_bucket    60 per 1m,   -            ip   enforce  1 override",
            "                          capacity 20",
            "  login   sliding_log     5 per 1m     path=/login  ip   enforce  -",
            "  sale    sliding_window  50 per 10s   path=/sale*  -    shadow   -",
        ];
        assert_eq!(of(&policy, false, Some(80)).lines().collect::<Vec<_>>(), lines);
        assert_eq!(of(&policy, false, Some(95)), of(&policy, false, Some(77)));
    }

    #[test]
    fn rules_of_several_domains_have_a_column_for_them() {
        let whole = of(&crate::policy::example().unwrap(), false, None);
        let lines: Vec<_> = whole
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        for expected in [
            "DOMAIN RULE ALGORITHM LIMIT WHEN KEY MODE OPTIONS",
            "pay transfer-channel sliding_log 100 per 1s biz_type=transfer channel enforce 1 override",
            "default demo-per-minute sliding_window 20 per 1m - key shadow -",
        ] {
            assert!(lines.iter().any(|line| line == expected), "{expected}: {whole}");
        }
    }

    #[test]
    fn values_that_are_too_wide_for_a_table_are_listed_and_none_is_lost() {
        let when =
            "when = { biz = \"轉帳\", channel = \"支付寶支付寶支付寶支付寶支付寶支付寶\" }\n";
        let policy = config::parse("test", &format!("{RULE}{when}")).unwrap();
        let (whole, listed) = (of(&policy, false, None), of(&policy, false, Some(80)));
        let lines = [
            "  DOMAIN     default",
            "  RULE       plans",
            "  ALGORITHM  sliding_window",
            "  LIMIT      10 per 1m",
            "  WHEN       biz=轉帳, channel=支付寶支付寶支付寶支付寶支付寶支付寶",
            "  KEY        user",
            "  MODE       enforce",
        ];
        assert_eq!(listed.lines().collect::<Vec<_>>(), lines);
        let keys = |text: &str| text.chars().filter(|c| !c.is_ascii()).count();
        for width in 1..80 {
            let narrow = of(&policy, false, Some(width));
            assert_eq!(keys(&narrow), keys(&whole), "{narrow}");
            assert!(width < 20 || widest(&narrow) <= usize::from(width), "{narrow}");
        }
    }

    #[test]
    fn a_server_with_many_rules_prints_the_first_and_the_number_of_the_others() {
        let rule = |number| format!("[[rule]]\nname = \"r{number}\"\nlimit = 1\nwindow = \"1s\"\n");
        let text = |rules: usize| {
            let policy = config::parse("test", &(0..rules).map(rule).collect::<String>()).unwrap();
            let hint = ": `tidegate rules` lists all";
            (first_of(&policy, false, None, hint), of(&policy, false, None))
        };
        let (first, all) = text(MOST_AT_START);
        assert_eq!(first, all);
        let (first, all) = text(MOST_AT_START + 7);
        assert_eq!(first.lines().last(), Some(" and 7 more: `tidegate rules` lists all"));
        assert_eq!((first.lines().count(), all.lines().count()), (52, 58));
    }
}
