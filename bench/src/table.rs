//! The tables of all commands, as they stand in a page, and their values as JSON.

use crate::harness::{Case, Measured, median};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fs;

/// A column of numbers: its head, its values, and the decimal places that are shown.
#[derive(Clone, Copy)]
pub struct Column {
    heading: &'static str,
    shows: Shows,
    places: usize,
}

/// The number that a column has of the rounds' values of a name.
#[derive(Clone, Copy)]
enum Shows {
    Median(&'static str),
    Least(&'static str),
    /// The smallest value, and the largest.
    Spread(&'static str),
    /// The median of the rounds' own ratios to the base: both were measured in each round, under the same load.
    Ratio(&'static str),
}

/// The median of a value.
pub const fn median_of(name: &'static str, heading: &'static str, places: usize) -> Column {
    Column { heading, shows: Shows::Median(name), places }
}

/// The smallest of a value.
pub const fn least_of(name: &'static str, heading: &'static str, places: usize) -> Column {
    Column { heading, shows: Shows::Least(name), places }
}

/// The smallest and the largest of a value.
pub const fn spread_of(name: &'static str, heading: &'static str, places: usize) -> Column {
    Column { heading, shows: Shows::Spread(name), places }
}

/// The ratio of a value to the value of the base.
pub const fn ratio_of(name: &'static str, heading: &'static str) -> Column {
    Column { heading, shows: Shows::Ratio(name), places: 2 }
}

impl Column {
    fn cell(self, measured: &Measured, base: Option<&Measured>) -> String {
        let places = self.places;
        let number = match self.shows {
            Shows::Median(name) => median(measured.values(name)),
            Shows::Least(name) => measured.values(name).into_iter().reduce(f64::min),
            Shows::Ratio(name) => base.and_then(|base| ratio(name, measured, base)),
            Shows::Spread(name) => {
                let values = measured.values(name);
                let least = values.iter().copied().reduce(f64::min);
                let most = values.iter().copied().reduce(f64::max);
                let ends = least.zip(most);
                let ends = ends.map(|(least, most)| format!("{least:.places$} - {most:.places$}"));
                return ends.unwrap_or_default();
            }
        };
        number.map(|number| format!("{number:.places$}")).unwrap_or_default()
    }
}

fn ratio(name: &str, measured: &Measured, base: &Measured) -> Option<f64> {
    let base = base.values(name).into_iter();
    let ratios = measured.values(name).into_iter().zip(base).map(|(own, base)| own / base);
    median(ratios.collect()).filter(|ratio| ratio.is_finite())
}

/// A table of a case in Markdown, below its title.
pub fn markdown(case: &Case, all: &[Measured]) -> String {
    let base = all.iter().find(|measured| measured.name == case.base);
    let headings = std::iter::once("subject".to_owned());
    let headings = headings.chain(case.columns.iter().map(|column| column.heading.to_owned()));
    let mut rows: Vec<Vec<String>> = vec![headings.collect()];
    for measured in all {
        let cells = case.columns.iter().map(|column| column.cell(measured, base));
        rows.push(std::iter::once(format!("`{}`", measured.name)).chain(cells).collect());
    }
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default().max(4)
    };
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let mut lines = vec![title(case), String::new()];
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        lines.push(format!("| {} |", cells.collect::<Vec<_>>().join(" | ")));
        if lines.len() == 3 {
            let rules = widths[1..].iter().map(|width| format!("{}:", "-".repeat(width + 1)));
            let rules: Vec<_> = rules.collect();
            lines.push(format!("|{}|{}|", "-".repeat(widths[0] + 2), rules.join("|")));
        }
    }
    lines.join("\n") + "\n"
}

fn title(case: &Case) -> String {
    if case.base.is_empty() {
        format!("**{}**", case.name)
    } else {
        format!("**{}** (base: {})", case.name, case.base)
    }
}

/// A line of JSON for each subject: the medians of all its values.
pub fn json(case: &Case, all: &[Measured]) -> String {
    let line = |measured: &Measured| {
        let names: BTreeSet<&str> =
            measured.samples.iter().flatten().map(|(name, _)| *name).collect();
        let mut line = Map::new();
        line.insert("case".to_owned(), json!(case.name));
        line.insert("subject".to_owned(), json!(measured.name));
        for name in names {
            let value = median(measured.values(name)).map(|value| (value * 1e3).round() / 1e3);
            line.insert(name.to_owned(), json!(value));
        }
        Value::Object(line).to_string()
    };
    all.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Puts the table of a case in place of the table with its name in a page of results.
///
/// # Errors
/// When no page has such a table, or a page cannot be read or written.
pub fn write(case: &str, table: &str) -> Result<(), String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/results");
    let failed = |error: std::io::Error| format!("{folder}: {error}");
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let page = fs::read_to_string(&path).map_err(failed)?;
        if let Some(written) = with_table(&page, case, table) {
            return fs::write(&path, written).map_err(failed);
        }
    }
    Err(format!("no page of {folder} has a table below **{case}**"))
}

/// A page with another table below the name of a case; nothing where it has none.
fn with_table(page: &str, case: &str, table: &str) -> Option<String> {
    let (before, rest) = page.split_once(&format!("\n**{case}**"))?;
    let after = rest.lines().skip(2).skip_while(|line| line.starts_with('|'));
    let after: String = after.map(|line| format!("{line}\n")).collect();
    Some(format!("{before}\n{table}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const COLUMNS: &[Column] = &[
        median_of("per_s", "per second", 0),
        spread_of("cpu_us", "CPU us, least to most", 2),
        least_of("cpu_us", "least", 1),
        median_of("bytes", "bytes", 0),
        ratio_of("cpu_us", "of the base"),
    ];

    fn case() -> Case {
        let (name, length) = ("p1".to_owned(), Duration::ZERO);
        Case { name, base: "floor", columns: COLUMNS, rounds: 3, length, subjects: Vec::new() }
    }

    fn measured() -> [Measured; 2] {
        [("ours", [3.0, 8.0, 4.0]), ("floor", [2.0, 5.0, 2.0])].map(|(name, cpu_us)| {
            let rounds = cpu_us.map(|cpu_us| vec![("cpu_us", cpu_us), ("per_s", 10.4)]);
            let mut samples = rounds.to_vec();
            samples.push(if name == "ours" { vec![("bytes", 7.0)] } else { Vec::new() });
            Measured { name: name.to_owned(), samples }
        })
    }

    #[test]
    fn a_page_gets_a_row_for_each_subject_and_ratios_of_each_round() {
        let expected = "\
**p1** (base: floor)

| subject | per second | CPU us, least to most | least | bytes | of the base |
|---------|-----------:|----------------------:|------:|------:|------------:|
| `ours`  |         10 |           3.00 - 8.00 |   3.0 |     7 |        1.60 |
| `floor` |         10 |           2.00 - 5.00 |   2.0 |       |        1.00 |
";
        assert_eq!(markdown(&case(), &measured()), expected);
    }

    #[test]
    fn a_line_has_the_median_of_each_value() {
        let lines = json(&case(), &measured());
        let first = r#"{"bytes":7.0,"case":"p1","cpu_us":4.0,"per_s":10.4,"subject":"ours"}"#;
        assert_eq!(lines.lines().next(), Some(first));
    }

    #[test]
    fn a_table_takes_the_place_of_the_table_with_its_name() {
        let page = "# A\n\n**p1** (base: x)\n\n| a |\n|---|\n| 1 |\n\n**p2**\n\n| b |\n";
        let written = with_table(page, "p1", "**p1** (base: y)\n\n| new |\n");
        let expected = "# A\n\n**p1** (base: y)\n\n| new |\n\n**p2**\n\n| b |\n";
        assert_eq!(written.as_deref(), Some(expected));
        assert_eq!(with_table(page, "p3", ""), None);
    }
}
