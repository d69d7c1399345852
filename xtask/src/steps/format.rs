//! The format step: rustfmt changes nothing.

use anyhow::Result;

use super::components;
use crate::context::Context;
use crate::process::{cargo, succeeds};
use crate::step::Outcome;

/// Checks every crate, and lists only the files.
pub(super) fn run(context: &mut Context) -> Result<Outcome> {
    components::need(context, "fmt", "rustfmt")?;
    let clean = succeeds(&mut cargo(context, &["fmt", "--all", "--check", "--", "-l"]))?;
    if clean {
        return Ok(Outcome::passed());
    }
    Ok(Outcome::Failed("`cargo fmt --all` mends what is listed above".into()))
}
