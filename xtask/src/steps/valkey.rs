//! The valkey steps: run tests over Redis again over Valkey, from the system or from PyPI.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::programs::VALKEY;
use super::{programs, tests};
use crate::context::Context;
use crate::process::{answers, cargo};
use crate::step::Outcome;

/// The server that tests start instead of `redis-server`.
const SERVER: &str = "valkey-server";

/// The tests that start a store. Those of one crate alone would be built again, with fewer features of other crates.
const OF_SCRIPTS: [&str; 2] =
    ["--workspace --test scripts --", "--workspace --test conformance -- redis cluster"];

/// The tests of what stands around the scripts, which does not depend on the program that runs them.
const OF_STORES: [&str; 2] =
    ["--workspace --test stores --", "--workspace --test server -- store::"];

/// The test of what a log saves next to a sorted set of Redis: one of Valkey takes less memory.
const OF_REDIS: &[&str] = &["--skip", "a_log_takes_a_ninth_of_the_memory_of_a_sorted_set"];

/// The test of a store inside TLS, which the program from PyPI is built without.
const INSIDE_TLS: &str = "tls_goes_only_to_who_has_a_certificate_that_is_trusted";

/// Runs the tests of scripts, or reports why they were not run.
pub(super) fn scripts(context: &mut Context) -> Result<Outcome> {
    run(OF_SCRIPTS, context)
}

/// Runs the tests of stores, or reports why they were not run.
pub(super) fn stores(context: &mut Context) -> Result<Outcome> {
    run(OF_STORES, context)
}

fn run(suites: [&str; 2], context: &mut Context) -> Result<Outcome> {
    if answers(Command::new(SERVER).arg("--version")) {
        return run_over(Path::new(SERVER), suites, &[], context);
    }
    if let Err(missing) = VALKEY.need(&context.tools()) {
        return Ok(Outcome::NotRun(missing.to_string()));
    }
    let server = VALKEY.path(&context.tools());
    run_over(&server, suites, &["--skip", INSIDE_TLS], context)
}

fn run_over(
    server: &Path,
    suites: [&str; 2],
    besides: &[&str],
    context: &mut Context,
) -> Result<Outcome> {
    programs::need_all(context)?;
    let mut failed = Vec::new();
    for suite in suites {
        let mut test = cargo(context, &format!("test --all-features --locked {suite}"));
        test.args(OF_REDIS).args(besides).env("TIDEGATE_STORE_SERVER", server);
        // Most tests over Redis send each call by the store's thread.
        test.env("TIDEGATE_DIRECT", "1");
        if let Outcome::Failed(why) = tests::counted(&mut test, context)? {
            failed.push(format!("{why} over {}", server.display()));
        }
    }
    Ok(Outcome::from_failures(&failed))
}

#[cfg(test)]
mod cases {
    use super::*;

    #[test]
    fn the_test_that_needs_tls_is_there_to_be_left_out() {
        let file = "../crates/tidegate/tests/stores/secured.rs";
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        assert!(std::fs::read_to_string(file).unwrap().contains(INSIDE_TLS));
    }
}
