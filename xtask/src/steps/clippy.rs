//! The clippy step: no lint anywhere, including tests and benchmarks.

use anyhow::Result;

use super::components;
use crate::context::Context;
use crate::process::{cargo, run_as_step};
use crate::step::Outcome;

const LINT: &[&str] =
    &["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];

/// Lints every target with all features, warnings denied.
pub(super) fn run(context: &mut Context) -> Result<Outcome> {
    components::need(context, "clippy", "clippy")?;
    run_as_step(&mut cargo(context, LINT))
}
