//! The docs step: rustdoc builds without a warning.

use anyhow::Result;

use crate::context::Context;
use crate::process::{cargo, run_as_step};
use crate::step::Outcome;

/// With an example, what the crates need has the features that it has for tests, and clippy has checked it already.
const DOC: &[&str] = &[
    "doc",
    "--workspace",
    "--no-deps",
    "--all-features",
    "--lib",
    "--bin",
    "xtask",
    "--example",
    "payment",
];

/// Builds the documentation of all crates with all features, warnings denied.
pub(super) fn run(context: &mut Context) -> Result<Outcome> {
    run_as_step(cargo(context, DOC).env("RUSTDOCFLAGS", "-D warnings"))
}
