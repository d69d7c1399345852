//! The loom step: the models of the memory store, under every interleaving of their threads.

use std::process::Command;

use anyhow::Result;

use super::tests;
use crate::context::Context;
use crate::process::{cargo, succeeds};
use crate::step::Outcome;

/// Optimised, because a model runs many thousand times.
const TEST: &str = "test --release --locked --package tidegate --lib -- models";

const CHECK: &str = "check --locked --package tidegate --lib --profile test";

/// Builds with the model checker's primitives instead of the standard library's, in a target folder
/// of its own: the flag is part of every build, and would invalidate all others.
pub(super) fn run(context: &mut Context) -> Result<Outcome> {
    tests::counted(&mut of_models(context, TEST), context)
}

/// Checks that the models build, which is quick; they run only on request.
pub(super) fn builds(context: &Context) -> Result<bool> {
    succeeds(&mut of_models(context, CHECK))
}

fn of_models(context: &Context, words: &str) -> Command {
    let target = context.metadata.target_directory.join("loom");
    let mut command = cargo(context, words);
    command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", target);
    command
}
