//! The loom step: the models of the memory store, under every interleaving of their threads.

use anyhow::Result;

use super::tests;
use crate::context::Context;
use crate::process::cargo;
use crate::step::Outcome;

/// Optimised, for a model runs many thousand times over.
const TEST: &[&str] =
    &["test", "--release", "--locked", "--package", "tidegate", "--lib", "--", "models"];

/// Builds with the model checker's primitives in place of the standard library's, below a target
/// folder of its own: the flag is part of every build, and would have all others begin anew.
pub(super) fn run(context: &mut Context) -> Result<Outcome> {
    let target = context.metadata.target_directory.join("loom");
    let mut test = cargo(context, TEST);
    test.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", target);
    tests::counted(&mut test, context)
}
