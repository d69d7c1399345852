//! Tables of names and numbers, and keys in them.

use std::ops::Range;

use comfy_table::{CellAlignment, Table, presets::NOTHING};
use serde_json::Value;

/// A line for each row; columns of numbers are aligned at their ends.
pub(super) fn table(
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
