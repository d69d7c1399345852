//! The valkey step: runs all tests over Redis again over Valkey, if the system has it.

use std::process::Command;

use anyhow::Result;

use super::{programs, tests};
use crate::context::Context;
use crate::process::{answers, cargo};
use crate::step::Outcome;

/// The server that tests start instead of `redis-server`.
const SERVER: &str = "valkey-server";

/// The tests that start a store, by crate.
const SUITES: &[&[&str]] = &[
    &["--package", "tidegate", "--test", "scripts", "--test", "stores"],
    &["--package", "tidegate", "--test", "conformance", "--", "redis", "cluster"],
    &["--package", "tidegate-server", "--test", "server", "store::"],
];

/// Runs them, or reports that they were not run.
pub(super) fn run(context: &mut Context) -> Result<Outcome> {
    run_over(SERVER, context)
}

fn run_over(server: &str, context: &mut Context) -> Result<Outcome> {
    if !answers(Command::new(server).arg("--version")) {
        return Ok(Outcome::NotRun(format!("{server} is not on this system")));
    }
    programs::need_all(context)?;
    let mut failed = Vec::new();
    for suite in SUITES {
        let mut test = cargo(context, &["test", "--all-features", "--locked"]);
        test.args(*suite).env("TIDEGATE_STORE_SERVER", server);
        if let Outcome::Failed(why) = tests::counted(&mut test, context)? {
            failed.push(format!("{why} over {server}"));
        }
    }
    Ok(Outcome::from_failures(&failed))
}

#[cfg(test)]
mod cases {
    use super::*;

    #[test]
    fn a_server_that_is_not_there_is_told_and_is_no_failure() {
        let mut context = Context::load().unwrap();
        let outcome = run_over("no-such-server-here", &mut context).unwrap();
        assert_eq!(outcome, Outcome::NotRun("no-such-server-here is not on this system".into()));
        assert!(context.tally.is_none(), "nothing was counted");
    }
}
