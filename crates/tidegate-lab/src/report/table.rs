//! The report as a table for a terminal.
//!
//! A comparison of algorithms uses the same columns and numbers.

use std::fmt::Write;

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, Table, presets::UTF8_HORIZONTAL_ONLY,
};
use jiff::Timestamp;
use tidegate::{Limit, Micros, Mode, OnFull, Spec, printable};

use super::fitted::fitted;
use super::{Counted, Report, RuleReport, VariantReport};
use crate::plot::duration_label;

/// The columns of a terminal that a text in the table keeps before another column is left out.
const SPACE_OF_A_TEXT: u16 = 12;
/// The number of names that are listed under "refused most".
const TOP: usize = 5;

/// The whole report: totals, a line for each rule and for each override that applied to a request,
/// rules that ran out of room, and the keys refused most. With a `width`, in columns of a terminal, no line is wider.
#[must_use]
pub fn table(report: &Report, width: Option<u16>) -> String {
    let mut text = totals(report);
    if report.requests > 0 {
        let _ = writeln!(text, "\n{}", rules(report, width));
        report.rules.iter().for_each(|rule| overflow(&mut text, rule));
        report.rules.iter().for_each(|rule| never_asked(&mut text, rule));
        report.rules.iter().for_each(|rule| refused_most(&mut text, rule));
        each_variant(report).for_each(|(rule, variant)| worst(&mut text, rule, variant));
    }
    fitted(&text, width)
}

fn totals(report: &Report) -> String {
    let mut text = report.headline();
    if report.requests > 0 {
        let _ = write!(
            text,
            ":\n{} admitted, {} refused ({})",
            grouped(report.requests - report.refused),
            grouped(report.refused),
            percent(report.refused, report.requests),
        );
    }
    if report.unlimited > 0 {
        let _ = write!(text, "; {} met no limit", grouped(report.unlimited));
    }
    text.push_str(".\n");
    let recorded = report.recorded;
    if recorded.decisions > 0 {
        let _ = writeln!(
            text,
            "Of {} recorded decisions, {} change to a refusal and {} to an admission.",
            grouped(recorded.decisions),
            grouped(recorded.now_refused),
            grouped(recorded.now_admitted),
        );
    }
    text
}

fn rules(report: &Report, width: Option<u16>) -> Table {
    let header = ["rule", "limit", "asked", "refused", "", "fullest window", "bound"];
    let mut table = new_table(&header, width);
    (2..=6).for_each(|column| align_right(&mut table, column));
    [2, 3, 4, 6].into_iter().for_each(|column| keep_together(&mut table, column));
    for (rule, variant) in each_variant(report) {
        table.add_row([
            with_mode(rule, variant),
            limit_text(variant.rule().spec()),
            grouped(variant.asked),
            grouped(variant.refused),
            percent(variant.refused, variant.asked),
            variant.fullest(),
            variant.bound().map_or("none".to_owned(), grouped),
        ]);
    }
    // The sentences below the table have the fullest windows, and the counts show the share.
    if let Some(width) = width {
        hide(&mut table, &[6, 5, 4], usize::from(width));
    }
    table
}

/// Hides columns, the first of `least` first, until the others have room for their values.
fn hide(table: &mut Table, least: &[usize], width: usize) {
    for column in least {
        let contents = table.column_iter().zip(table.column_max_content_widths());
        let visible = contents.filter(|(column, _)| !column.is_hidden());
        let widths = visible.map(|(column, content)| {
            let is_whole = column.constraint() == Some(&ColumnConstraint::ContentWidth);
            let space = if is_whole { content } else { content.min(SPACE_OF_A_TEXT) };
            // A space is between two columns.
            usize::from(space + column.padding_width()) + 1
        });
        // Plus one, because no space follows the last column.
        if widths.sum::<usize>() <= width + 1 {
            return;
        }
        if let Some(column) = table.column_mut(*column) {
            column.set_constraint(ColumnConstraint::Hidden);
        }
    }
}

fn each_variant(report: &Report) -> impl Iterator<Item = (&RuleReport, &VariantReport)> {
    let rules = report.rules.iter();
    rules.flat_map(|rule| rule.variants().map(move |variant| (rule, variant)))
}

/// `per-ip`, or `per-ip with ip=192.0.2.7` for an override of it.
fn named(rule: &RuleReport, variant: &VariantReport) -> String {
    let name = rule.rule().name();
    variant.matched().map_or(name.to_owned(), |matched| format!("{name} with {matched}"))
}

fn with_mode(rule: &RuleReport, variant: &VariantReport) -> String {
    let name = named(rule, variant);
    match rule.rule().mode() {
        Mode::Enforce => name,
        Mode::Shadow => format!("{name} (shadow)"),
        Mode::Off => format!("{name} (off)"),
    }
}

/// Adds a sentence if there was no room for limiters of some keys.
pub(crate) fn overflow(text: &mut String, rule: &RuleReport) {
    if rule.overflow == 0 {
        return;
    }
    let did = match rule.rule().spec().on_full {
        OnFull::Share => "shared one limiter",
        OnFull::Refuse => "were refused for that",
    };
    let _ = writeln!(
        text,
        "\nOverflow: {} of {} decisions of {} found no room for their key and {did}; see `max_keys`.",
        grouped(rule.overflow),
        grouped(rule.asked),
        rule.rule().name(),
    );
}

/// Adds a sentence about a rule that nothing matched, which may be a typo.
fn never_asked(text: &mut String, rule: &RuleReport) {
    if rule.asked == 0 && rule.rule().mode() != Mode::Off {
        let _ = writeln!(text, "\nNo request of this trace matched {}.", rule.rule().name());
    }
}

fn refused_most(text: &mut String, rule: &RuleReport) {
    if rule.refused == 0 {
        return;
    }
    let would = if rule.rule().mode() == Mode::Shadow { "Would be refused" } else { "Refused" };
    let _ = writeln!(text, "\n{would} most by {}:", rule.rule().name());
    let most = &rule.refused_most;
    most.top(TOP).iter().for_each(|counted| one_refused(text, counted));
    let _ = match most.names() {
        // All of them are listed above.
        Some(names) if names <= TOP => Ok(()),
        Some(names) => writeln!(text, "  {:>9}  keys were refused in all", grouped(names as u64)),
        None => writeln!(text, "  more than {} keys were refused", grouped(most.capacity() as u64)),
    };
}

fn one_refused(text: &mut String, counted: &Counted<'_>) {
    let _ = write!(text, "  {:>9}  {}", grouped(counted.at_least), printable::line(counted.name));
    if counted.at_most > counted.at_least {
        let _ = write!(text, "  (at least; at most {})", grouped(counted.at_most));
    }
    text.push('\n');
}

fn worst(text: &mut String, rule: &RuleReport, variant: &VariantReport) {
    let Some((key, ended)) = variant.worst.whose() else { return };
    let Some(window) = variant.rule().spec().window else { return };
    let units = if variant.worst.units() == 1 { "unit" } else { "units" };
    let did = if variant.is_queue() { "left" } else { "admitted" };
    let _ = writeln!(
        text,
        "\nFullest window of {}: {} {units} {did} for {} within the {} up to {}.",
        named(rule, variant),
        variant.fullest(),
        printable::line(key),
        duration_label(Micros::from(window).as_micros()),
        instant(ended),
    );
}

/// `20 per 10s`, with the other fields that matter to the bound.
#[must_use]
pub fn limit_text(spec: &Spec) -> String {
    let mut text = match (spec.limit, spec.window) {
        (Limit::Unlimited, _) => "unlimited".to_owned(),
        (Limit::Units(0), _) | (_, None) => "nothing".to_owned(),
        (Limit::Units(limit), Some(window)) => format!("{limit} per {}", Micros::from(window)),
    };
    if let Some(capacity) = spec.capacity {
        let _ = write!(text, ", capacity {capacity}");
    }
    format!("{text}, {}", spec.algorithm)
}

/// The time span of a trace: `from 2015-05-17 10:05:00 to ... UTC`, or in seconds for a synthetic
/// one.
#[must_use]
pub fn span_text(first_us: u64, last_us: u64) -> String {
    format!("from {} to {}", instant(first_us), instant(last_us))
}

/// Times within a year of the epoch belong to synthetic traces, and are shown as such.
fn instant(at_us: u64) -> String {
    const SYNTHETIC_US: u64 = 365 * 86_400_000_000;
    if at_us < SYNTHETIC_US {
        return format!("{}.{:06} s", at_us / 1_000_000, at_us % 1_000_000);
    }
    i64::try_from(at_us).ok().and_then(|us| Timestamp::from_microsecond(us).ok()).map_or_else(
        || format!("{at_us} us"),
        |at| at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
    )
}

/// A table in the style of all reports.
pub(crate) fn new_table(header: &[&str], width: Option<u16>) -> Table {
    let mut table = Table::new();
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    table.load_style(UTF8_HORIZONTAL_ONLY).set_header(header);
    table
}

pub(crate) fn align_right(table: &mut Table, column: usize) {
    if let Some(column) = table.column_mut(column) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// Keeps the words of a column in one line each, however narrow the table.
pub(crate) fn keep_together(table: &mut Table, column: usize) {
    if let Some(column) = table.column_mut(column) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
}

/// `1234567` as `1,234,567`.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A percentage with one decimal; never 0.0 % for more than nothing nor 100.0 % for less than all.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    let permille =
        // Rounded in whole numbers of 128 bits: half a permille is added before the division.
        (u128::from(part) * 2_000 + u128::from(whole)).checked_div(2 * u128::from(whole));
    let permille = permille.unwrap_or(0);
    match permille {
        0 if part > 0 => "< 0.1 %".to_owned(),
        1_000 if part < whole => "> 99.9 %".to_owned(),
        _ => format!("{}.{} %", permille / 10, permille % 10),
    }
}

#[cfg(test)]
mod tests;
