//! The output: a table for people, one JSON object a line for scripts, and a table for a page.

use super::Sample;
use crate::measure::median;
use crate::report;
use crate::rounds::Form;
use serde::Serialize;
use std::io::{self, Write};

const HEADINGS: [&str; 8] = [
    "subject",
    "per second",
    "of the first",
    "round trips",
    "redis CPU us",
    "client CPU us",
    "bytes",
    "p99 us",
];

/// The medians of one subject.
pub struct Row {
    name: &'static str,
    sample: Sample,
    rates: Vec<f64>,
}

/// One line of `--json`. Names and units of the fields are what scripts rely on.
#[derive(Serialize)]
struct Line<'a> {
    case: &'a str,
    subject: &'a str,
    per_s: f64,
    round_trips: f64,
    redis_cpu_us: f64,
    client_cpu_us: f64,
    network_bytes: f64,
    p99_us: f64,
}

impl Row {
    /// Makes the row of all rounds.
    pub fn of(name: &'static str, samples: &[Sample]) -> Self {
        let of = |value: fn(&Sample) -> f64| {
            let mut all: Vec<f64> = samples.iter().map(value).collect();
            all.sort_unstable_by(f64::total_cmp);
            (median(&all) * 1e3).round() / 1e3
        };
        let sample = Sample {
            per_s: of(|one| one.per_s).round(),
            round_trips: of(|one| one.round_trips),
            redis_cpu_us: of(|one| one.redis_cpu_us),
            client_cpu_us: of(|one| one.client_cpu_us),
            network_bytes: of(|one| one.network_bytes).round(),
            p99_us: of(|one| one.p99_us).round(),
        };
        Self { name, sample, rates: samples.iter().map(|one| one.per_s).collect() }
    }

    /// The median of the rounds' own ratios: both were measured in each round, under the same load.
    fn ratio(&self, base: &Self) -> f64 {
        let mut all: Vec<f64> = self.rates.iter().zip(&base.rates).map(|(a, b)| a / b).collect();
        all.sort_unstable_by(f64::total_cmp);
        median(&all)
    }

    fn words(&self, base: &Self) -> Vec<String> {
        let Sample { per_s, round_trips, redis_cpu_us, client_cpu_us, network_bytes, p99_us } =
            self.sample;
        vec![
            self.name.to_owned(),
            format!("{per_s:.0}"),
            format!("{:.2}", self.ratio(base)),
            format!("{round_trips:.3}"),
            format!("{redis_cpu_us:.3}"),
            format!("{client_cpu_us:.2}"),
            format!("{network_bytes:.0}"),
            format!("{p99_us:.0}"),
        ]
    }
}

/// Prints a case to standard output.
///
/// # Errors
/// When that cannot be written to.
pub fn print(case: &str, rows: &[Row], form: Form) -> Result<(), String> {
    let Some(base) = rows.first() else { return Ok(()) };
    let mut out = io::stdout().lock();
    let printed = if form.is_json() {
        rows.iter().try_for_each(|row| json(&mut out, case, row))
    } else if form.is_markdown() {
        markdown(&mut out, case, rows, base)
    } else {
        let words = rows.iter().map(|row| row.words(base));
        writeln!(out, "\n{case}\n{}", report::ruled(HEADINGS.map(str::to_owned).to_vec(), words))
    };
    printed.map_err(|error| format!("cannot print: {error}"))
}

fn json(out: &mut impl Write, case: &str, row: &Row) -> io::Result<()> {
    let Sample { per_s, round_trips, redis_cpu_us, client_cpu_us, network_bytes, p99_us } =
        row.sample;
    let subject = row.name;
    let line = Line {
        case,
        subject,
        per_s,
        round_trips,
        redis_cpu_us,
        client_cpu_us,
        network_bytes,
        p99_us,
    };
    writeln!(out, "{}", serde_json::to_string(&line)?)
}

fn markdown(out: &mut impl Write, case: &str, rows: &[Row], base: &Row) -> io::Result<()> {
    writeln!(out, "\n**{case}**\n\n| {} |\n| ---{} |", HEADINGS.join(" | "), " | ---:".repeat(7))?;
    rows.iter().try_for_each(|row| writeln!(out, "| {} |", row.words(base).join(" | ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_fields_that_scripts_rely_on() {
        let samples = [3.0, 1.0, 2.0].map(|per_s| Sample { per_s, ..Sample::default() });
        let mut out = Vec::new();
        json(&mut out, "one hot key", &Row::of("exact", &samples)).unwrap();
        let expected = r#"{"case":"one hot key","subject":"exact","per_s":2.0,"round_trips":0.0,"redis_cpu_us":0.0,"client_cpu_us":0.0,"network_bytes":0.0,"p99_us":0.0}"#;
        assert_eq!(String::from_utf8(out).unwrap().trim_end(), expected);
    }

    #[test]
    fn a_ratio_is_the_median_of_what_each_round_gave() {
        let of = |rates: [f64; 3]| {
            Row::of("", &rates.map(|per_s| Sample { per_s, ..Sample::default() }))
        };
        assert!((of([2.0, 9.0, 4.0]).ratio(&of([1.0, 3.0, 1.0])) - 3.0).abs() < 1e-9);
    }
}
