//! The bench step: checks the workspace of the benchmarks like the main one, and the pages about its peers.

use anyhow::Result;

use super::programs::{NGINX, need};
use super::{components, tests};
use crate::bench::in_bench;
use crate::context::Context;
use crate::process::succeeds;
use crate::step::Outcome;

const FORMAT: &str = "fmt --check -- -l";
const LINT: &str = "clippy --all-targets --locked -- -D warnings";
const TEST: &str = "test --locked";

/// Checks and tests the workspace, without measuring. The first run builds every peer.
pub(super) fn run(context: &mut Context) -> Result<Outcome> {
    components::need(context, "fmt", "rustfmt")?;
    components::need(context, "clippy", "clippy")?;
    need(&NGINX)?;
    let mut failed = Vec::new();
    for (name, words) in [("format", FORMAT), ("clippy", LINT)] {
        if !succeeds(&mut in_bench(context, words))? {
            failed.push(format!("{name} in bench/"));
        }
    }
    let mut test = in_bench(context, TEST);
    match tests::counted(&mut test, context)? {
        Outcome::Failed(why) => failed.push(format!("{why} in bench/")),
        Outcome::Passed(_) | Outcome::NotRun(_) => {}
    }
    Ok(Outcome::from_failures(&failed))
}
