//! Tables of names and numbers, and keys in them, for `top`, `stats` and `reservations`. They fit the terminal.

use serde_json::Value;
use tidegate::printable;

use super::columns::{FittedColumns, TableColumns, cut, heading, width as cell_width};
use super::entries;

/// A line for each row. On a terminal of a `width` that is too narrow each word of a heading has a line; on a narrower one
/// columns are left out, and then texts are cut.
pub(super) fn table(
    width: Option<u16>,
    columns: &TableColumns<'_>,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let rows: Vec<_> = rows.into_iter().map(|row| escaped(&row)).collect();
    // A space is before the first column.
    let fitted = FittedColumns::of(columns, &rows, width.unwrap_or(u16::MAX).saturating_sub(1));
    let headings = columns.headings.iter().map(|text| heading(text, fitted.is_stacked));
    let headings: Vec<_> = headings.collect();
    let head = (0..fitted.heading_height(columns)).map(|line| {
        let words = headings.iter().map(|heading| heading.lines().nth(line.into()));
        words.map(|word| word.unwrap_or_default().to_owned()).collect()
    });
    let mut text = String::new();
    for row in head.chain(rows.iter().cloned()) {
        text.push_str(line(columns, &fitted, &row).trim_end());
        text.push('\n');
    }
    text
}

/// The cells of a row as they are printed.
pub(super) fn escaped(row: &[String]) -> Vec<String> {
    row.iter().map(|cell| printable::line(cell).into_owned()).collect()
}

/// A row in the columns that are shown.
fn line(columns: &TableColumns<'_>, fitted: &FittedColumns, row: &[String]) -> String {
    let mut line = String::new();
    for (place, most) in &fitted.widths {
        let text = cut(row.get(*place).map_or("", String::as_str), *most);
        let space = " ".repeat(usize::from(most.saturating_sub(cell_width(&text))));
        if columns.numbers.contains(place) {
            line.push_str(&format!(" {space}{text} "));
        } else {
            line.push_str(&format!(" {text}{space} "));
        }
    }
    line
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
