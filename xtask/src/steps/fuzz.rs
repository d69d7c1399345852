//! The fuzz step: the targets build. They include files of the server, which do not refer to them.

use anyhow::Result;

use crate::context::Context;
use crate::process::{cargo, run_as_step};
use crate::step::Outcome;

const CHECK: &[&str] =
    &["check", "--manifest-path", "fuzz/Cargo.toml", "--locked", "--target-dir", "target/fuzz"];

/// Checks them with the project's compiler; running them needs a nightly one (`fuzz/README.md`).
pub(super) fn run(context: &mut Context) -> Result<Outcome> {
    run_as_step(&mut cargo(context, CHECK))
}
