//! The steps that are one command of cargo: format, clippy, docs and fuzz.

use anyhow::Result;

use super::components;
use crate::context::Context;
use crate::process::{cargo, run_as_step, succeeds};
use crate::step::Outcome;

const LINT: &str = "clippy --workspace --all-targets --all-features -- -D warnings";

/// With an example, what the crates need has the features that it has for tests, and clippy has checked it already.
const DOC: &str = "doc --workspace --no-deps --all-features --lib --bin xtask --example payment";

const CHECK: &str = "check --manifest-path fuzz/Cargo.toml --locked --target-dir target/fuzz";

/// Checks that rustfmt changes nothing, and lists only the files.
pub(super) fn format(context: &mut Context) -> Result<Outcome> {
    components::need(context, "fmt", "rustfmt")?;
    if succeeds(&mut cargo(context, "fmt --all --check -- -l"))? {
        return Ok(Outcome::passed());
    }
    Ok(Outcome::Failed("`cargo fmt --all` mends what is listed above".into()))
}

/// Lints every target with all features, warnings denied.
pub(super) fn clippy(context: &mut Context) -> Result<Outcome> {
    components::need(context, "clippy", "clippy")?;
    run_as_step(&mut cargo(context, LINT))
}

/// Builds the documentation of all crates with all features, warnings denied.
pub(super) fn docs(context: &mut Context) -> Result<Outcome> {
    run_as_step(cargo(context, DOC).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Builds the fuzz targets with the project's compiler; they include files of the server, which do not refer to them.
/// Running them needs a nightly compiler (`fuzz/README.md`).
pub(super) fn fuzz(context: &mut Context) -> Result<Outcome> {
    run_as_step(&mut cargo(context, CHECK))
}
