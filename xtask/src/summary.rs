//! The table at the end of a run.

use std::time::Duration;

use crate::step::Outcome;

pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// The result of the step.
    pub(crate) outcome: Outcome,
    /// The time of the step, if it ran.
    pub(crate) took: Option<Duration>,
}

/// All rows under a heading, columns aligned, without a newline at the end.
pub(crate) fn table(rows: &[Row]) -> String {
    let heading = line("step", "result", "seconds", "remark");
    let rows = rows.iter().map(|row| {
        let (word, why) = words(&row.outcome);
        let seconds = row.took.map_or_else(|| "-".into(), |t| format!("{:.1}", t.as_secs_f64()));
        line(row.name, word, &seconds, why)
    });
    std::iter::once(heading).chain(rows).collect::<Vec<_>>().join("\n")
}

/// The word for the result of a step, and its remark.
pub(crate) fn words(outcome: &Outcome) -> (&'static str, &str) {
    match outcome {
        Outcome::Passed(remark) => ("ok", remark),
        Outcome::Failed(why) => ("FAILED", why),
        Outcome::NotRun(why) => ("not run", why),
    }
}

fn line(step: &str, result: &str, seconds: &str, remark: &str) -> String {
    format!("{step:<12} {result:<8} {seconds:>8}  {remark}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_tells_what_passed_failed_and_was_not_run() {
        let rows = [
            Row {
                name: "format",
                outcome: Outcome::passed(),
                took: Some(Duration::from_millis(640)),
            },
            Row {
                name: "house",
                outcome: Outcome::Failed("links".into()),
                took: Some(Duration::from_secs(75)),
            },
            Row { name: "long", outcome: Outcome::NotRun("with --all".into()), took: None },
        ];
        let expected = "\
step         result    seconds  remark
format       ok            0.6
house        FAILED       75.0  links
long         not run         -  with --all";
        assert_eq!(table(&rows), expected);
    }
}
