//! The results: a table for people, one JSON object a line for scripts, and a table for a page.

use super::cases::Case;
use super::{closed_loop, polite};
use crate::pauses::least_above;
use crate::redis_server::Did;
use crate::report;
use crate::rounds::Form;
use serde::Serialize;
use std::io::{self, Write};
use std::time::Duration;

/// One line of `--json`. Names and units of the fields are what scripts rely on.
#[derive(Debug, Default, Serialize)]
pub struct Line {
    pub scenario: String,
    pub load: String,
    pub servers: usize,
    pub setting: String,
    /// Units that callers were told they may take, over the limits.
    pub over: u64,
    /// The same of polite callers.
    pub polite_over: u64,
    /// The part of the questions of polite callers that the store decided, from 0 to 1.
    pub polite_exact: f64,
    pub polite_p99_us: f64,
    /// Decisions of the store, per second.
    pub exact_per_s: f64,
    /// The same of the server that had the fewest, in parts of an even share.
    pub least_share: f64,
    /// Decisions that were taken in the server, per second; under `closed` they are refusals.
    pub local_per_s: f64,
    pub shed_per_s: f64,
    pub exact_p50_us: f64,
    pub exact_p99_us: f64,
    pub local_p50_us: f64,
    pub local_p99_us: f64,
    pub shed_p50_us: f64,
    pub shed_p99_us: f64,
    /// From when the load stopped until the last answer to a polite caller that the store did not decide.
    pub until_exact_ms: f64,
    pub unanswered: usize,
    /// Scripts that the store ran, by its own count.
    pub scripts_per_s: f64,
    /// CPU time of the store per decision of its own.
    pub store_cpu_us: f64,
}

const HEADINGS: [&str; 17] = [
    "servers, setting",
    "over",
    "polite over",
    "polite exact, %",
    "polite p99 ms",
    "exact/s",
    "least server, %",
    "local/s",
    "shed/s",
    "exact p50 ms",
    "exact p99 ms",
    "local or shed p50 ms",
    "local or shed p99 ms",
    "until exact ms",
    "unanswered",
    "scripts/s",
    "store CPU us",
];

impl Line {
    /// Makes the line from the callers' and the store's results.
    pub fn of(
        case: &Case,
        length: Duration,
        mut answer: closed_loop::Answered,
        mut polite: polite::Answered,
        did: Did,
    ) -> Self {
        let per_s = |count: usize| (count as f64 / length.as_secs_f64()).round();
        let exact: u64 = answer.exact_by_server.iter().sum();
        let least = answer.exact_by_server.iter().min().copied().unwrap_or_default();
        let [exact_p50_us, exact_p99_us] = percentiles(&mut answer.exact_us);
        let [p50_us, p99_us] = percentiles(&mut answer.other_us);
        let line = Self {
            scenario: case.scenario.to_string(),
            load: case.load.to_string(),
            servers: case.servers,
            setting: case.setting.to_string(),
            over: case.scenario.over(&answer.admitted),
            polite_over: polite.over,
            polite_exact: polite.exact as f64 / polite.asked.max(1) as f64,
            polite_p99_us: percentiles(&mut polite.us)[1],
            exact_per_s: per_s(answer.exact_us.len()),
            least_share: (least * case.servers as u64) as f64 / exact.max(1) as f64,
            exact_p50_us,
            exact_p99_us,
            until_exact_ms: (polite.until_exact.as_secs_f64() * 1e4).round() / 10.0,
            unanswered: answer.unanswered,
            scripts_per_s: per_s(did.scripts as usize),
            store_cpu_us: did.cpu_us as f64 / exact.max(1) as f64,
            ..Self::default()
        };
        let other = per_s(answer.other_us.len());
        match case.setting.other() {
            "shed" => Self { shed_per_s: other, shed_p50_us: p50_us, shed_p99_us: p99_us, ..line },
            _ => Self { local_per_s: other, local_p50_us: p50_us, local_p99_us: p99_us, ..line },
        }
    }

    fn row(&self) -> Vec<String> {
        let ms = |us: f64| format!("{:.2}", us / 1_000.0);
        let percent = |share: f64| format!("{:.1}", 100.0 * share);
        vec![
            format!("{} {}", self.servers, self.setting),
            self.over.to_string(),
            self.polite_over.to_string(),
            percent(self.polite_exact),
            ms(self.polite_p99_us),
            self.exact_per_s.to_string(),
            percent(self.least_share),
            self.local_per_s.to_string(),
            self.shed_per_s.to_string(),
            ms(self.exact_p50_us),
            ms(self.exact_p99_us),
            ms(self.local_p50_us + self.shed_p50_us),
            ms(self.local_p99_us + self.shed_p99_us),
            self.until_exact_ms.to_string(),
            self.unanswered.to_string(),
            self.scripts_per_s.to_string(),
            format!("{:.2}", self.store_cpu_us),
        ]
    }
}

/// Half of them, and 99 of 100; 0 where there is none.
fn percentiles(us: &mut [u32]) -> [f64; 2] {
    us.sort_unstable();
    [0.5, 0.99].map(|share| if us.is_empty() { 0.0 } else { least_above(us, share).into() })
}

/// Prints lines of one scenario and one load.
///
/// # Errors
/// When standard output cannot be written to.
pub fn print(lines: &[Line], form: Form) -> Result<(), String> {
    let mut out = io::stdout().lock();
    write(&mut out, lines, form).map_err(|problem| format!("cannot print: {problem}"))
}

fn write(out: &mut impl Write, lines: &[Line], form: Form) -> io::Result<()> {
    let name = lines.first().map(|line| format!("{}, {}", line.scenario, line.load));
    let name = name.unwrap_or_default();
    let rows = lines.iter().map(Line::row);
    if form.is_json() {
        for line in lines {
            writeln!(out, "{}", serde_json::to_string(line)?)?;
        }
    } else if form.is_markdown() {
        writeln!(out, "\n**{name}**\n\n| {} |", HEADINGS.join(" | "))?;
        writeln!(out, "|---{}|", "|---:".repeat(HEADINGS.len() - 1))?;
        for row in rows {
            writeln!(out, "| {} |", row.join(" | "))?;
        }
    } else {
        let headings = HEADINGS.map(str::to_owned).to_vec();
        writeln!(out, "\n{name}\n{}", report::ruled(headings, rows))?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overload::cases::{Scenario, Setting};

    #[test]
    fn a_line_says_what_was_over_and_who_decided() {
        let case = Case::all().into_iter().find(|case| {
            case.setting == Setting::Local && case.servers == 4 && case.scenario == Scenario::OneKey
        });
        let answer = closed_loop::Answered {
            admitted: vec![505],
            exact_us: vec![7; 300],
            other_us: vec![9; 100],
            exact_by_server: vec![100, 100, 60, 40],
            ..closed_loop::Answered::default()
        };
        let polite = polite::Answered { asked: 10, exact: 9, ..polite::Answered::default() };
        let did = Did { scripts: 20, cpu_us: 600, network_bytes: 0 };
        let line = Line::of(&case.unwrap(), Duration::from_secs(10), answer, polite, did);
        assert_eq!((line.over, line.exact_per_s, line.local_per_s), (5, 30.0, 10.0));
        assert_eq!((line.shed_per_s, line.scripts_per_s, line.store_cpu_us), (0.0, 2.0, 2.0));
        assert!((line.least_share - 40.0 / 75.0).abs() < 1e-9);
        assert!((line.polite_exact - 0.9).abs() < 1e-9);
        assert_eq!(line.row().len(), HEADINGS.len());
    }
}
