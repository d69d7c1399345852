//! Prints the measurements: a table per case for people, or one JSON object per line.

use crate::cases::Case;
use crate::measure::{Measured, median};
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use std::io::{self, Write};

/// One line of `--json`. Names and units of the fields are what scripts rely on.
#[derive(Serialize)]
struct Line {
    group: &'static str,
    case: &'static str,
    subject: &'static str,
    threads: usize,
    ns_cpu: f64,
    ns_wall: f64,
    bytes_per_key: Option<f64>,
}

/// One line per subject of `case`, in the order of the list.
///
/// # Errors
/// When `out` cannot be written to.
pub fn json(out: &mut impl Write, case: &Case, values: &[Measured]) -> io::Result<()> {
    for one in values {
        let line = Line {
            group: case.group,
            case: case.name,
            subject: one.subject,
            threads: case.threads,
            ns_cpu: rounded(median(&one.cpu_ns)),
            ns_wall: rounded(median(&one.wall_ns)),
            bytes_per_key: one.bytes_per_key.map(rounded),
        };
        writeln!(out, "{}", serde_json::to_string(&line)?)?;
    }
    Ok(())
}

/// A table of the subjects of `case`, fastest first.
///
/// # Errors
/// When `out` cannot be written to.
pub fn table(out: &mut impl Write, case: &Case, values: &[Measured]) -> io::Result<()> {
    let base = values.iter().find(|one| one.subject == case.base).map(|one| score(case, one));
    let mut sorted: Vec<&Measured> = values.iter().collect();
    sorted.sort_by(|a, b| score(case, a).total_cmp(&score(case, b)));
    let rows = sorted.into_iter().map(|one| row(case, one, base));
    writeln!(out, "\n{}: {}\n{}", case.group, case.name, ruled(headings(case), rows))
}

/// Rows under headings; the first column holds names, the others figures.
pub fn ruled(headings: Vec<String>, rows: impl IntoIterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    table.set_header(headings);
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn headings(case: &Case) -> Vec<String> {
    let (measure, base) = (measure(case), case.base);
    let spread = format!("{measure}, least to most");
    let ratio = format!("{measure} / {base}");
    ["subject", "cpu ns", "wall ns", &spread, &ratio, "bytes/key"].map(str::to_owned).to_vec()
}

fn row(case: &Case, one: &Measured, base: Option<f64>) -> Vec<String> {
    let spread = match (deciding(case, one).first(), deciding(case, one).last()) {
        (Some(least), Some(most)) => format!("{least:.1} - {most:.1}"),
        _ => String::new(),
    };
    vec![
        one.subject.to_owned(),
        format!("{:.1}", median(&one.cpu_ns)),
        format!("{:.1}", median(&one.wall_ns)),
        spread,
        base.map(|base| format!("{:.2}", score(case, one) / base)).unwrap_or_default(),
        one.bytes_per_key.map(|bytes| format!("{bytes:.0}")).unwrap_or_default(),
    ]
}

/// Subjects are compared by CPU time, which other processes disturb least; but threads by wall time, because the waits
/// for each other are the point.
fn deciding<'a>(case: &Case, one: &'a Measured) -> &'a [f64] {
    match case.threads {
        1 => &one.cpu_ns,
        _ => &one.wall_ns,
    }
}

fn measure(case: &Case) -> &'static str {
    match case.threads {
        1 => "cpu",
        _ => "wall",
    }
}

fn score(case: &Case, one: &Measured) -> f64 {
    median(deciding(case, one))
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
