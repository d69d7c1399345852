//! The steps that check the dependencies, with cargo-deny and the rules in `deny.toml`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::context::Context;
use crate::process::{answers, cargo, run_as_step, succeeds};
use crate::step::Outcome;

/// Pinned, so that a new release cannot change the results.
const VERSION: &str = "0.20.2";

/// Checks licences, banned and doubled crates, and sources, all without a network.
pub(super) fn policy(context: &mut Context) -> Result<Outcome> {
    let tool = installed(context)?;
    run_as_step(&mut deny(&tool, context, &["check", "licenses", "bans", "sources"]))
}

/// Checks for known vulnerabilities, if the advisory database can be fetched.
///
/// If it cannot be fetched, nothing is known about the dependencies: that is neither a pass nor a
/// failure.
pub(super) fn advisories(context: &mut Context) -> Result<Outcome> {
    let tool = installed(context)?;
    if !succeeds(&mut deny(&tool, context, &["fetch", "db"]))? {
        return Ok(Outcome::NotRun("the advisory database could not be fetched".into()));
    }
    run_as_step(&mut deny(&tool, context, &["check", "--disable-fetch", "advisories"]))
}

/// The path of cargo-deny, which is installed if it is missing.
fn installed(context: &Context) -> Result<PathBuf> {
    let tool = binary(&context.tools());
    if answers(Command::new(&tool).arg("--version")) {
        return Ok(tool);
    }
    let mut install = cargo(context, &["install", "--locked", "cargo-deny"]);
    install.args(["--version", VERSION]).arg("--root").arg(folder(&context.tools()));
    if !succeeds(&mut install)? {
        bail!("cargo-deny {VERSION} could not be installed; is crates.io within reach?");
    }
    Ok(tool)
}

/// One folder for each version, so that a new pin is a new installation.
fn folder(tools: &Path) -> PathBuf {
    tools.join(format!("cargo-deny-{VERSION}"))
}

fn binary(tools: &Path) -> PathBuf {
    folder(tools).join("bin").join(format!("cargo-deny{}", std::env::consts::EXE_SUFFIX))
}

fn deny(tool: &Path, context: &Context, arguments: &[&str]) -> Command {
    let mut command = Command::new(tool);
    command.arg("--all-features").args(arguments).current_dir(context.root());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_of_the_tool_has_its_own_place() {
        let tool = binary(Path::new("target/tools"));
        assert!(tool.starts_with("target/tools/cargo-deny-0.20.2/bin"), "{}", tool.display());
    }
}
