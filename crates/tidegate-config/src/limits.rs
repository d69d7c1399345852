//! Limit, window and rate: fields that rules and overrides have in common.

use std::time::Duration;
use tidegate_core::text::parse_rate;
use tidegate_core::{Field, Limit};
use toml::de::DeValue;

use super::source::ConfigReport;
use super::table::TomlTable;
use super::value::Given;

/// The value expected of `rate`, in a message.
const RATE: &str = "units per time as a text, such as \"100/s\" or \"200/60s\"";

/// A limit; -1 is unlimited.
pub(super) fn limit(given: &mut Given<'_, '_, '_>) -> Option<Limit> {
    let expected = Field::Limit.expects();
    let hint = match given.value() {
        DeValue::Float(_) => {
            "; for a part of a unit write a longer window: 1.5 per second is 15 in \"10s\""
        }
        DeValue::String(text) if parse_rate(text).is_ok() => "; did you mean `rate`?",
        _ => "",
    };
    // Before `whole`, whose message would lack the hint.
    if !hint.is_empty() {
        return given.wrong(&format!("{expected}{hint}"));
    }
    match given.whole(expected)? {
        -1 => Some(Limit::Unlimited),
        number => match u64::try_from(number) {
            Ok(units) => Some(Limit::Units(units)),
            Err(_) => given.wrong(expected),
        },
    }
}

/// A rate: limit and window in one.
pub(super) fn rate(given: &mut Given<'_, '_, '_>) -> Option<(Limit, Duration)> {
    let DeValue::String(text) = given.value() else { return given.wrong(RATE) };
    let (units, window) = given.parsed(parse_rate(text))?;
    Some((Limit::Units(units), window))
}

/// Reports a `rate` that stands next to a `limit` or `window`. Returns the fields whose values later checks must
/// ignore, because of that, or because `rate` is among `failed`, the fields that were reported before.
pub(super) fn untrusted_by_rate(
    table: &TomlTable<'_>,
    failed: &[&'static str],
    report: &mut ConfigReport<'_>,
) -> &'static [&'static str] {
    let Some(rate) = table.get("rate") else {
        return if failed.contains(&"rate") { &["limit", "window"] } else { &[] };
    };
    let others = ["limit", "window"].into_iter().filter_map(|name| table.get(name));
    let others: Vec<_> = others
        .map(|other| format!("the `{}` of line {}", other.name, report.line(&other.key)))
        .collect();
    if !others.is_empty() {
        report.add(
            &rate.key,
            format!(
                "`rate` is `limit` and `window` in one: expected no `rate`, or not {}",
                others.join(" and ")
            ),
        );
    }
    // Of two values for the same thing neither is known to be the right value.
    if others.is_empty() && !failed.contains(&"rate") { &[] } else { &["limit", "window", "rate"] }
}
