//! The steps that check the dependencies, with cargo-deny and the rules in `deny.toml`.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::installed::Tool;
use crate::context::Context;
use crate::process::{run_as_step, succeeds};
use crate::step::Outcome;

const DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2", arguments: &[] };

/// Checks licences, banned and doubled crates, and sources, all without a network.
pub(super) fn policy(context: &mut Context) -> Result<Outcome> {
    let tool = DENY.path(context)?;
    run_as_step(&mut deny(&tool, context, &["check", "licenses", "bans", "sources"]))
}

/// Checks for known vulnerabilities, if the advisory database can be fetched.
///
/// If it cannot be fetched, nothing is known about the dependencies: that is neither a pass nor a
/// failure.
pub(super) fn advisories(context: &mut Context) -> Result<Outcome> {
    let tool = DENY.path(context)?;
    if !succeeds(&mut deny(&tool, context, &["fetch", "db"]))? {
        return Ok(Outcome::NotRun("the advisory database could not be fetched".into()));
    }
    run_as_step(&mut deny(&tool, context, &["check", "--disable-fetch", "advisories"]))
}

fn deny(tool: &Path, context: &Context, arguments: &[&str]) -> Command {
    let mut command = Command::new(tool);
    command.arg("--all-features").args(arguments).current_dir(context.root());
    command
}
