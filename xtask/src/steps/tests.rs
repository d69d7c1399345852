//! The steps that run tests, and count them.

use std::env;
use std::process::Command;
use std::thread;

use anyhow::Result;

use super::programs;
use crate::context::Context;
use crate::process::{cargo, run_tests};
use crate::step::Outcome;

/// All tests of all crates; documentation tests come with them.
const TEST: &str = "test --workspace --all-features --locked --no-fail-fast";

/// Sixteen times proptest's default.
const LONG_CASES: &str = "4096";

/// Runs every test with the flags of daily work.
pub(super) fn run(context: &mut Context) -> Result<Outcome> {
    programs::need_all(context)?;
    let mut test = cargo(context, TEST);
    counted(&mut test, context)
}

/// Runs every test optimised, with more cases; `TIDEGATE_LONG` makes random walks longer.
pub(super) fn long(context: &mut Context) -> Result<Outcome> {
    programs::need_all(context)?;
    let mut test = cargo(context, TEST);
    test.arg("--release").env("PROPTEST_CASES", LONG_CASES).env("TIDEGATE_LONG", "1");
    counted(&mut test, context)
}

/// Concurrent tests for each processor: most long ones wait for servers that they started.
const AT_A_TIME: usize = 3;

/// The environment variable with the number of concurrent tests.
const THREADS: &str = "RUST_TEST_THREADS";

/// Runs a command that runs tests, and adds up their results.
pub(super) fn counted(test: &mut Command, context: &mut Context) -> Result<Outcome> {
    if env::var_os(THREADS).is_none() {
        test.env(THREADS, at_a_time().to_string());
    }
    let tally = context.tally.get_or_insert_default();
    let outcome = run_tests(test, tally);
    if !matches!(outcome, Ok(Outcome::Passed(_))) {
        tally.run_failed();
    }
    outcome
}

fn at_a_time() -> usize {
    AT_A_TIME * thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod cases {
    use super::*;

    #[test]
    fn more_tests_run_at_a_time_than_there_are_processors_and_a_run_that_can_not_start_is_a_failure()
     {
        let mut context = Context::load().unwrap();
        let mut test = Command::new("no-such-program-here");
        counted(&mut test, &mut context).unwrap_err();
        let answer =
            test.get_envs().find(|(name, _)| *name == THREADS).and_then(|(_, value)| value);
        let expected = env::var_os(THREADS).is_none().then(|| at_a_time().to_string());
        assert_eq!(answer, expected.as_deref().map(AsRef::as_ref));
        assert_eq!(context.tally.unwrap().to_string(), "0 passed, 1 failed");
    }
}
