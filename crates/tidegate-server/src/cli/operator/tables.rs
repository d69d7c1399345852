//! Tables of names and numbers, and keys in them.

use std::ops::Range;

use comfy_table::{CellAlignment, Table, presets::NOTHING};
use serde_json::Value;

use crate::stdout;

/// A line for each row; columns of numbers are aligned at their ends. On a terminal of a `width` that is too narrow for
/// it each word of a heading has a line.
pub(super) fn table(
    width: Option<u16>,
    headings: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
    numbers: Range<usize>,
) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(headings);
    rows.into_iter().for_each(|row| {
        table.add_row(row);
    });
    for column in numbers {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    if width.is_some_and(|width| stdout::columns(&table) > usize::from(width)) {
        table.set_header(headings.iter().map(|heading| heading.replace(' ', "\n")));
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The entries of a key, or its fingerprint.
pub(super) fn key(key: Option<&Value>) -> String {
    match key {
        Some(Value::Object(entries)) => {
            let entries = entries
                .iter()
                .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()));
            entries.collect::<Vec<_>>().join(", ")
        }
        Some(Value::String(fingerprint)) => format!("#{fingerprint}"),
        _ => String::new(),
    }
}
