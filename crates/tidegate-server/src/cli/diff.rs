//! `tidegate diff` shows the changes between two configurations, and the callers that they affect. The crate
//! `tidegate-lab` compares; the answer to `PUT /v1/rules` shows the same.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use serde::Serialize;
use tidegate::Policy;
use tidegate::config::SectionValues;
use tidegate_lab::diff::PolicyDiff;

use super::guard::file;
use super::{lab, serve};
use crate::configuration::needs_restart;
use crate::failure::Failure;
use crate::policy;
use crate::stdout;

/// The exit code where there is no answer.
const TROUBLE: u8 = 2;

/// Say what changes from one configuration to another, and for whom
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code 0: they say the same; 1: they differ; 2: one of them cannot be read.

Example:  tidegate diff /etc/tidegate/rules.toml rules.toml"
)]
pub(crate) struct DiffArgs {
    /// The configuration before (TOML)
    #[arg(value_parser = file())]
    old: PathBuf,

    /// The configuration after
    #[arg(value_parser = file())]
    new: PathBuf,

    /// Output: text, or one JSON object
    #[arg(long, value_enum, default_value_t = DiffFormat::Text)]
    format: DiffFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DiffFormat {
    /// A line for each change
    Text,
    /// One JSON object
    Json,
}

/// The difference as JSON.
#[derive(Serialize)]
struct DiffJson<'a> {
    is_same: bool,
    #[serde(flatten)]
    diff: &'a PolicyDiff,
}

/// Compares two files.
pub(crate) fn run(args: &DiffArgs) -> Result<ExitCode, Failure> {
    let (old, old_server) = load(&args.old)?;
    let (new, new_server) = load(&args.new)?;
    let diff = PolicyDiff::between(&old, &new).with_section(
        "server",
        [&old_server, &new_server],
        needs_restart,
    );
    let is_same = diff.is_empty();
    let printed = match args.format {
        DiffFormat::Text => stdout::print(&format!("{diff}\n")),
        DiffFormat::Json => {
            lab::print_json(serde_json::to_string(&DiffJson { is_same, diff: &diff }))
        }
    };
    // Exit code 1 means that they differ, so a failure to print needs another.
    printed.map_err(|failure| failure.with_code(TROUBLE))?;
    Ok(if is_same { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn load(file: &Path) -> Result<(Policy, SectionValues), Failure> {
    serve::load(file).map_err(|found| policy::failure(&found))
}
