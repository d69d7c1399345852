//! The fuzz step: the targets build. They hold files of the server, which know nothing of them.

use anyhow::Result;

use crate::context::Context;
use crate::process::{cargo, run_as_step};
use crate::step::Outcome;

const CHECK: &[&str] =
    &["check", "--manifest-path", "fuzz/Cargo.toml", "--locked", "--target-dir", "target/fuzz"];

/// Checks them with the compiler of the project; to run them takes a nightly one (`fuzz/README.md`).
pub(super) fn run(context: &mut Context) -> Result<Outcome> {
    run_as_step(&mut cargo(context, CHECK))
}
