//! `cargo xtask test`: runs the steps one after another and reports how each ended.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::cli::TestArgs;
use crate::context::Context;
use crate::step::{Outcome, Step};
use crate::steps;
use crate::summary::{self, Row};

/// Runs the chosen steps; returns whether none failed.
///
/// # Errors
///
/// Returns an error if the workspace cannot be read at all, so that no step could run.
pub(crate) fn test(which: &TestArgs) -> Result<bool> {
    let mut context = Context::load()?;
    let rows: Vec<Row> = steps::LIST.iter().map(|step| row(step, which, &mut context)).collect();
    close(&rows, &context)?;
    Ok(!rows.iter().any(|row| row.outcome.is_failure()))
}

fn row(step: &Step, which: &TestArgs, context: &mut Context) -> Row {
    if let Some(why) = which.left_out(step.name, step.when) {
        return Row { name: step.name, outcome: Outcome::NotRun(why.into()), took: None };
    }
    println!("\n=== {}: {}", step.name, step.what);
    let begun = now();
    let outcome = (step.run)(context).unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")));
    let took = now().duration_since(begun);
    say_end(step.name, &outcome, took);
    Row { name: step.name, outcome, took: Some(took) }
}

fn say_end(name: &str, outcome: &Outcome, took: Duration) {
    let (word, why) = summary::words(outcome);
    let colon = if why.is_empty() { "" } else { ": " };
    println!("--- {name} {word} after {:.1} s{colon}{why}", took.as_secs_f64());
}

/// Prints the table, and below it, on a line of its own, the sum over all tests that ran.
fn close(rows: &[Row], context: &Context) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "\n{}", summary::table(rows))?;
    if let Some(tally) = &context.tally {
        writeln!(out, "{tally}")?;
    }
    out.flush()
}

#[expect(clippy::disallowed_methods, reason = "tells how long a step took, decides nothing")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;
    use crate::step::When;

    fn broken(_: &mut Context) -> Result<Outcome> {
        bail!("no such tool")
    }

    fn step(when: When) -> Step {
        Step { name: "broken", what: "always ends in an error", when, run: broken }
    }

    #[test]
    fn an_error_is_a_failure_of_its_step_alone() {
        let mut context = Context::load().unwrap();
        let which = TestArgs { all: false, only: Vec::new() };
        let row = row(&step(When::Always), &which, &mut context);
        assert_eq!(row.outcome, Outcome::Failed("no such tool".into()));
    }

    #[test]
    fn a_step_left_out_says_why_and_takes_no_time() {
        let mut context = Context::load().unwrap();
        let which = TestArgs { all: false, only: Vec::new() };
        let row = row(&step(When::All), &which, &mut context);
        assert_eq!(row.outcome, Outcome::NotRun("long: runs with --all".into()));
        assert_eq!(row.took, None);
    }
}
