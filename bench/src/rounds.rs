//! The results of the rounds over programs, in three forms: a table for people, one
//! JSON object a line for scripts, and a table for a page.

use crate::measure::median;
use crate::report;
use clap::Args;
use serde::Serialize;
use std::io::{self, Write};

const HEADINGS: [&str; 9] = [
    "subject",
    "per second",
    "CPU us",
    "CPU us, least to most",
    "p50 us",
    "p99 us",
    "stolen, %",
    "bytes",
    "of the base",
];

/// The form in which measurements are printed.
#[derive(Args, Clone, Copy)]
pub struct Form {
    /// One JSON object per line instead of tables.
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Tables in Markdown, as they are in the document of the figures.
    #[arg(long)]
    markdown: bool,
}

impl Form {
    /// One JSON object a line.
    pub const fn is_json(self) -> bool {
        self.json
    }

    /// Tables of a page.
    pub const fn is_markdown(self) -> bool {
        self.markdown
    }
}

/// The result of one round for one subject.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Decisions per second of wall time.
    pub per_s: f64,
    /// CPU time of the process that decides, per decision, in microseconds.
    pub cpu_us: f64,
    /// Latency in microseconds: half of the decisions came sooner.
    pub p50_us: f64,
    /// Latency in microseconds: 99 of 100 decisions came sooner.
    pub p99_us: f64,
    /// The part of all cores' time that the machine's host took during that, from 0 to 1.
    pub stolen: f64,
}

/// The results of all rounds for one subject.
pub struct Subject {
    /// Its name.
    pub name: &'static str,
    /// One for each round.
    pub samples: Vec<Sample>,
    /// Memory of the process or the value that the case names.
    pub bytes: Option<u64>,
}

/// The subjects of one case, in the order of its list.
pub struct Case {
    /// Its name.
    pub name: String,
    /// The subject that the others are compared with.
    pub base: &'static str,
    /// The figure that is compared.
    pub by: By,
    /// The subjects.
    pub subjects: Vec<Subject>,
}

/// The number that is compared between subjects.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// CPU time per decision; less is better.
    Cpu,
    /// Decisions per second; more is better.
    Rate,
}

/// One line of `--json`. Names and units of the fields are what scripts rely on.
#[derive(Serialize)]
struct Line<'a> {
    case: &'a str,
    subject: &'static str,
    per_s: f64,
    cpu_us: f64,
    p50_us: f64,
    p99_us: f64,
    bytes: Option<u64>,
}

impl Case {
    /// Prints it to standard output.
    ///
    /// # Errors
    /// When that cannot be written to.
    pub fn print(&self, form: Form) -> Result<(), String> {
        let mut out = io::stdout().lock();
        let printed = match form {
            Form { json: true, .. } => self.json(&mut out),
            Form { markdown: true, .. } => self.markdown(&mut out),
            Form { .. } => self.table(&mut out),
        };
        printed.map_err(|problem| format!("cannot print: {problem}"))
    }

    fn json(&self, out: &mut impl Write) -> io::Result<()> {
        self.subjects.iter().try_for_each(|subject| {
            let Sample { per_s, cpu_us, p50_us, p99_us, stolen: _ } = subject.medians();
            let (case, subject, bytes) = (self.name.as_str(), subject.name, subject.bytes);
            let line = Line { case, subject, per_s: per_s.round(), cpu_us, p50_us, p99_us, bytes };
            writeln!(out, "{}", serde_json::to_string(&line)?)
        })
    }

    fn table(&self, out: &mut impl Write) -> io::Result<()> {
        let headings = HEADINGS.map(str::to_owned).to_vec();
        let rows = self.subjects.iter().map(|subject| self.row(subject));
        writeln!(out, "\n{} (base: {})\n{}", self.name, self.base(), report::ruled(headings, rows))
    }

    fn markdown(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "\n**{}** (base: {})\n", self.name, self.base())?;
        writeln!(out, "| {} |\n|---{}|", HEADINGS.join(" | "), "|---:".repeat(HEADINGS.len() - 1))?;
        self.subjects.iter().try_for_each(|subject| {
            let mut row = self.row(subject);
            if let Some(name) = row.first_mut() {
                *name = format!("`{name}`");
            }
            writeln!(out, "| {} |", row.join(" | "))
        })
    }

    fn base(&self) -> String {
        let what = if self.by == By::Cpu { "CPU" } else { "rate" };
        format!("{what} of {}", self.base)
    }

    fn row(&self, subject: &Subject) -> Vec<String> {
        let medians = subject.medians();
        let cpu = sorted(&subject.samples, |sample| sample.cpu_us);
        let spread = match cpu.as_slice() {
            [least, .., most] => format!("{least:.2} - {most:.2}"),
            _ => String::new(),
        };
        vec![
            subject.name.to_owned(),
            format!("{:.0}", medians.per_s),
            format!("{:.2}", medians.cpu_us),
            spread,
            format!("{:.0}", medians.p50_us),
            format!("{:.0}", medians.p99_us),
            format!("{:.1}", medians.stolen * 100.0),
            subject.bytes.map(|bytes| bytes.to_string()).unwrap_or_default(),
            self.ratio(subject).map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
        ]
    }

    /// The median of the rounds' own ratios: both were measured in each round, under the same load.
    fn ratio(&self, subject: &Subject) -> Option<f64> {
        let base = self.subjects.iter().find(|base| base.name == self.base)?;
        let both = subject.samples.iter().zip(&base.samples);
        let mut ratios: Vec<f64> = both.map(|(a, b)| self.by.of(a) / self.by.of(b)).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        Some(median(&ratios)).filter(|ratio| ratio.is_finite())
    }
}

impl By {
    fn of(self, sample: &Sample) -> f64 {
        match self {
            Self::Cpu => sample.cpu_us,
            Self::Rate => sample.per_s,
        }
    }
}

impl Subject {
    fn medians(&self) -> Sample {
        let of = |value: fn(&Sample) -> f64| median(&sorted(&self.samples, value));
        Sample {
            per_s: rounded(of(|sample| sample.per_s)),
            cpu_us: rounded(of(|sample| sample.cpu_us)),
            p50_us: rounded(of(|sample| sample.p50_us)),
            p99_us: rounded(of(|sample| sample.p99_us)),
            stolen: of(|sample| sample.stolen),
        }
    }
}

fn sorted(samples: &[Sample], value: fn(&Sample) -> f64) -> Vec<f64> {
    let mut values: Vec<f64> = samples.iter().map(value).collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case() -> Case {
        let subject = |name, cpu: [f64; 3]| Subject {
            name,
            samples: cpu
                .map(|cpu_us| Sample { per_s: 10.0, cpu_us, stolen: 0.125, ..Sample::default() })
                .to_vec(),
            bytes: None,
        };
        let subjects = vec![subject("ours", [3.0, 8.0, 4.0]), subject("floor", [2.0, 5.0, 2.0])];
        Case { name: "token_bucket p1".to_owned(), base: "floor", by: By::Cpu, subjects }
    }

    fn printed(print: impl Fn(&Case, &mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        print(&case(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_has_the_fields_that_scripts_rely_on() {
        let lines = printed(|case, out| case.json(out));
        let expected = r#"{"case":"token_bucket p1","subject":"ours","per_s":10.0,"cpu_us":4.0,"p50_us":0.0,"p99_us":0.0,"bytes":null}"#;
        assert_eq!(lines.lines().next(), Some(expected));
    }

    #[test]
    fn a_ratio_is_the_median_of_what_each_round_gave() {
        let case = case();
        assert_eq!(case.ratio(&case.subjects[0]), Some(1.6));
        assert_eq!(case.ratio(&case.subjects[1]), Some(1.0));
    }

    #[test]
    fn a_page_gets_a_row_for_each_subject() {
        let page = printed(|case, out| case.markdown(out));
        assert!(
            page.contains("| `ours` | 10 | 4.00 | 3.00 - 8.00 | 0 | 0 | 12.5 |  | 1.60 |"),
            "{page}"
        );
    }
}
