//! `tidegate check`: is a configuration sound?

use std::path::PathBuf;
use std::process::ExitCode;

use super::Failure;
use crate::{policy, stdout};

/// Check a configuration: exit code 0, or 2 with every mistake on standard error
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tidegate check rules.toml && systemctl restart tidegate")]
pub(crate) struct Args {
    /// The configuration, TOML
    file: PathBuf,
}

/// Reads the file as `serve` would, and says how many rules it has.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let policy = policy::load(&args.file)?;
    let rules = policy::count(&policy);
    stdout::print(&format!("{}: {rules}, no mistakes\n", args.file.display()))?;
    Ok(ExitCode::SUCCESS)
}
