//! The docs step: rustdoc builds without a warning.

use anyhow::Result;

use crate::context::Context;
use crate::process::{cargo, run_as_step};
use crate::step::Outcome;

/// Builds the documentation of all crates with all features, warnings denied.
pub(super) fn run(context: &mut Context) -> Result<Outcome> {
    let mut doc = cargo(context, &["doc", "--workspace", "--no-deps", "--all-features"]);
    run_as_step(doc.env("RUSTDOCFLAGS", "-D warnings"))
}
