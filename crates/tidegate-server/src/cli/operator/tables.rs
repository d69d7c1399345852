//! Tables of names and numbers, and keys in them, for `top`, `stats` and `reservations`. They fit the terminal.

use std::ops::Range;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, presets::NOTHING};
use serde_json::Value;
use tidegate::printable;

use super::entries;
use crate::stdout;

/// The columns of a table.
pub(super) struct TableColumns<'a> {
    pub(super) headings: &'a [&'a str],
    /// The columns of numbers, which are aligned at their ends and never cut.
    pub(super) numbers: Range<usize>,
    /// The columns that a narrow terminal leaves out, in that order.
    pub(super) least: &'a [usize],
}

/// The columns of the terminal that a text keeps before a column of the table is left out.
pub(super) const LEAST_OF_A_TEXT: u16 = 12;

/// A line for each row. On a terminal of a `width` that is too narrow each word of a heading has a line; on a narrower one
/// columns are left out, and then texts are cut.
pub(super) fn table(
    width: Option<u16>,
    columns: &TableColumns<'_>,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(columns.headings).set_truncation_indicator("…");
    for row in rows {
        table.add_row(row.iter().map(|text| printable::line(text)));
    }
    for column in columns.numbers.clone() {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    if let Some(width) = width.filter(|width| stdout::columns(&table) > usize::from(*width)) {
        fit(&mut table, columns, width);
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Makes a table fit into this width.
fn fit(table: &mut Table, columns: &TableColumns<'_>, width: u16) {
    table.set_header(columns.headings.iter().map(|heading| heading.replace(' ', "\n")));
    for column in columns.least {
        if least_width(table, &columns.numbers) <= usize::from(width) {
            break;
        }
        if let Some(column) = table.column_mut(*column) {
            column.set_constraint(ColumnConstraint::Hidden);
        }
    }
    for (number, column) in table.column_iter_mut().enumerate() {
        if columns.numbers.contains(&number) && !column.is_hidden() {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    // The last column needs no space after it.
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width.saturating_add(1));
    for row in table.row_iter_mut() {
        // A text that is too long is cut, and does not continue on the next line.
        row.max_height(1);
    }
}

/// The least width of a table whose numbers are whole and whose texts are cut.
fn least_width(table: &Table, numbers: &Range<usize>) -> usize {
    let contents = table.column_iter().zip(table.column_max_content_widths()).enumerate();
    let visible = contents.filter(|(_, (column, _))| !column.is_hidden());
    let widths = visible.map(|(number, (column, content))| {
        let shown = if numbers.contains(&number) { content } else { content.min(LEAST_OF_A_TEXT) };
        usize::from(shown + column.padding_width())
    });
    widths.sum::<usize>().saturating_sub(1)
}

/// The entries of a key as a command takes them back, or its fingerprint.
pub(super) fn key(key: Option<&Value>) -> String {
    match key {
        Some(Value::Object(entries)) => {
            let entries = entries
                .iter()
                .map(|(name, value)| entries::printed(name, value.as_str().unwrap_or_default()));
            entries.collect::<Vec<_>>().join(", ")
        }
        Some(Value::String(fingerprint)) => format!("#{fingerprint}"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: TableColumns<'_> = TableColumns {
        headings: &["DOMAIN", "RULE", "ASKED/S", "REFUSED 1M"],
        numbers: 2..4,
        least: &[0, 3],
    };

    fn shown(width: Option<u16>) -> String {
        let row = ["default", "a-rule-with-a-long-name", "1388169", "2109"];
        table(width, &COLUMNS, [row.map(str::to_owned).to_vec()])
    }

    #[test]
    fn a_narrow_terminal_cuts_no_number() {
        for width in 21..=200 {
            let shown = shown(Some(width));
            assert!(shown.contains("1388169"), "{width}:\n{shown}");
            assert!(!shown.contains("REFUSED") || shown.contains("2109"), "{width}:\n{shown}");
            let widest = shown.lines().map(|line| line.chars().count()).max();
            assert!(widest.is_some_and(|widest| widest <= usize::from(width)), "{width}:\n{shown}");
        }
    }

    #[test]
    fn the_least_important_column_goes_first() {
        assert!(shown(None).contains("default"));
        let narrow = shown(Some(36));
        assert!(!narrow.contains("DOMAIN") && narrow.contains("2109"), "{narrow}");
        let narrower = shown(Some(24));
        assert!(!narrower.contains("2109") && narrower.contains("a-rule"), "{narrower}");
    }
}
